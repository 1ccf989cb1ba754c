"""A minimal API client that generates the load for `benchmarks/api_server.py`.

The client shares two cores with the server, so a more convenient client would distort the measurement. It has one
thread, one epoll and plain TLS sockets. A request is a template with a number, and the client reads only the status and
the length of a response. Watchers read every byte and find the stamp of every event, but do not parse events.
"""

from __future__ import annotations

import re
import select
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

STAMP = b"#########"
"""The placeholder for the number of a write in a body. Both have the same length."""

_STAMPS = re.compile(rb'"stamp":"(\d{9})"')
_READ = 1 << 18


@dataclass(frozen=True, slots=True)
class Where:
    """A server and the credentials for it."""

    url: str
    token: str
    ca_pem: str

    def connect(self) -> ssl.SSLSocket:
        parts = urlsplit(self.url)
        plain = socket.create_connection((parts.hostname, parts.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return ssl.create_default_context(cadata=self.ca_pem).wrap_socket(plain, server_hostname=parts.hostname)

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {urlsplit(self.url).netloc}\r\nAccept: application/json\r\n"
            f"Authorization: Bearer {self.token}\r\nUser-Agent: benchmark/1\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


class Arrivals:
    """The times (`perf_counter`) when each write was sent, and when the last watcher received it."""

    def __init__(self, writes: int, watchers: int) -> None:
        self.sent = [0.0] * (writes + 1)
        self.latencies: list[float] = []
        self._seen = [0] * (writes + 1)
        self._watchers = watchers

    def saw(self, lines: bytes) -> None:
        """Record every stamp that one watcher read. The stamp 0 belongs to no write and is ignored."""
        for digits in _STAMPS.findall(lines):
            stamp = int(digits)
            self._seen[stamp] += 1
            if stamp and self._seen[stamp] == self._watchers:
                self.latencies.append(time.perf_counter() - self.sent[stamp])


class Writer:
    """Sends requests one after another over one connection."""

    def __init__(self, where: Where, request: bytes, stamps: range, arrivals: Arrivals) -> None:
        self.socket = where.connect()
        self.done = False
        self._parts = request.split(STAMP)
        self._stamps, self._arrivals = iter(stamps), arrivals
        self._answer = b""

    def send(self) -> None:
        stamp = next(self._stamps, None)
        if stamp is None:
            self.done = True
            return
        self._arrivals.sent[stamp] = time.perf_counter()
        self.socket.sendall((b"%09d" % stamp).join(self._parts))

    def readable(self) -> None:
        self._answer += self.socket.recv(_READ)
        if _is_whole(self._answer):
            if not self._answer.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(self._answer.decode())
            self._answer = b""
            self.send()


class Reader:
    """A watch that is read until it is closed."""

    def __init__(self, where: Where, path: str, arrivals: Arrivals) -> None:
        self.socket = where.connect()
        self._arrivals = arrivals
        self._rest = b""
        self.socket.sendall(where.request("GET", path))
        while b"initial-events-end" not in self.socket.recv(_READ):
            pass
        self.socket.setblocking(False)

    def readable(self) -> None:
        while True:
            try:
                got = self.socket.recv(_READ)
            except ssl.SSLWantReadError:
                return
            if not got:
                raise ConnectionError("the server ended a watch")
            whole, newline, self._rest = (self._rest + got).rpartition(b"\n")
            self._arrivals.saw(whole + newline)


def call(where: Where, method: str, path: str, body: bytes) -> None:
    """Send a single request over a separate connection."""
    with where.connect() as connection:
        connection.sendall(where.request(method, path, body))
        answer = b""
        while not _is_whole(answer):
            answer += connection.recv(_READ)
    if not answer.startswith(b"HTTP/1.1 20"):
        raise RuntimeError(answer.decode())


def run(writers: list[Writer], readers: list[Reader], arrivals: Arrivals, writes: int) -> float:
    """Return the seconds until all writes are answered. Also wait until all watchers have received them."""
    poll = select.epoll()
    every: list[Writer | Reader] = [*writers, *readers]
    ready: dict[int, Callable[[], None]] = {each.socket.fileno(): each.readable for each in every}
    for fd in ready:
        poll.register(fd, select.EPOLLIN)
    start, seconds = time.perf_counter(), 0.0
    for writer in writers:
        writer.send()
    while len(arrivals.latencies) < writes or not seconds:
        for fd, _ in poll.poll(10):
            ready[fd]()
        if not seconds and all(each.done for each in writers):
            seconds = time.perf_counter() - start
    poll.close()
    for each in every:
        each.socket.close()
    return seconds


def _is_whole(answer: bytes) -> bool:
    head, found, body = answer.partition(b"\r\n\r\n")
    return bool(found) and len(body) >= int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
