"""An HTTP server for GET on any number of listening sockets: health checks, metrics, health check node ports.

One daemon thread serves all sockets, in any network namespaces, and sockets may be added and removed while it runs. An
embedded cluster has about twenty nodes with three ports each. Other servers would need a thread for each port.

Each connection carries one request without a body and is closed after the response. Handlers must not block.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Self

Response = tuple[int, Mapping[str, str], bytes]
"""Status code, headers and body. Content-Length and Connection are added."""

Handler = Callable[[str], Response]
"""Answers a request for a path. The path does not include the query."""

PATIENCE_SECONDS = 5.0
"""The time in seconds that a client has to send its request and to read the response."""

MOST_HEAD_BYTES = 16 << 10

_log = logging.getLogger(__name__)


def plain(code: int, body: str) -> Response:
    """Return a response in plain text."""
    return code, {"Content-Type": "text/plain; charset=utf-8"}, body.encode()


def not_found(path: str) -> Response:
    """Return the response for a path that does not exist."""
    return plain(404, f"there is nothing at {path}\n")


class Serving:
    """The server thread and its sockets; a context manager. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._orders: deque[tuple[Callable[[], None], threading.Event]] = deque()
        self._connections: dict[_Connection, float] = {}  # with the time until when; the oldest first
        self._running = True
        self._closed = False
        self.thread = threading.Thread(target=self._run, name="serving", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Close all sockets and end the thread. Idempotent. May be called without `start`."""
        if self._closed:
            return
        self._running = False
        if self.thread.is_alive():
            os.eventfd_write(self._bell, 1)
            self.thread.join()
        self._closed = True
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        os.close(self._bell)

    def listen(self, listener: socket.socket, handler: Handler) -> None:
        """Serve HTTP on a listening socket until `remove` or `stop`, which close the socket."""
        listener.setblocking(False)
        self._order(lambda: self._register(listener, lambda: self._accept(listener, handler)))

    def remove(self, listener: socket.socket) -> None:
        """Close a listening socket. When this returns, its port is free. Does nothing if it is already closed."""
        if listener.fileno() >= 0:
            self._order(lambda: self._drop(listener))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _order(self, action: Callable[[], None]) -> None:
        """Run an action in the server thread, and wait for it."""
        if not self.thread.is_alive() or threading.current_thread() is self.thread:
            action()
            return
        done = threading.Event()
        self._orders.append((action, done))
        os.eventfd_write(self._bell, 1)
        while not done.wait(1) and self.thread.is_alive():
            pass

    def _run(self) -> None:
        while self._running:
            for key, _ in self._selector.select(self._patience()):
                if key.data is None:
                    self._obey()
                else:
                    key.data()
            self._expire()

    def _obey(self) -> None:
        os.eventfd_read(self._bell)
        while self._orders:
            action, done = self._orders.popleft()
            action()
            done.set()

    def _patience(self) -> float | None:
        oldest = next(iter(self._connections.values()), None)
        return None if oldest is None else max(0.0, oldest - time.monotonic())

    def _expire(self) -> None:
        now = time.monotonic()
        for connection in [each for each, until in self._connections.items() if until <= now]:
            self._end(connection)

    def _register(self, sock: socket.socket, action: Callable[[], None]) -> None:
        self._selector.register(sock, selectors.EVENT_READ, action)

    def _drop(self, sock: socket.socket) -> None:
        if sock.fileno() >= 0:
            self._selector.unregister(sock)
            sock.close()

    def _accept(self, listener: socket.socket, handler: Handler) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:  # gone before it was accepted, or no descriptor is left for it
            return
        sock.setblocking(False)
        connection = _Connection(sock, handler)
        self._wait_for(connection)
        self._register(sock, lambda: self._go_on(connection))

    def _wait_for(self, connection: _Connection) -> None:
        self._connections.pop(connection, None)
        self._connections[connection] = time.monotonic() + PATIENCE_SECONDS

    def _go_on(self, connection: _Connection) -> None:
        asked = connection.asked
        try:
            events = connection.go_on()
        except OSError:
            events = 0
        if connection.asked and not asked:
            self._wait_for(connection)
        if not events:
            self._end(connection)
        elif events != self._selector.get_key(connection.sock).events:
            self._selector.modify(connection.sock, events, lambda: self._go_on(connection))

    def _end(self, connection: _Connection) -> None:
        self._connections.pop(connection, None)
        self._drop(connection.sock)


class _Connection:
    """One request and its response."""

    def __init__(self, sock: socket.socket, handler: Handler) -> None:
        self.sock = sock
        self._handler = handler
        self._head = bytearray()
        self._answer: memoryview | None = None

    @property
    def asked(self) -> bool:
        """True if the request is complete and the response was computed."""
        return self._answer is not None

    def go_on(self) -> int:
        """Read or write without blocking. Return the events to wait for, or 0 at the end. Raises `OSError`."""
        if self._answer is None:
            data = self.sock.recv(MOST_HEAD_BYTES)
            self._head += data
            if b"\r\n\r\n" not in self._head and len(self._head) < MOST_HEAD_BYTES:
                return selectors.EVENT_READ if data else 0
            self._answer = memoryview(_answer(bytes(self._head), self._handler))
        elif not self._answer:  # what a client has sent beyond its request must be read, or it loses the answer
            return selectors.EVENT_READ if self.sock.recv(MOST_HEAD_BYTES) else 0
        self._answer = self._answer[self.sock.send(self._answer) :]
        if self._answer:
            return selectors.EVENT_WRITE
        self.sock.shutdown(socket.SHUT_WR)
        return selectors.EVENT_READ


def _answer(head: bytes, handler: Handler) -> bytes:
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    target, _, version = rest.partition(" ")
    if b"\r\n\r\n" not in head:
        return _encoded(plain(431, "the request is too large\n"))
    if not version.startswith("HTTP/1.") or not target.startswith("/"):
        return _encoded(plain(400, "this is not an HTTP/1.1 request\n"))
    if method not in {"GET", "HEAD"}:
        code, headers, body = plain(405, "only GET and HEAD are answered\n")
        return _encoded((code, {**headers, "Allow": "GET, HEAD"}, body))
    path, with_body = target.partition("?")[0], method == "GET"
    try:
        return _encoded(handler(path), with_body=with_body)
    except Exception:  # noqa: BLE001 - the client receives an error, and the server continues
        _log.exception("no answer to %s", path)
        return _encoded(plain(500, "the handler of this path failed\n"), with_body=with_body)


def _encoded(response: Response, *, with_body: bool = True) -> bytes:
    code, headers, body = response
    headers = {**headers, "Content-Length": str(len(body)), "Connection": "close"}
    lines = [f"HTTP/1.1 {code} {HTTPStatus(code).phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body if with_body else b"")
