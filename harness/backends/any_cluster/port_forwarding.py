"""Sends HTTP requests to pods by port-forward if the API server forbids the pod proxy. Each request opens a connection.

The official client's `stream.portforward` copies bytes in one thread per connection and waits with select(2), which
supports only 1024 files. So this module uses only the client's WebSocket. The protocol is v4.channel.k8s.io. It has two
channels per port, and each channel begins with the port number.
"""

from __future__ import annotations

import http.client
import io
import time
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlencode

import orjson
import websocket
from kubernetes.stream import ws_client

from harness.api.client import Api, Object, Response, path_of
from harness.backends.any_cluster.pods import ClientPod
from harness.errors import InconclusiveError

PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1


def get(api: Api, client: ClientPod, path: str, query: Mapping[str, str], limit: float) -> Response:
    """Send a GET request to a pod. Return the pod's response, or the API server's response if it refuses to forward.

    Raises `InconclusiveError` if neither of them responds within `limit` seconds.
    """
    headers = {
        **{key.lower(): value for key, value in api.authentication().items()},
        "sec-websocket-protocol": PROTOCOL,
    }
    place = api.server + path_of("pods", client.namespace, client.name, "portforward")
    request = f"GET /{path}?{urlencode(query)} HTTP/1.1\r\nHost: pod\r\nAccept: application/json\r\n\r\n"
    deadline = time.monotonic() + limit
    try:
        url = ws_client.get_websocket_url(place, [("ports", str(client.port))])  # type: ignore[no-untyped-call]
        sock: Any = ws_client.create_websocket(api.configuration, url, headers)  # type: ignore[no-untyped-call]
        try:
            sock.send_binary(bytes([_DATA]) + request.encode())
            answer = http.client.HTTPResponse(cast("Any", _Output(sock, deadline)))
            answer.begin()
            return Response(answer.status, _decoded(answer.read()))
        finally:
            sock.shutdown()
    except websocket.WebSocketBadStatusException as error:
        refusal = _decoded(cast("Any", error).resp_body or b"") or {"message": str(error)[:200]}
        return Response(error.status_code, refusal)
    except (websocket.WebSocketException, http.client.HTTPException, OSError, ValueError) as error:
        raise InconclusiveError(f"pod {client.name} was not reached by port-forward: {error}") from error


class _Output(io.RawIOBase):
    """A pod's output as a raw stream."""

    def __init__(self, sock: Any, deadline: float) -> None:
        super().__init__()
        self._websocket = sock
        self._deadline = deadline
        self._begun: set[int] = set()  # channels that have sent their port number
        self._unread = b""

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return a reader of this stream, like `socket.makefile`."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes. Returns 0 at the end. Raises `ConnectionError` with the text of the error channel."""
        while not self._unread:
            rest = self._deadline - time.monotonic()
            if rest <= 0:
                raise TimeoutError("it took too long")
            self._websocket.settimeout(rest)
            opcode, data = self._websocket.recv_data()
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                return 0
            channel, content = data[0], data[1:]
            if channel not in self._begun:
                self._begun.add(channel)
            elif channel == _ERROR:
                raise ConnectionError(content.decode(errors="replace")[:200])
            else:
                self._unread = content
        count = min(len(buffer), len(self._unread))
        buffer[:count], self._unread = self._unread[:count], self._unread[count:]
        return count


def _decoded(body: bytes) -> Object:
    try:
        decoded = orjson.loads(body) if body else {}
    except orjson.JSONDecodeError:
        return {"message": body[:200].decode(errors="replace")}
    return decoded if isinstance(decoded, dict) else {"message": str(decoded)[:200]}
