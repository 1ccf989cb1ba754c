"""Reads and writes HTTP/1.1 requests and answers, as Go's net/http does.

Pure. h11 reads them. What clients notice of its differences to Go: Go judges a first line when it has it, h11 waits
for the whole head. So a first line alone is shown to h11 with the rest of a head. `echo hostName | nc ADDRESS PORT`, by
which Kubernetes' own tests see that a server is there, waits for the answer 400.
What was read before is remembered: requests, and heads of answers. So mostly a dial costs no reading, at either end.
"""

from __future__ import annotations

import gzip
import time
import zlib
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import parse_qsl, unquote

import h11

_LONGEST_HEAD = (1 << 20) + 4096  # as net/http has it
_TEXT, _HTML = "text/plain; charset=utf-8", "text/html; charset=utf-8"
_PHRASES = {int(status): status.phrase for status in HTTPStatus}
_QUESTION = h11.Request(method="GET", target="/", headers=[("Host", "any")])
_Role: TypeAlias = type[h11.SERVER | h11.CLIENT]


class MalformedError(ValueError):
    """Bytes that are no HTTP; the text is the answer of a Go server, or the error of a Go client."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `target` is that of the first line, headers have lower-case names."""

    method: str
    target: str
    version: str
    headers: tuple[tuple[str, str], ...]

    @property
    def path(self) -> str:
        """The path without escapes."""
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> dict[str, str]:
        """The first value of each parameter."""
        return query_of(self.target.partition("?")[2])

    @property
    def stays(self) -> bool:
        """True if the connection stays open for another request."""
        wanted = next((value.lower() for name, value in self.headers if name == "connection"), "")
        return wanted != "close" if self.version == "HTTP/1.1" else wanted == "keep-alive"


@lru_cache(maxsize=512)
def query_of(text: str) -> dict[str, str]:
    """Return the first value of each parameter of a query. Callers must not change it."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found.setdefault(name, value)
    return found


@lru_cache(maxsize=512)
def read_request(data: bytes, ended: bool) -> tuple[Request, int] | None:
    """Return the first request in `data` and its length in bytes; None if incomplete. `ended`: nothing more comes.

    Raises `MalformedError`, also for the beginning of what cannot become a request.
    """
    try:
        read = _read(h11.SERVER, data, ended)
    except h11.RemoteProtocolError as error:
        raise MalformedError(_described(error.error_status_hint)) from None
    if read is None:
        if _begins_wrong(h11.SERVER, data):
            raise MalformedError(_described(400))
        return None
    head, _body, length = read
    assert isinstance(head, h11.Request)
    if not head.http_version.startswith(b"1."):
        raise MalformedError(_described(505))
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers)
    return Request(head.method.decode(), head.target.decode(), f"HTTP/{head.http_version.decode()}", headers), length


def _described(code: int) -> str:
    return f"{code} {_PHRASES[code]}"


def _read(role: _Role, data: bytes, ended: bool) -> tuple[h11.Request | h11.Response, bytes, int] | None:
    """Return head, body and length of the first message in what `role` received; None if it is incomplete.

    Raises `h11.RemoteProtocolError`.
    """
    connection = _connection(role)
    if data:  # h11 takes none for the end
        connection.receive_data(data)
    if ended:
        connection.receive_data(b"")
    head: h11.Request | h11.Response | None = None
    body: list[bytes] = []
    while True:
        match connection.next_event():
            case h11.Request() | h11.Response() as head:
                pass
            case h11.Data() as piece:
                body.append(piece.data)
            case h11.EndOfMessage() if head is not None:
                return head, b"".join(body), len(data) - len(connection.trailing_data[0])
            case h11.InformationalResponse():
                pass
            case _:
                return None


def _connection(role: _Role) -> h11.Connection:
    connection = h11.Connection(role, max_incomplete_event_size=_LONGEST_HEAD)
    if role is h11.CLIENT:  # an answer is one to a request
        connection.send(_QUESTION)
        connection.send(h11.EndOfMessage())
    return connection


def _begins_wrong(role: _Role, data: bytes) -> bool:
    """Return whether the first line is there, and no head can begin with it."""
    line, found, _ = data.partition(b"\n")
    if found:
        try:
            _read(role, line + b"\nHost: any\n\n", False)
        except h11.RemoteProtocolError:
            return True
    return False


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A server's answer: status code, body, and the headers that depend on neither."""

    code: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


