"""Sends HTTP GET requests in a netns, for health checks and metrics of programs there."""

import http.client
import io
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.netns.namespace import Namespace

TIMEOUT = 5.0  # seconds for the whole answer; the servers are on the same machine
MOST = 16 << 20  # bytes of an answer, which is more than the metrics of any proxy


@dataclass(frozen=True, slots=True)
class HttpResponse:
    code: int
    headers: Mapping[str, str]
    text: str


def get(namespace: Namespace, address: str, port: int, path: str) -> HttpResponse:
    """Send one request over a new connection. Raises `OSError` if no complete answer arrives in time."""
    deadline = time.monotonic() + TIMEOUT
    with namespace.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as sock:
        sock.settimeout(TIMEOUT)
        sock.connect((address, port))
        host = f"[{address}]" if ":" in address else address
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode("ascii"))
        answer = http.client.HTTPResponse(_BoundedReader(sock, deadline), method="GET")  # type: ignore[arg-type]
        try:
            answer.begin()
            body = answer.read().decode(errors="replace")
        except http.client.HTTPException as error:
            raise ConnectionError(f"{address}:{port} did not send an HTTP response: {error!r}") from error
    return HttpResponse(answer.status, {name.lower(): value for name, value in answer.getheaders()}, body)


class _BoundedReader(io.RawIOBase):
    """Reads what a server sends, with a deadline and a size limit, because programs under test may send endlessly."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        super().__init__()
        self._sock, self._deadline, self._left = sock, deadline, MOST

    def makefile(self, _: str) -> io.BufferedReader:
        """Return a buffered reader. `HTTPResponse` calls this method, because it expects a socket."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._left <= 0:
            raise ConnectionError(f"the answer is longer than {MOST:,} bytes")
        self._sock.settimeout(max(self._deadline - time.monotonic(), 0.001))
        read = self._sock.recv_into(buffer)
        self._left -= read
        return read
