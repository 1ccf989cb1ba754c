"""The ports on which a proxy serves HTTP in its network namespace: health, metrics, and health check node ports.

Load balancers probe a health check node port to find the nodes that have endpoints of a Service with
externalTrafficPolicy Local. Only the number of local *ready* endpoints matters; hints and terminating endpoints do not.
The proxy's own thread must call all methods, because a socket is in the netns of the thread that creates it.
"""

import socket
from collections.abc import Callable, Mapping

from reference.proxy.decision import Family
from reference.proxy.flows import SOCKET_FAMILY
from reference.proxy.health import as_json
from reference.proxy.state import LocalEndpoints
from reference.serving import Handler, HttpThread, Response

HEALTH_PORT = 10256
METRICS_PORT = 10249


class Listeners:
    """The listening sockets of one proxy. After an error, opening a port is retried, and `fail` is called only once."""

    def __init__(
        self, serving: HttpThread, healthy: Callable[[], bool], fail: Callable[[str, Exception], None]
    ) -> None:
        self._serving, self._healthy, self._fail = serving, healthy, fail
        self._wanted: dict[int, Mapping[Family, Handler]] = {}
        self._open: dict[int, list[socket.socket]] = {}
        self._checks: dict[int, LocalEndpoints] = {}
        self._refused: set[int] = set()

    def serve(self, port: int, handler: Handler) -> None:
        """Serve HTTP on this port, on all addresses of the node, in both IP families."""
        self._wanted[port] = dict.fromkeys(SOCKET_FAMILY, handler)
        self._listen(port)

    def follow(self, changed: Mapping[int, LocalEndpoints | None]) -> None:
        """Update the health check node ports. The value None means that no Service uses the port any more."""
        for port, endpoints in changed.items():
            before = self._checks.get(port)
            if endpoints is None:
                self._close(port)
                self._checks.pop(port, None)
                continue
            self._checks[port] = endpoints
            if before is None or before.counts.keys() != endpoints.counts.keys():
                self._close(port)
                self._wanted[port] = {family: self._check(port, family) for family in endpoints.counts}
                self._listen(port)
        for port in self._wanted.keys() - self._open.keys():
            self._listen(port)

    def close(self) -> None:
        for port in list(self._wanted):
            self._close(port)

    def _listen(self, port: int) -> None:
        opened: list[tuple[socket.socket, Handler]] = []
        try:
            for family, handler in self._wanted[port].items():
                if family == "IPv4" or socket.has_ipv6:
                    opened.append((socket.create_server(("", port), family=SOCKET_FAMILY[family]), handler))
        except OSError as error:
            for listener, _ in opened:
                listener.close()
            if port not in self._refused:
                self._fail(f"cannot listen on port {port}", error)
            self._refused.add(port)
            return
        self._refused.discard(port)
        self._open[port] = [listener for listener, _ in opened]
        for listener, handler in opened:
            self._serving.listen(listener, handler)

    def _close(self, port: int) -> None:
        self._wanted.pop(port, None)
        for listener in self._open.pop(port, ()):
            self._serving.remove(listener)

    def _check(self, port: int, family: Family) -> Handler:
        def answer(_: str) -> Response:
            endpoints, healthy = self._checks[port], self._healthy()
            count = endpoints.counts[family]
            body = {
                "service": {"namespace": endpoints.namespace, "name": endpoints.name},
                "localEndpoints": count,
                "serviceProxyHealthy": healthy,
            }
            code, headers, content = as_json(200 if count and healthy else 503, body)
            return code, {**headers, "X-Load-Balancing-Endpoint-Weight": str(count)}, content

        return answer