def error_answer(code: int, text: str) -> HttpResponse:
    """Return an error answer like that of Go's http.Error."""
    return HttpResponse(code, f"{text}\n".encode(), (("X-Content-Type-Options", "nosniff"),))


def write_answer(answer: HttpResponse, request: Request) -> bytes:
    """Return the bytes of an answer to that request."""
    kind = _HTML if answer.body[:5].lower() in (b"<html", b"<a hr") else _TEXT
    typed = f"Content-Type: {kind}\r\n" if answer.body else ""
    more = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
    gone = "" if request.stays else "Connection: close\r\n"
    head = (
        f"{_first_line(request.version, answer.code)}Date: {_date(int(time.time()))}\r\n{typed}{more}"
        f"Content-Length: {len(answer.body)}\r\n{gone}\r\n"
    )
    return head.encode("latin-1", "replace") + (b"" if request.method == "HEAD" else answer.body)


def write_malformed(error: MalformedError) -> bytes:
    """Return a Go server's answer to bytes that are no request."""
    return f"HTTP/1.1 {error}\r\nContent-Type: {_TEXT}\r\nConnection: close\r\n\r\n{error}".encode()


@lru_cache(maxsize=128)
def _first_line(version: str, code: int) -> str:
    known = _PHRASES.get(code, f"status code {code}")
    return f"{version} {code:03} {known}\r\n"


@lru_cache(maxsize=2)
def _date(seconds: int) -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(seconds))


@lru_cache(maxsize=512)
def get_request(target: str, host: str) -> bytes:
    """Return the bytes of a GET request as Go's client writes it."""
    return (
        f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Go-http-client/1.1\r\nAccept-Encoding: gzip\r\n\r\n"
    ).encode()


def read_answer(data: bytes, ended: bool) -> tuple[int, bytes] | None:
    """Return status code and body of an answer, None if incomplete; `ended`: the connection is closed.

    Raises `MalformedError` with the words of Go's client.
    """
    if ended and not data:
        raise MalformedError("EOF")
    start, blank, rest = data.partition(b"\r\n\r\n")
    if blank and (counted := _counted(start + blank)) and len(rest) >= counted[0]:
        return 200, _unpacked(rest[: counted[0]], counted[1])
    try:
        read = _read(h11.CLIENT, data, ended)
    except h11.RemoteProtocolError as error:
        _check_beginning(data)
        raise MalformedError("unexpected EOF" if ended else str(error)) from None
    if read is None:
        _check_beginning(data)
        return None
    head, body, _length = read
    assert isinstance(head, h11.Response)
    return head.status_code, _unpacked(body, dict(head.headers).get(b"content-encoding", b""))


@lru_cache(maxsize=512)
def _counted(head: bytes) -> tuple[int, bytes] | None:
    """Return length and encoding of the body after the head of a usual answer: most have a body of their own.

    None of an answer with another code, with chunks or without a length, and of bytes that are no whole head.
    """
    connection = _connection(h11.CLIENT)
    connection.receive_data(head)
    try:
        answer = connection.next_event()
    except h11.RemoteProtocolError:
        return None
    if not isinstance(answer, h11.Response) or answer.status_code != 200 or connection.trailing_data[0]:
        return None
    headers = dict(answer.headers)
    if b"content-length" not in headers or b"transfer-encoding" in headers:
        return None
    return int(headers[b"content-length"]), headers.get(b"content-encoding", b"")


def _check_beginning(data: bytes) -> None:
    if _begins_wrong(h11.CLIENT, data):
        line = data.partition(b"\n")[0].rstrip(b"\r").decode("utf-8", "replace")
        raise MalformedError(f'malformed HTTP response "{line}"')


def _unpacked(body: bytes, encoding: bytes) -> bytes:
    """Return a body without gzip encoding, which Go's client asks for and removes."""
    if encoding.lower() != b"gzip" or not body:
        return body
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error):
        raise MalformedError("gzip: invalid header") from None
