"""Forwarding of ports as kubectl asks for it: SPDY inside a WebSocket (KEP-4006), two streams for each connection.

One stream of a pair carries the bytes, the other one the error if there is one. kubectl 1.31 and newer come this way;
older ones upgrade the connection itself to SPDY, which is not served.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from reference.apiserver.pod_access import pod_location, spdy
from reference.apiserver.pod_access.pod_location import Location, OpenSocket

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
_CHUNK = 1 << 16


@dataclass(slots=True)
class _Pair:
    """The streams of one connection, by what they are for, and what the client said; None at its end."""

    port: int
    streams: dict[str, int] = field(default_factory=dict)
    said: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)


class Session:
    """One WebSocket of one client, to its end."""

    def __init__(self, websocket: web.WebSocketResponse, address: str, open_socket: OpenSocket) -> None:
        self._websocket, self._address, self._open_socket = websocket, address, open_socket
        self._connection = spdy.Connection()
        self._pairs: dict[str, _Pair] = {}
        self._by_stream: dict[int, _Pair] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve until the client goes."""
        try:
            async for message in self._websocket:
                if message.type is WSMsgType.BINARY:
                    for frame in self._connection.receive(message.data):
                        await self._take(frame)
        except (ValueError, zlib.error, OSError):  # no SPDY, or the client has gone
            await self._websocket.close()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, frame: spdy.Frame) -> None:
        match frame:
            case spdy.Opened():
                await self._open(frame.stream, frame.headers)
            case spdy.Data(stream, data, ended):
                self._hear(stream, data, ended=ended)
            case spdy.Reset(stream):
                self._hear(stream, b"", ended=True)
            case spdy.Ping(answer):
                await self._websocket.send_bytes(answer)
            case spdy.Away():
                await self._websocket.close()

    async def _open(self, stream: int, headers: Mapping[str, str]) -> None:
        await self._websocket.send_bytes(self._connection.accept(stream))
        port, request = headers.get("port", ""), headers.get("requestid", str(stream))
        if not port.isdecimal() or headers.get("streamtype") not in {"data", "error"}:
            raise ValueError("a stream that forwards nothing")
        pair = self._pairs.setdefault(request, _Pair(int(port)))
        pair.streams[headers["streamtype"]] = stream
        if headers["streamtype"] == "data":
            self._by_stream[stream] = pair
        if len(pair.streams) == 2:
            self._tasks.add(task := asyncio.create_task(self._forward(self._pairs.pop(request))))
            task.add_done_callback(self._tasks.discard)

    def _hear(self, stream: int, data: bytes, *, ended: bool) -> None:
        pair = self._by_stream.get(stream)
        if pair is not None and data:
            pair.said.put_nowait(data)
        if pair is not None and ended:
            pair.said.put_nowait(None)

    async def _forward(self, pair: _Pair) -> None:
        location, error = Location("tcp", self._address, pair.port), ""
        try:
            reader, writer = await pod_location.connect(self._open_socket, location)
        except (OSError, TimeoutError) as failed:
            error = pod_location.failed(location, failed)
        else:
            sending = asyncio.create_task(_send(pair.said, writer))
            try:
                with contextlib.suppress(OSError):  # a reset by the pod is the end of what it says
                    while chunk := await reader.read(_CHUNK):
                        await self._websocket.send_bytes(self._connection.data(pair.streams["data"], chunk))
            finally:
                sending.cancel()
                writer.transport.abort()
        self._by_stream.pop(pair.streams["data"], None)
        await self._websocket.send_bytes(self._connection.data(pair.streams["error"], error.encode(), end=True))
        await self._websocket.send_bytes(self._connection.data(pair.streams["data"], b"", end=True))


async def _send(said: asyncio.Queue[bytes | None], writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while (data := await said.get()) is not None:
            writer.write(data)
            await writer.drain()
        writer.write_eof()
