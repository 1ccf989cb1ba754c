"""The streams between a client and a program in a container, over a WebSocket or SPDY."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass

from aiohttp import web

from emulator.kubelet.server import programs, upgraded, websockets
from emulator.kubelet.server.programs import Runs
from emulator.kubelet.server.spdy_connection import SpdyConnection
from emulator.kubelet.server.streams import Stream
from emulator.kubelet.server.websockets import V4, V5, Channels

_CHANNELS = ("stdin", "stdout", "stderr", "error", "resize")  # by number
_STREAMS_WITHIN = 30.0  # seconds for a client to open its streams, as a kubelet has it
GOODBYE = 2.0  # seconds that a client has to end the connection when all is said


@dataclass(frozen=True, slots=True)
class Wanted:
    """The program that a client wants, and the names of its streams."""

    argv: Sequence[str]
    streams: frozenset[str]
    tty: bool

    @classmethod
    def parse(cls, request: web.BaseRequest) -> Wanted:
        """Read it from the query of a request to a kubelet. Raises `ValueError` with a kubelet's answer."""
        query = request.query
        tty = query.get("tty") == "1"
        named = {"stdin": "input", "stdout": "output", "stderr": "error"}
        streams = {name for name, key in named.items() if query.get(key) == "1"}
        if tty:
            streams.discard("stderr")
        if not streams:
            raise ValueError("you must specify at least 1 of stdin, stdout, stderr")
        return cls(query.getall("command", []), frozenset({*streams, "error", *(("resize",) if tty else ())}), tty)


async def serve(request: web.BaseRequest, container: Runs, wanted: Wanted) -> web.StreamResponse:
    """Upgrade the connection, run the program, and say how it ended. Raises `ConnectionError`."""
    if request.headers.get("Upgrade", "").lower() == "websocket":
        return await _by_websocket(request, container, wanted)
    return await _by_spdy(request, container, wanted)


async def _by_websocket(request: web.BaseRequest, container: Runs, wanted: Wanted) -> web.StreamResponse:
    websocket = await websockets.upgrade(request, (V5, V4))
    if websocket is None:
        return web.Response(status=403, text=f"unable to upgrade: the server accepts {V5} and {V4}\n")
    channels = Channels(websocket, len(_CHANNELS))
    named: dict[str, Stream] = dict(zip(_CHANNELS, channels.every, strict=True))
    streams = {name: stream for name, stream in named.items() if name in wanted.streams}
    for name in named.keys() - streams.keys():
        named[name].ignore()
    first = next(name for name in ("stdout", "stderr", "error") if name in streams)
    async with beside(channels.serve()) as gone:
        await streams[first].write(b"")  # by which clients know that they are connected
        await _run(container, wanted, streams, gone)
    await websocket.close()  # when nobody else reads: then it waits for the client's last word
    return websocket


async def _by_spdy(request: web.BaseRequest, container: Runs, wanted: Wanted) -> web.StreamResponse:
    wire = await upgraded.to_spdy(request, V4)
    if isinstance(wire, web.Response):
        return wire
    connection = SpdyConnection(wire)
    async with beside(connection.serve()) as gone:
        streams = await _opened(connection, wanted.streams)
        await _run(container, wanted, streams, gone)
        for stream in streams.values():
            await stream.end()
        await connection.say_goodbye()
        await asyncio.wait([gone], timeout=GOODBYE)
    return wire.response


async def _opened(connection: SpdyConnection, expected: frozenset[str]) -> dict[str, Stream]:
    """Return the streams of a client by their type. Raises `ConnectionResetError` if it goes, or opens others."""
    found: dict[str, Stream] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_STREAMS_WITHIN):
            while not expected <= found.keys() and (stream := await connection.accept()) is not None:
                found[stream.headers.get("streamtype", "")] = stream
    if not expected <= found.keys():
        raise ConnectionResetError("the client did not open its streams")
    return found


@contextlib.asynccontextmanager
async def beside(reading: Coroutine[None, None, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Read a connection beside the block, to its end."""
    task = asyncio.create_task(reading)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _run(container: Runs, wanted: Wanted, streams: Mapping[str, Stream], gone: asyncio.Task[None]) -> None:
    """Run the program, and tell the client how it ended. Raises `ConnectionError` if the client goes before."""
    running = asyncio.create_task(programs.run(container, wanted.argv, streams, tty=wanted.tty))
    try:
        await asyncio.wait([running, gone], return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise ConnectionResetError("the client has gone")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await streams["error"].write(json.dumps(running.result()).encode())
