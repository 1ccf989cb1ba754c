"""The channels of a Kubernetes WebSocket, each of which is a stream of bytes between a client and a kubelet.

The first byte of a message is the channel number. In v5.channel.k8s.io, a message to channel 255 closes a channel. Each
channel buffers received data up to a limit. If a client exceeds the limit of one channel, all channels wait, because a
WebSocket cannot pause a single channel.
"""

import asyncio
from collections import deque
from collections.abc import Collection

from aiohttp import WSMsgType, web

_MOST = 1 << 20  # maximum number of received bytes that are not yet read
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
_CLOSE = 255
_GOODBYE = 2.0  # seconds for a client to answer the close of a WebSocket


class Channel:
    """One channel of a WebSocket, with a buffer of received data. The channel ends when the WebSocket closes."""

    def __init__(self, number: int, websocket: web.WebSocketResponse) -> None:
        self._number = bytes([number])
        self._websocket = websocket
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._finished = False  # True when no more data will arrive
        self._ignored = False
        self._readable, self._space = asyncio.Event(), asyncio.Event()
        self._space.set()

    async def read(self) -> bytes:
        """Wait for received bytes, and return the next chunk. Return b"" if no more will arrive."""
        while not self._chunks and not self._finished:
            self._readable.clear()
            await self._readable.wait()
        if not self._chunks:
            return b""
        data = self._chunks.popleft()
        self._size -= len(data)
        self._space.set()
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes as one message. Wait while the client does not read. Raises `ConnectionError`."""
        await self._websocket.send_bytes(self._number + data)

    def ignore(self) -> None:
        self._ignored = True
        self._chunks.clear()
        self._size = 0
        self._space.set()

    async def put(self, data: bytes) -> None:
        await self._space.wait()
        if data and not self._ignored and not self._finished:
            self._chunks.append(data)
            self._size += len(data)
            self._readable.set()
            if self._size >= _MOST:
                self._space.clear()

    def finish(self) -> None:
        self._finished = True
        self._readable.set()
        self._space.set()


async def upgrade(request: web.BaseRequest, protocols: Collection[str]) -> web.WebSocketResponse | None:
    """Return the WebSocket that a request opens, or None for other requests and unknown protocols."""
    websocket = web.WebSocketResponse(protocols=protocols, max_msg_size=0, compress=False, timeout=_GOODBYE)
    found = websocket.can_prepare(request)
    if not found or found.protocol is None:
        return None
    await websocket.prepare(request)
    return websocket


class Channels:
    """The channels of one WebSocket. `serve` reads from the WebSocket while other tasks use the channels."""

    def __init__(self, websocket: web.WebSocketResponse, count: int) -> None:
        self._websocket = websocket
        self.every = [Channel(number, websocket) for number in range(count)]

    async def serve(self) -> None:
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
