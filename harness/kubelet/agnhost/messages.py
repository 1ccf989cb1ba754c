"""Parses and writes HTTP/1.1 requests and answers.

Pure. It covers the messages of agnhost and its clients; a dial costs one request and one answer at each end, so only
little is parsed: the first line, the length of the body, and whether the connection stays open.
"""

from __future__ import annotations

import gzip
import re
import time
import zlib
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

_END = b"\r\n\r\n"
_LONGEST_HEAD = 1 << 20  # as net/http has it
_TEXT, _HTML = "text/plain; charset=utf-8", "text/html; charset=utf-8"
_PHRASES = {int(status): status.phrase for status in HTTPStatus}
_STATUS = re.compile(rb"HTTP/(1\.[01]) (\d{3})(?: [^\r\n]*)?\r\n")


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


def read_request(data: bytes) -> tuple[Request, int] | None:
    """Return the first request in `data` and its length in bytes; None if incomplete. Raises `MalformedError`."""
    end = data.find(_END)
    if end < 0:
        if len(data) > _LONGEST_HEAD:
            raise MalformedError("431 Request Header Fields Too Large")
        return None
    request = _request(data[:end])
    length = next((value for name, value in request.headers if name == "content-length"), "0")
    if not length.isdecimal():
        raise MalformedError("400 Bad Request")
    whole = end + len(_END) + int(length)
    return (request, whole) if len(data) >= whole else None


@lru_cache(maxsize=512)
def _request(head: bytes) -> Request:
    first, *rest = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise MalformedError("400 Bad Request")
    headers = tuple(_headers(rest))
    if parts[2] == "HTTP/1.1" and not any(name == "host" for name, _ in headers):
        raise MalformedError("400 Bad Request: missing required Host header")
    method, target, version = parts
    return Request(method, target, version, headers)


def _headers(lines: list[str]) -> list[tuple[str, str]]:
    pairs = [line.partition(":") for line in lines]
    if not all(colon and name for name, colon, _ in pairs):
        raise MalformedError("400 Bad Request")
    return [(name.lower(), value.strip()) for name, _, value in pairs]


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


@lru_cache(maxsize=512)
def read_answer(data: bytes, *, ended: bool) -> tuple[int, bytes] | None:
    """Return status code and body of an answer, None if incomplete; `ended`: the connection is closed.

    Raises `MalformedError` with the words of Go's client.
    """
    end = data.find(_END)
    if end < 0:
        _check_beginning(data, ended=ended)
        return None
    status = _STATUS.match(data)
    if status is None:
        raise MalformedError(f'malformed HTTP response "{_line(data)}"')
    code, body = int(status[2]), data[end + len(_END) :]
    headers = dict(_headers(data[status.end() : end].decode("latin-1").split("\r\n")))
    if headers.get("transfer-encoding", "").lower() == "chunked":
        whole = _unchunk(body)
    elif (length := headers.get("content-length", "")).isdecimal():
        whole = body[: int(length)] if len(body) >= int(length) else None
    else:
        return (code, body) if ended else None
    if whole is None:
        if ended:
            raise MalformedError("unexpected EOF")
        return None
    return code, _unpacked(whole, headers.get("content-encoding", ""))


def _unpacked(body: bytes, encoding: str) -> bytes:
    """Return a body without gzip encoding, which Go's client asks for and removes."""
    if encoding.lower() != "gzip" or not body:
        return body
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error):
        raise MalformedError("gzip: invalid header") from None


def _check_beginning(data: bytes, *, ended: bool) -> None:
    """Raise `MalformedError` if more bytes cannot make this an answer."""
    if ended and not data:
        raise MalformedError("EOF")
    if b"\n" in data and _STATUS.match(data) is None:
        raise MalformedError(f'malformed HTTP response "{_line(data)}"')
    if ended:
        raise MalformedError("unexpected EOF")


def _line(data: bytes) -> str:
    return data.partition(b"\n")[0].rstrip(b"\r").decode("utf-8", "replace")


def _unchunk(body: bytes) -> bytes | None:
    parts: list[bytes] = []
    while True:
        size, found, body = body.partition(b"\r\n")
        if not found:
            return None
        length = int(size.partition(b";")[0], 16)
        if length == 0:
            return b"".join(parts)
        if len(body) < length + 2:
            return None
        parts.append(body[:length])
        body = body[length + 2 :]
