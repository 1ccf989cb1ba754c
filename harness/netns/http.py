"""Sends HTTP GET requests in a netns, for health checks and metrics of programs there."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from harness.netns.namespace import Namespace

TIMEOUT = 5.0  # seconds; the servers are on the same machine


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The status code, the headers by lower-case name, and the body."""

    code: int
    headers: Mapping[str, str]
    text: str


def get(namespace: Namespace, address: str, port: int, path: str) -> HttpAnswer:
    """Send one request over a new connection. Raises `OSError` if there is no server or no answer."""
    connection = http.client.HTTPConnection(address, port)
    connection.sock = namespace.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        connection.sock.settimeout(TIMEOUT)
        connection.sock.connect((address, port))
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace")
        return HttpAnswer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, body)
    except http.client.HTTPException as error:
        raise ConnectionError(f"{address}:{port} did not answer as HTTP: {error!r}") from error
    finally:
        connection.close()
