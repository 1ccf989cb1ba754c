"""A thread with an event loop that serves connections of any number of listening sockets, in any network namespace."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Serves one connection. It may raise `OSError` and `EOFError`. The connection is closed afterwards."""


class ServerLoop:
    """The thread, its sockets and its connections. All methods may be called from any other thread."""

    def __init__(self, name: str, *, patience: Callable[[], float], most_connections: int = 1000) -> None:
        """A client has `patience()` seconds to read the rest of an answer. With more connections, the one that has been
        idle for the longest time is closed.
        """
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._patience, self._most = patience, most_connections
        self._servers: dict[socket.socket, asyncio.Server] = {}
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[Any]] = {}  # the longest idle first

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Close all sockets and end the thread. Idempotent. May be called without `start`."""
        if self.loop.is_closed():
            return
        self.call(self._close())
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
        self.loop.close()

    def remove(self, listener: socket.socket) -> None:
        """Close a listening socket. When this returns, its port is free. Does nothing if it is already closed."""
        if not self.loop.is_closed():
            self.call(self._remove(listener))

    def call(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the loop's thread, or here if the thread was not started, and wait for it."""
        if self.thread.is_alive():
            asyncio.run_coroutine_threadsafe(work, self.loop).result()
        else:
            self.loop.run_until_complete(work)

    async def accept(self, listener: socket.socket, serve: Serve, *, limit: int = 1 << 16) -> None:
        """Serve the connections of a listening socket until `remove` or `stop`, which close the socket.

        `limit` is the number of bytes that are read ahead.
        """
        self._servers[listener] = await asyncio.start_server(partial(self._serve, serve), sock=listener, limit=limit)

    def heard(self, writer: asyncio.StreamWriter) -> None:
        """Record that a connection is not idle. Call this in the loop's thread."""
        self._connections[writer] = self._connections.pop(writer)

    async def _remove(self, listener: socket.socket) -> None:
        if server := self._servers.pop(listener, None):
            server.close()

    async def _serve(self, serve: Serve, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= self._most:
            next(iter(self._connections)).transport.abort()
        self._connections[writer] = task
        try:
            await serve(reader, writer)
        except (OSError, EOFError):  # the client was too slow, or has closed the connection
            pass
        finally:
            await self._end(writer)
            del self._connections[writer]

    async def _end(self, writer: asyncio.StreamWriter) -> None:
        """Close a connection when the client has read all answers."""
        try:
            async with asyncio.timeout(self._patience()):
                writer.close()
                await writer.wait_closed()
        except OSError:
            writer.transport.abort()

    async def _close(self) -> None:
        await _turns()
        for listener in list(self._servers):
            await self._remove(listener)
        await _turns()
        for writer in self._connections:
            writer.transport.abort()
        await asyncio.gather(*self._connections.values())


async def _turns() -> None:
    """Wait until asyncio has set up the servers that it starts, and the connections that it has accepted."""
    for _ in range(3):
        await asyncio.sleep(0)
