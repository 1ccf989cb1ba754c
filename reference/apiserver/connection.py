"""HTTP connections without aiohttp, which needs a task and a dozen objects per request.

Nearly all requests are plain: they have a body of known length and no special headers. When any other request arrives
(a watch, chunks, an upgrade, a large body, unusual syntax), the connection moves permanently to aiohttp, together with
all data of unanswered requests.
"""

import asyncio
import contextlib
import functools
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from types import MappingProxyType

from reference.apiserver.handlers import Response
from reference.apiserver.http_request import HttpRequest

MAX_HEAD_BYTES = 8 * 1024
MAX_BODY_BYTES = 256 * 1024
READ_BYTES = 16 * 1024  # a TLS record
_SPECIAL = frozenset({"connection", "transfer-encoding", "content-encoding", "expect", "upgrade"})
_UNUSUAL_HEAD = re.compile(rb"[^\t\r\n -~]|(?<!\r)\n|\r(?!\n)")
_REQUEST_LINE = re.compile(
    rb"(GET|PUT|POST|PATCH|DELETE) "
    rb"((?:/(?![/.])[!\"$&-*,-.0->@-~]*)+)(?:\?([!\"$&-*,-~]*))? HTTP/1\.1"
)
_NAME = re.compile(r"[A-Za-z0-9-]+")
_LENGTH = re.compile(r"[0-9]{1,10}")


class Connection(asyncio.BufferedProtocol):
    """The asyncio protocol of one connection, until the connection receives a request that is not plain.

    `answer` returns None if it cannot answer a request immediately. `others` creates the aiohttp protocol that takes
    over. `connections` is the set of open plain connections.
    """

    def __init__(
        self,
        answer: Callable[[HttpRequest], Response | None],
        others: Callable[[], asyncio.Protocol],
        connections: "set[Connection]",
    ) -> None:
        self._answer, self._others = answer, others
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._buffer = memoryview(bytearray(READ_BYTES))  # a view: asyncio reads into slices of it
        self._unread = b""
        self._paused = False
        self._heard = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._heard = time.monotonic()
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._leave()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Return the buffer to read into. With `data_received`, asyncio would allocate 256 KiB for each read."""
        return self._buffer

    def end_if_silent(self, since: float) -> None:
        """Close the connection if its client has started no request after `since` (a `time.monotonic` value)."""
        if self._heard < since:
            self.abort()

    def abort(self) -> None:
        """Close the connection immediately. `close` would wait until the client also shuts down TLS."""
        if self._transport is not None:
            abort(self._transport)

    def buffer_updated(self, nbytes: int) -> None:
        if not self._unread:  # a request begins; sending it in small pieces does not extend its time limit
            self._heard = time.monotonic()
        self._unread += self._buffer[:nbytes]
        self._work()

    def pause_writing(self) -> None:
        """Stop reading requests until the client reads its responses."""
        self._paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        if self._transport is not None:
            self._transport.resume_reading()
            self._work()

    def _work(self) -> None:
        while self._unread and not self._paused and self._transport is not None:
            head, found, rest = self._unread.partition(b"\r\n\r\n")
            if not found and len(head) < MAX_HEAD_BYTES:
                return
            plain = parse(head) if found else None
            if plain is not None and len(rest) < plain.length:
                return
            response = None if plain is None else self._answer(plain.with_body(rest))
            if plain is None or response is None:
                self._hand_over(self._transport)
                return
            self._unread = rest[plain.length :]
            self._transport.write(encode(response))

    def _hand_over(self, transport: asyncio.Transport) -> None:
        unread, self._unread = self._unread, b""
        self._leave()
        other = self._others()
        transport.set_protocol(other)
        other.connection_made(transport)
        other.data_received(unread)

    def _leave(self) -> None:
        self._connections.discard(self)
        self._transport = None


def abort(transport: asyncio.Transport) -> None:
    """Close a connection immediately. Early releases of Python 3.11 raise AttributeError if TLS is already closed."""
    with contextlib.suppress(AttributeError):
        transport.abort()


@dataclass(frozen=True, slots=True)
class RequestHead:
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    length: int

    def with_body(self, rest: bytes) -> HttpRequest:
        pairs = (each.partition("=") for each in reversed(self.query.split("&")))  # the first value of a name is used
        query = {name: value for name, _, value in pairs if name}
        return HttpRequest(self.method, self.path, self.query, query, self.headers, rest[: self.length])


def parse(head: bytes) -> RequestHead | None:
    """Parse the head of a plain request. Return None for any other request."""
    first, _, lines = head.partition(b"\r\n")
    wanted, fields = _REQUEST_LINE.fullmatch(first), _fields(lines)
    if wanted is None or fields is None:
        return None
    method, path, query = (each.decode() for each in wanted.groups(b""))
    return RequestHead(method, path, query, *fields)


@functools.lru_cache(maxsize=512)  # a client's headers seldom change, and parsing takes 14 us
def _fields(head: bytes) -> tuple[Mapping[str, str], int] | None:
    if _UNUSUAL_HEAD.search(head):
        return None
    headers: dict[str, str] = {}
    lines = head.decode("ascii").split("\r\n")
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip(" \t")
        if not _NAME.fullmatch(name) or name.lower() in _SPECIAL:
            return None
    length = headers.get("content-length", "0")
    if len(headers) < len(lines) or not _LENGTH.fullmatch(length) or int(length) > MAX_BODY_BYTES:
        return None
    return MappingProxyType(headers), int(length)


def encode(response: Response) -> bytes:
    warnings = "".join(f"Warning: {each}\r\n" for each in response.warning_headers())
    head = (
        f"{_status_line(response.code)}Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\nDate: {_date(int(time.time()))}\r\n{warnings}\r\n"
    )
    return head.encode() + response.body


@functools.cache
def _status_line(code: int) -> str:
    return f"HTTP/1.1 {code} {HTTPStatus(code).phrase}\r\n"


@functools.lru_cache(maxsize=1)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
