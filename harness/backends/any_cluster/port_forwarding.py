"""HTTP to pods by port-forward, if the API server forbids the pod proxy. Each WebSocket is a connection to a pod.

A connection carries many requests, one at a time. The official client's `stream.portforward` copies bytes in a thread
per connection and waits with select(2), which is limited to 1024 files. So only its WebSocket is used. The protocol is
v4.channel.k8s.io, with two channels per port, each of which begins with the port number.
"""

from __future__ import annotations

import http.client
import io
import threading
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


class PortForwards:
    """Connections to pods; `get` is thread-safe."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._idle: dict[ClientPod, list[Forward]] = {}

    def get(self, client: ClientPod, path: str, query: Mapping[str, str], limit: float) -> Response:
        """Send a GET request to the pod. Return the pod's response, or the API server's if that refuses to forward.

        Raises `InconclusiveError` if neither responds within `limit` seconds.
        """
        asked = f"/{path}?{urlencode(query)}"
        deadline = time.monotonic() + limit
        with self._lock:
            idle = self._idle.setdefault(client, [])
            forward = idle.pop() if idle else None
        try:
            if forward is not None and (answer := self._ask(client, forward, asked, deadline)) is not None:
                return answer
            forward = Forward(self._api, client, deadline)
            answer = self._ask(client, forward, asked, deadline)
        except websocket.WebSocketBadStatusException as error:
            return Response(error.status_code, _status(error))
        except (websocket.WebSocketException, http.client.HTTPException, OSError, ValueError) as error:
            raise InconclusiveError(f"pod {client.name} was not reached by port-forward: {error}") from error
        if answer is None:
            raise InconclusiveError(f"pod {client.name} was not reached by port-forward: the connection ended")
        return answer

    def close(self) -> None:
        with self._lock:
            every = [each for idle in self._idle.values() for each in idle]
            self._idle.clear()
        for each in every:
            each.close()

    def _ask(self, client: ClientPod, forward: Forward, path: str, deadline: float) -> Response | None:
        """Send a request over a connection. Returns None if the connection ended before the response."""
        try:
            answer, stays = forward.get(path, deadline)
        except (http.client.RemoteDisconnected, websocket.WebSocketConnectionClosedException, ConnectionError):
            forward.close()
            return None
        except BaseException:
            forward.close()
            raise
        if not stays:
            forward.close()
            return answer
        with self._lock:
            self._idle.setdefault(client, []).append(forward)
        return answer


class Forward(io.RawIOBase):
    """One connection to a pod, as a raw stream of the pod's output."""

    def __init__(self, api: Api, client: ClientPod, deadline: float) -> None:
        """Connect. Raises the errors of the WebSocket."""
        super().__init__()
        headers = {key.lower(): value for key, value in api.authentication().items()}
        place = path_of("pods", client.namespace, client.name, "portforward")
        url = ws_client.get_websocket_url(api.server + place, [("ports", str(client.port))])  # type: ignore[no-untyped-call]
        self._websocket: Any = ws_client.create_websocket(  # type: ignore[no-untyped-call]
            api.configuration, url, {**headers, "sec-websocket-protocol": PROTOCOL}
        )
        self._deadline = deadline
        self._begun: set[int] = set()  # channels that have sent their port number
        self._unread = b""

    def get(self, path: str, deadline: float) -> tuple[Response, bool]:
        """Send a GET request. Returns the pod's response, and whether the connection stays open."""
        self._deadline = deadline
        self._wait_no_longer()
        request = f"GET {path} HTTP/1.1\r\nHost: pod\r\nAccept: application/json\r\n\r\n"
        self._websocket.send_binary(bytes([_DATA]) + request.encode())
        answer = http.client.HTTPResponse(cast("Any", self))
        try:
            answer.begin()
            return Response(answer.status, _decoded(answer.read())), not answer.will_close
        finally:
            answer.close()

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return a reader of this stream, like `socket.makefile`."""
        return io.BufferedReader(_Borrowed(self))

    def close(self) -> None:
        if not self.closed:
            self._websocket.shutdown()
            super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes; returns 0 at the end. Raises `ConnectionError` with the text in the error channel."""
        while not self._unread:
            self._wait_no_longer()
            opcode, data = self._websocket.recv_data()
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                return 0
            self._take(data[0], data[1:])
        count = min(len(buffer), len(self._unread))
        buffer[:count], self._unread = self._unread[:count], self._unread[count:]
        return count

    def _take(self, channel: int, data: bytes) -> None:
        if channel not in self._begun:
            self._begun.add(channel)
        elif channel == _ERROR:
            raise ConnectionError(data.decode(errors="replace")[:200])
        else:
            self._unread += data

    def _wait_no_longer(self) -> None:
        rest = self._deadline - time.monotonic()
        if rest <= 0:
            raise TimeoutError("it took too long")
        self._websocket.settimeout(rest)


class _Borrowed(io.RawIOBase):
    """A view of a stream whose `close` leaves the stream open."""

    def __init__(self, stream: Forward) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._stream.readinto(buffer)


def _status(error: Any) -> Object:
    return _decoded(error.resp_body or b"") or {"message": str(error)[:200]}


def _decoded(body: bytes) -> Object:
    try:
        decoded = orjson.loads(body) if body else {}
    except orjson.JSONDecodeError:
        return {"message": body[:200].decode(errors="replace")}
    return decoded if isinstance(decoded, dict) else {"message": str(decoded)[:200]}
