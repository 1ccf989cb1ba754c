"""The end of an event loop closes all connections, including those that are being accepted."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from harness.event_loop import EventLoop, close_server

CLIENTS = 20


async def accept(listening: socket.socket) -> None:
    """Serve until cancelled."""
    server = await asyncio.start_server(serve, sock=listening)
    try:
        await asyncio.sleep(60)
    finally:
        await close_server(server)


async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Keep a connection until cancelled."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    writer.transport.abort()


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket]]:
    """An empty list for connections. At the end, no object may have been dropped without being closed."""
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    made: list[socket.socket] = []
    yield made
    gc.collect()
    for client in made:
        client.close()
    assert not unraisable


def listen() -> socket.socket:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    return listening


def test_connections_that_are_accepted_while_the_loop_ends_are_closed(
    clients: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, listening, scheduled = EventLoop("test"), listen(), threading.Event()
    closing = threading.Thread(target=loop.close)
    original = asyncio.run_coroutine_threadsafe

    def schedule(*given: Any) -> Any:
        future = original(*given)
        scheduled.set()
        return future

    async def connect_while_closing() -> None:
        """Make connections and call `close`, so that the loop sees both at once."""
        clients.extend(socket.create_connection(listening.getsockname()) for _ in range(CLIENTS))
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", schedule)
        closing.start()
        scheduled.wait()

    loop.start()
    loop.spawn(accept(listening))
    loop.run(connect_while_closing())
    closing.join()


def test_connections_that_are_accepted_while_the_server_closes_are_closed(clients: list[socket.socket]) -> None:
    async def connect_and_close() -> None:
        listening = listen()
        server = await asyncio.start_server(serve, sock=listening)
        clients.extend(socket.create_connection(listening.getsockname()) for _ in range(CLIENTS))
        asyncio.get_running_loop().call_soon(asyncio.create_task, close_server(server))

    with EventLoop("test") as loop:
        loop.run(connect_and_close())
