"""An HTTP server for GET on any number of listening sockets: health checks, metrics, health check node ports.

One daemon thread serves all sockets, in any network namespaces, and sockets may be added and removed while it runs. An
embedded cluster has about twenty nodes with three ports each. Other servers would need a thread for each port.

Each connection carries one request without a body and is closed after the response. Handlers must not block.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Self

from reference.serving.server_loop import ServerLoop

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


class Serving(ServerLoop):
    """The server thread and its sockets; a context manager. All methods may be called from any other thread."""

    def __init__(self) -> None:
        super().__init__("serving", patience=lambda: PATIENCE_SECONDS)

    def listen(self, listener: socket.socket, handler: Handler) -> None:
        """Serve HTTP on a listening socket until `remove` or `stop`, which close the socket."""
        self.call(self.accept(listener, partial(_serve, handler), limit=MOST_HEAD_BYTES))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


async def _serve(handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        head = await _head(reader)
    async with asyncio.timeout(PATIENCE_SECONDS):
        writer.write(_answer(head, handler))
        writer.write_eof()
        while await reader.read(MOST_HEAD_BYTES):
            pass  # what a client has sent beyond its request must be read, or it loses the answer


async def _head(reader: asyncio.StreamReader) -> bytes:
    """Return the head of a request, or b"" if it is too large. Raises `EOFError` if the client closes before."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return b""


def _answer(head: bytes, handler: Handler) -> bytes:
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    target, _, version = rest.partition(" ")
    if not head:
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
