"""An HTTP server for GET and HEAD: one thread serves sockets in any network namespace. Handlers must not block."""

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

Response = tuple[int, Mapping[str, str], bytes]
"""A status code, headers and a body. The server adds the headers Content-Length and Connection."""

Handler = Callable[[str], Response]
"""A function that takes the path of a request (without the query) and returns the response."""

TIMEOUT_SECONDS = 5.0
"""The time in seconds that a client has to send its request, and again to read the response."""

MOST_HEAD_BYTES = 16 << 10

_log = logging.getLogger(__name__)


def plain(code: int, body: str) -> Response:
    return code, {"Content-Type": "text/plain; charset=utf-8"}, body.encode()


def not_found(path: str) -> Response:
    return plain(404, f"there is nothing at {path}\n")


class HttpThread:
    """The server thread and its sockets. Any other thread may call the methods."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop  # set by `start`; runs in the server's thread
        self._early: dict[socket.socket, Handler] = {}  # sockets that were added before `start`
        self._servers: dict[socket.socket, asyncio.Server] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self.thread = threading.Thread(target=self._run, name="serving", daemon=True)

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self.thread.start()
        while self._early:
            self._order(self._listen(*self._early.popitem()))

    def stop(self) -> None:
        """Close all sockets and end the thread. Idempotent. May be called without `start`."""
        while self._early:
            self._early.popitem()[0].close()
        if self.thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self.thread.join()
            self._loop.run_until_complete(end(self._servers.values(), self._connections))
            self._loop.close()

    def listen(self, listener: socket.socket, handler: Handler) -> None:
        """Serve HTTP on a listening socket until `remove` or `stop`, which close the socket."""
        if self.thread.ident is None:
            self._early[listener] = handler
        else:
            self._order(self._listen(listener, handler))

    def remove(self, listener: socket.socket) -> None:
        """Close a listening socket, unless it is already closed. When `remove` returns, the port is free."""
        if self._early.pop(listener, None):
            listener.close()
        elif listener.fileno() >= 0:
            self._order(self._remove(listener))

    def _order(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the server thread. Wait until it is done or the thread has ended."""
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        while self.thread.is_alive():
            with contextlib.suppress(TimeoutError):
                done.result(1)
                return

    def _run(self) -> None:
        self._loop.run_forever()

    async def _listen(self, listener: socket.socket, handler: Handler) -> None:
        serve = partial(self._serve, handler)
        self._servers[listener] = await asyncio.start_server(serve, sock=listener, limit=MOST_HEAD_BYTES)

    async def _remove(self, listener: socket.socket) -> None:
        self._servers.pop(listener).close()

    async def _serve(self, handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except asyncio.LimitOverrunError:
                    head = b""
            writer.write(_answer(head, handler))
            writer.write_eof()
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while await reader.read(MOST_HEAD_BYTES):  # unread bytes would reset the connection
                    pass
        except (OSError, EOFError):  # the client is too slow, or has disconnected
            pass
        finally:
            writer.transport.abort()
            self._connections.discard(task)


async def end(servers: Iterable[asyncio.Server], connections: Collection[asyncio.Task[None]]) -> None:
    """Close servers, and cancel the tasks of their connections. `connections` must contain every running task."""
    for server in servers:
        server.close()
    await asyncio.sleep(0)  # connections that were just accepted get their tasks
    tasks = list(connections)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)  # closes the sockets


def _answer(head: bytes, handler: Handler) -> bytes:
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    target, _, version = rest.partition(" ")
    if not head:
        return _encoded(plain(431, "the request is too large\n"))
    if not version.startswith("HTTP/1.") or not target.startswith("/"):
        return _encoded(plain(400, "this is not an HTTP/1.1 request\n"))
    if method not in {"GET", "HEAD"}:
        code, headers, body = plain(405, "only GET and HEAD are supported\n")
        return _encoded((code, {**headers, "Allow": "GET, HEAD"}, body))
    path, with_body = target.partition("?")[0], method == "GET"
    try:
        return _encoded(handler(path), with_body=with_body)
    except Exception:  # noqa: BLE001 - the client receives an error, and the server continues
        _log.exception("the handler of %s failed", path)
        return _encoded(plain(500, "the handler of this path failed\n"), with_body=with_body)


def _encoded(response: Response, *, with_body: bool = True) -> bytes:
    code, headers, body = response
    headers = {**headers, "Content-Length": str(len(body)), "Connection": "close"}
    lines = [f"HTTP/1.1 {code} {HTTPStatus(code).phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body if with_body else b"")
