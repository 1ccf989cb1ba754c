"""Answers each request immediately, except watches, requests to pods and kubelets, and OpenAPI documents."""

import time
from collections import Counter, deque
from typing import Any

import orjson

from reference.apiserver import bounded_log, handlers, media, status, store
from reference.apiserver.access import ADMIN, AccessChecks, review
from reference.apiserver.discovery import Discovery
from reference.apiserver.handlers import Request, Response
from reference.apiserver.http_request import HttpRequest, RequestRecord
from reference.apiserver.pod_access import pod_location
from reference.apiserver.registry import Registry
from reference.apiserver.routes import Routes
from reference.client import ApiError, Object
from reference.features import GATES, Features, Gate

LONG_BODY_BYTES = 128 * 1024
LONG_YAML_BYTES = 8 * 1024
MOST_AGENTS = 100
"""The maximum number of user agents for which written bytes are counted separately."""

HEALTH = frozenset({"/healthz", "/livez", "/readyz"})


class Dispatcher:
    def __init__(self, registry: Registry, log: deque[RequestRecord], access: AccessChecks) -> None:
        """`log` receives a record of each request."""
        self._log = log
        self._registry = registry
        self._routes = Routes(registry)
        self._discovery = Discovery(registry)
        self._access = access
        self._written: Counter[str] = Counter()  # bytes by user agent

    def answer(self, asked: HttpRequest) -> Response | None:
        """Return the response (also for an error), or None if the caller must answer and log the request."""
        if asked.streams or asked.path.startswith("/openapi/") or pod_location.parse(asked.path):
            return None
        try:
            answer = self._answer(asked)
        except Exception as error:  # noqa: BLE001 - the client receives an error, and the server continues
            answer = failure(error, asked)
        self.record(asked, answer.code)
        if asked.body and answer.code < 300:
            agent = asked.user_agent[:100]
            known = agent in self._written or len(self._written) < MOST_AGENTS
            self._written[agent if known else "others"] += len(asked.body)
        return answer

    def is_long(self, asked: HttpRequest) -> bool:
        """Return whether a request may take so long that a separate thread should answer it."""
        if len(asked.body) > LONG_BODY_BYTES or ("yaml" in asked.content_type and len(asked.body) > LONG_YAML_BYTES):
            return True
        if asked.method not in {"PUT", "PATCH"}:
            return False
        try:
            route = self._routes.find(asked.path)
        except ApiError:
            return False
        stored = self._registry.store.get(route.resource, (route.namespace, route.name))
        return stored is not None and len(stored.json) > LONG_BODY_BYTES

    def record(self, asked: HttpRequest, code: int = 0) -> None:
        sent = asked.method, asked.path, asked.raw_query, asked.accept, asked.user_agent
        self._log.append(RequestRecord(*sent, code, time.monotonic()))

    def authenticate(self, asked: HttpRequest) -> Object:
        """Return the user of a request. Health checks need no token. Raises `ApiError` (401)."""
        return ADMIN if asked.path in HEALTH else self._access.authenticate(asked.headers.get("authorization", ""))

    def resource_request(self, asked: HttpRequest, user: Object) -> Request:
        """Return the request with its route and its response form. Raises `ApiError`: 403, 404, 406."""
        route = self._routes.find(asked.path)
        self._access.check(user, asked, route)
        answer = media.negotiate(asked.accept)
        if answer is None:
            raise status.failure(406, "NotAcceptable", f"only the following media types are accepted: {media.JSON}")
        return Request(asked, route, answer)

    def _answer(self, asked: HttpRequest) -> Response:
        user = self.authenticate(asked)
        if asked.method == "GET" and asked.path in HEALTH:
            return Response(200, b"ok", content_type="text/plain; charset=utf-8")
        if self._registry.store.bytes > store.MOST_BYTES:
            raise status.full(store.MOST_BYTES, *(self._written.most_common(1) or [("", 0)])[0])
        if asked.method == "GET" and (found := self._discovery.find(asked.path)):
            return _json(200, found)
        if asked.method == "POST" and (answer := review(self._access, asked, user)):
            return _json(201, answer)
        if asked.method == "GET" and asked.path == _METRICS:
            self._access.check(user, asked, None)
            return Response(200, _metrics(self._registry.features), content_type=_METRICS_TYPE)
        return handlers.handle(self._registry, self.resource_request(asked, user))


def failure(error: Exception, asked: HttpRequest) -> Response:
    """Return the response to a failed request. Errors other than API errors are logged."""
    if isinstance(error, ApiError):
        return _json(error.code, error.status)
    bounded_log.log.error("%s %.200r", asked.method, asked.path, exc_info=error)
    return _json(500, status.internal(repr(error)).status)


def _json(code: int, value: Any) -> Response:
    return Response(code, orjson.dumps(value))


_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METRICS = "/metrics"
_GATES = "kubernetes_feature_enabled"
_GATES_HEAD = f"# HELP {_GATES} [BETA] The stage of a feature gate, and whether it is enabled.\n# TYPE {_GATES} gauge\n"


def _metrics(features: Features) -> bytes:
    """Return the feature gates as Prometheus text: all gates of this version, and any others that were set."""
    minor = features.version[1]
    there = {
        name: gate
        for name, gate in GATES.items()
        if name in features.gates or (gate.introduced <= minor and (gate.removed is None or minor < gate.removed))
    }
    lines = [
        f'{_GATES}{{name="{name}",stage="{_stage(gate, minor)}"}} {int(features.enabled(name))}\n'
        for name, gate in sorted(there.items())
    ]
    return (_GATES_HEAD + "".join(lines)).encode()


def _stage(gate: Gate, minor: int) -> str:
    if gate.locked is not None and minor >= gate.locked:
        return ""  # generally available
    return "BETA" if gate.on_by_default is not None and minor >= gate.on_by_default else "ALPHA"
