"""Relay connections from sockets in other network namespaces to a loopback port.

A socket stays in the netns in which it was created. Nodes of an embedded cluster can therefore reach an API server
process in another netns without a route. The relay does not read the data, which is encrypted end to end.

A patient relay holds connections while the server is away. Kubernetes components double their delay after each refused
connection, up to 30 seconds. A scenario that replaces an API server several times would spend most of its time on these
delays.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable

_CHUNK = 1 << 16
_EVERY = 0.02  # seconds between two checks for the server's return

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Relay:
    """One event loop in a separate thread. A connection ends when its server ends."""

    def __init__(self, port: Callable[[], int], *, patient: bool = False) -> None:
        """`port` returns the loopback port, or 0 while the server is away. Connections are then reset or held."""
        self._port = port
        self._patient = patient
        self._running: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None  # set by `listen`
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(self, listening: socket.socket) -> None:
        """Accept connections on another listening socket, which `close` closes."""
        if self._running is None:
            loop = asyncio.new_event_loop()
            self._running = loop, threading.Thread(target=loop.run_forever, name="relay", daemon=True)
            self._running[1].start()
        listening.setblocking(False)
        asyncio.run_coroutine_threadsafe(self._listen(listening), self._running[0]).result()

    def threads(self) -> tuple[threading.Thread, ...]:
        """Return the relay's thread, if the relay listens."""
        return () if self._running is None else (self._running[1],)

    def close(self) -> None:
        if self._running is None:
            return
        (loop, thread), self._running = self._running, None
        if thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._end(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
        loop.close()

    async def _listen(self, listening: socket.socket) -> None:
        # asyncio calls listen() again, by default with a queue of 100: a Unix socket with a full queue refuses.
        self._servers.append(await asyncio.start_server(self._serve, sock=listening, backlog=4096))

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await _pass_on((reader, writer), await self._connect(reader, writer))
        except (OSError, asyncio.CancelledError):
            _reset(writer)
        finally:
            self._tasks.discard(task)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Streams:  # noqa: ARG002
        """Open the connection to the server. Subclasses read the target from the client's streams. Raises `OSError`."""
        while True:
            try:
                if port := self._port():
                    return await asyncio.open_connection("127.0.0.1", port)
                raise ConnectionRefusedError
            except ConnectionRefusedError:
                if not self._patient:
                    raise
                await asyncio.sleep(_EVERY)


async def _pass_on(here: Streams, there: Streams) -> None:
    try:
        await asyncio.gather(_copy(here[0], there[1]), _copy(there[0], here[1]))
    finally:
        there[1].transport.abort()


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):  # it is closed already
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
    writer.close()
