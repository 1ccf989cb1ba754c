"""WebSockets of Kubernetes: channels by number, each a stream, or one wire for another protocol.

In a message of v4.channel.k8s.io and v5.channel.k8s.io the first byte is the number of the channel. With v5, channel
255 and a number says that this channel has ended.
"""

from __future__ import annotations

from collections.abc import Collection

from aiohttp import WSMsgType, web

from emulator.kubelet.server.streams import Incoming

V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
TUNNEL = "SPDY/3.1+portforward.k8s.io"
"""SPDY inside of a WebSocket."""
_CLOSE = 255
_GOODBYE = 2.0  # seconds that a client has to answer the end of a WebSocket


async def upgrade(request: web.BaseRequest, protocols: Collection[str]) -> web.WebSocketResponse | None:
    """Return the WebSocket that a request asks for; None if it asks for none, or for none of these protocols."""
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
        """Return the bytes of a message; none at the end."""
        while (message := await self._websocket.receive()).type in {WSMsgType.BINARY, WSMsgType.TEXT}:
            if message.type is WSMsgType.BINARY and message.data:
                return bytes(message.data)
        return b""

    async def write(self, data: bytes) -> None:
        """Send a message."""
        await self._websocket.send_bytes(data)


class Channel:
    """One channel of a WebSocket; see `Stream`."""

    def __init__(self, number: int, websocket: web.WebSocketResponse) -> None:
        self._number = bytes([number])
        self.incoming = Incoming()
        self._websocket = websocket

    async def read(self) -> bytes:
        """Return some bytes; none at the end."""
        return await self.incoming.get()

    async def write(self, data: bytes) -> None:
        """Send bytes; no bytes are a message, too."""
        await self._websocket.send_bytes(self._number + data)

    async def end(self) -> None:
        """Do nothing: a server's channels end with the WebSocket."""

    def ignore(self) -> None:
        """Drop what came, and what comes."""
        self.incoming.ignore()


class Channels:
    """The channels of one WebSocket. `serve` reads it to its end, beside the tasks that use the channels."""

    def __init__(self, websocket: web.WebSocketResponse, count: int) -> None:
        self._websocket = websocket
        self.every = [Channel(number, websocket) for number in range(count)]

    async def serve(self) -> None:
        """Read until the client has gone."""
        try:
            async for message in self._websocket:
                data = message.data.encode() if message.type is WSMsgType.TEXT else bytes(message.data)
                if data[:1] == bytes([_CLOSE]) and self._websocket.ws_protocol == V5:
                    for number in data[1:2]:
                        self._finish(number)
                elif data and data[0] < len(self.every):
                    await self.every[data[0]].incoming.put(data[1:])
        finally:
            for number in range(len(self.every)):
                self._finish(number)

    def _finish(self, number: int) -> None:
        if number < len(self.every):
            self.every[number].incoming.finish()
