"""Byte streams between a client and a kubelet: several over one connection, by SPDY or in a WebSocket.

A WebSocket of Kubernetes has channels, each a stream, or carries SPDY. In a message of v4.channel.k8s.io and
v5.channel.k8s.io the first byte is the number of the channel. With v5, channel 255 and a number end that channel.

Each stream buffers received data up to a limit. A client that sends more waits, with all its streams: neither SPDY, as
Kubernetes uses it, nor WebSockets can hold back one stream alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from typing import Protocol

from aiohttp import WSMsgType, web

_MOST = 1 << 20  # received bytes that are not yet read
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
TUNNEL = "SPDY/3.1+portforward.k8s.io"
"""SPDY inside a WebSocket."""
_CLOSE = 255
_GOODBYE = 2.0  # seconds for a client to answer the close of a WebSocket


class Wire(Protocol):
    """Both directions of a connection."""

    async def read(self) -> bytes:
        """Return some bytes; none at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the other side does not read. Raises `ConnectionError` if it has gone."""


class Stream:
    """One stream of a connection: a queue of received data, and a way to send."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._over = False  # no more data arrives
        self._unwanted = False
        self._readable, self._room = asyncio.Event(), asyncio.Event()
        self._room.set()

    async def read(self) -> bytes:
        """Return some bytes; none at the end."""
        while not self._chunks and not self._over:
            self._readable.clear()
            await self._readable.wait()
        if not self._chunks:
            return b""
        data = self._chunks.popleft()
        self._size -= len(data)
        self._room.set()
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the other side does not read. Raises `ConnectionError` if it has gone."""
        raise NotImplementedError

    async def end(self) -> None:
        """Send the end of the stream, if the protocol has one. Raises `ConnectionError`."""

    def ignore(self) -> None:
        """Drop received data, now and later."""
        self._unwanted = True
        self._chunks.clear()
        self._size = 0
        self._room.set()

    async def put(self, data: bytes) -> None:
        """Add received data when there is room."""
        await self._room.wait()
        if data and not self._unwanted and not self._over:
            self._chunks.append(data)
            self._size += len(data)
            self._readable.set()
            if self._size >= _MOST:
                self._room.clear()

    def finish(self) -> None:
        """Record that no more data arrives."""
        self._over = True
        self._readable.set()
        self._room.set()


async def upgrade(request: web.BaseRequest, protocols: Collection[str]) -> web.WebSocketResponse | None:
    """Return the WebSocket that a request asks for; None if it asks for none, or for another protocol."""
    websocket = web.WebSocketResponse(protocols=protocols, max_msg_size=0, compress=False, timeout=_GOODBYE)
    found = websocket.can_prepare(request)
    if not found or found.protocol is None:
        return None
    await websocket.prepare(request)
    return websocket


class WebSocketWire:
    """The bytes in the messages of a WebSocket; see `Wire`."""

    def __init__(self, websocket: web.WebSocketResponse) -> None:
        self._websocket = websocket

    async def read(self) -> bytes:
        while (message := await self._websocket.receive()).type in {WSMsgType.BINARY, WSMsgType.TEXT}:
            if message.type is WSMsgType.BINARY and message.data:
                return bytes(message.data)
        return b""

    async def write(self, data: bytes) -> None:
        await self._websocket.send_bytes(data)


class Channel(Stream):
    """One channel of a WebSocket; it ends with the WebSocket."""

    def __init__(self, number: int, websocket: web.WebSocketResponse) -> None:
        super().__init__()
        self._number = bytes([number])
        self._websocket = websocket

    async def write(self, data: bytes) -> None:
        """Send bytes; an empty message is sent, too."""
        await self._websocket.send_bytes(self._number + data)


class Channels:
    """The channels of one WebSocket. `serve` reads it to its end, while other tasks use the channels."""

    def __init__(self, websocket: web.WebSocketResponse, count: int) -> None:
        self._websocket = websocket
        self.every = [Channel(number, websocket) for number in range(count)]

    async def serve(self) -> None:
        """Read until the client disconnects."""
        try:
            async for message in self._websocket:
                data = message.data.encode() if message.type is WSMsgType.TEXT else bytes(message.data)
                if data[:1] == bytes([_CLOSE]) and self._websocket.ws_protocol == V5:
                    for number in data[1:2]:
                        self._finish(number)
                elif data and data[0] < len(self.every):
                    await self.every[data[0]].put(data[1:])
        finally:
            for number in range(len(self.every)):
                self._finish(number)

    def _finish(self, number: int) -> None:
        if number < len(self.every):
            self.every[number].finish()
