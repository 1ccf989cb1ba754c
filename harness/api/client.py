"""A Kubernetes API client. Objects are dicts, because typed clients refuse invalid objects and drop unknown fields."""

import builtins
import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import orjson
import urllib3

from harness.api.connection import connection_of
from harness.api.requests import ApiRequest
from harness.errors import DistrustError, InconclusiveError
from harness.model.manifests import service_with_usual

if TYPE_CHECKING:
    from harness.api.kubeconfig import Kubeconfig

Object = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

_PREFIXES = {
    "deployments": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
    "ingresses": "/apis/networking.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "endpointslices": "/apis/discovery.k8s.io/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "podlocators": "/apis/trafficdist.dev/v1alpha1",
}
_TRIES = 10  # maximum number of attempts for a request that gets status 429 with Retry-After, as in client-go

_FULL = 507  # status that only the embedded API server returns, when a client has filled its storage
_REMEMBERED = 10_000  # number of requests in the evidence of a failure
_CLUSTER_SCOPED = frozenset({"nodes", "namespaces"})


@dataclass(frozen=True, slots=True)
class Response:
    code: int
    body: Object
    warnings: tuple[str, ...] = ()
    date: str = ""

    @property
    def causes(self) -> list[Object]:
        """Return the field errors of a Status with reason Invalid, each as `{"reason", "field", "message"}`."""
        return list((self.body.get("details") or {}).get("causes") or ())

    @property
    def outcome(self) -> str:
        return str(self.body.get("message") or "accepted") if self.code >= 400 else "accepted"

    def named(self, field: str) -> str:
        """Return `field` if a cause in the Status names it, or else the fields of all causes, separated by commas."""
        fields = [cause["field"] for cause in self.causes]
        return field if field in fields else ", ".join(fields)


class RefusedError(Exception):
    def __init__(self, method: str, path: str, response: Response) -> None:
        super().__init__(f"{method} {path}: {response.code} {response.body.get('message', '')}")
        self.method = method
        self.path = path
        self.response = response


def path_of(resource: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the URL path of a resource: `path_of("services", "default", "web", "status")`."""
    parts = [_PREFIXES.get(resource, "/api/v1")]
    if namespace and resource not in _CLUSTER_SCOPED:
        parts += ["namespaces", namespace]
    parts += [part for part in (resource, name, subresource) if part]
    return "/".join(parts)


def log_of_pod(api: "Api", namespace: str, pod: str, **options: str) -> str:
    """Return a pod's log, or "" for an error status. `options` are query parameters. Raises `InconclusiveError`."""
    return api.text(f"{path_of('pods', namespace, pod, 'log')}?{urlencode(options)}")


def new_record() -> deque[ApiRequest]:
    return deque(maxlen=_REMEMBERED)


class Api:
    """A client of an API server. All methods except `request` and `text` raise `RefusedError` for an error status."""

    def __init__(
        self,
        kubeconfig: "Kubeconfig | Mapping[str, Any]",
        *,
        timeout: float = 30.0,
        connections: int = 10,
        asked: deque[ApiRequest] | None = None,
        services: Mapping[str, Any] | None = None,
    ) -> None:
        """`timeout` (in s) limits each attempt, and the time for retries after 429 responses with Retry-After. `create`
        adds to a Service the fields of `services` that it lacks. Requests are appended to `asked`. Raises `UsageError`.
        """
        connection = connection_of(kubeconfig) if isinstance(kubeconfig, Mapping) else kubeconfig.connection()
        self._pool, self.server, self.authentication = connection.pool, connection.server, connection.authentication
        self._pool.connection_pool_kw["maxsize"] = connections
        self._timeout = timeout
        self._services = services or {}
        self.writes = 0  # number of requests so far that may have changed an object
        self.asked: deque[ApiRequest] = new_record() if asked is None else asked

    def close(self) -> None:
        self._pool.clear()

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout: float = 0.0,
    ) -> Response:
        """Send a request, and return the response, whatever its status. Raises `InconclusiveError` if none arrives."""
        headers = {"Accept": "application/json", **self.authentication()}
        if body is not None:
            headers["Content-Type"] = content_type
        self.writes += method != "GET"
        url = path + ("?" + urlencode(query) if query else "")
        sent = None if body is None else orjson.dumps(body)
        at, code = time.monotonic(), 0
        try:
            answer = self._send(method, url, headers=headers, body=sent, timeout=timeout or self._timeout)
            code = answer.status
        finally:
            self.asked.append(ApiRequest(at, method, path, code, _name_in(body), urlencode(query or {})))
        warnings = tuple(warning_texts(answer.headers))
        return Response(answer.status, _json(answer.data), warnings, answer.headers.get("date", ""))

    def text(self, path: str, *, timeout: float = 0.0) -> str:
        """Return the text at a path such as /metrics, or "" for an error status. Raises `InconclusiveError`."""
        answer = self._send("GET", path, headers=self.authentication(), timeout=timeout or self._timeout)
        return str(answer.data.decode(errors="replace")) if answer.status == 200 else ""

    def _send(self, method: str, path: str, *, headers: Mapping[str, str], **options: Any) -> urllib3.BaseHTTPResponse:
        url, said = f"{self.server}{path}", {"User-Agent": "trafficdist", **headers}
        give_up, tries = time.monotonic() + self._timeout, 0
        try:
            while True:
                answer, tries = self._pool.request(method, url, headers=said, retries=False, **options), tries + 1
                if answer.status == _FULL:
                    raise DistrustError(_json(answer.data).get("message", "the API server is full"))
                wait = _seconds_to_wait(answer)
                if wait is None or tries == _TRIES or time.monotonic() + wait > give_up:
                    return answer
                time.sleep(wait)
        except urllib3.exceptions.HTTPError as error:
            shown = path.partition("?")[0]
            raise InconclusiveError(f"the API server did not respond to {method} {shown}: {error}") from error

    def get(self, resource: str, namespace: str, name: str) -> Object:
        return self._expect("GET", path_of(resource, namespace, name))

    def list(self, resource: str, namespace: str = "", *, label_selector: str = "") -> builtins.list[Object]:
        """Read all objects of a resource, in all namespaces if `namespace` is empty."""
        query = {"labelSelector": label_selector} if label_selector else None
        return builtins.list(self._expect("GET", path_of(resource, namespace), query=query).get("items") or ())

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        whole = service_with_usual(obj, self._services) if resource == "services" else obj
        return self._expect("POST", path_of(resource, namespace), whole)

    def replace(self, resource: str, namespace: str, obj: Object) -> Object:
        return self._expect("PUT", path_of(resource, namespace, obj["metadata"]["name"]), obj)

    def patch(self, resource: str, namespace: str, name: str, patch: Object, *, subresource: str = "") -> Object:
        """Apply a JSON merge patch, in which `None` removes a field."""
        path = path_of(resource, namespace, name, subresource)
        return self._expect("PATCH", path, patch, content_type=MERGE_PATCH)

    def delete_all(self, resource: str, namespace: str, *, grace_seconds: int | None = None) -> None:
        self.delete(resource, namespace, "", grace_seconds=grace_seconds)

    def delete(self, resource: str, namespace: str, name: str, *, grace_seconds: int | None = None) -> None:
        """Delete an object unless it is already deleted. An empty name selects all objects in the namespace."""
        path = path_of(resource, namespace, name)
        query = None if grace_seconds is None else {"gracePeriodSeconds": str(grace_seconds)}
        response = self.request("DELETE", path, query=query)
        if response.code >= 400 and response.code != 404:
            raise RefusedError("DELETE", path, response)

    def evict(self, namespace: str, name: str, *, grace_seconds: int) -> None:
        """Evict a pod, like `kubectl drain`. Raises `RefusedError` with 404 or 429 (PodDisruptionBudget)."""
        options = {"gracePeriodSeconds": grace_seconds}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}
        self._expect("POST", path_of("pods", namespace, name, "eviction"), body)

    def _expect(self, method: str, path: str, body: Object | None = None, **options: Any) -> Object:
        response = self.request(method, path, body, **options)
        if response.code >= 400:
            raise RefusedError(method, path, response)
        return response.body


def _name_in(body: object) -> str:
    metadata = body.get("metadata") if isinstance(body, dict) else None
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _json(data: bytes) -> Object:
    try:
        decoded = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {"message": data[:200].decode(errors="replace")}
    return decoded if isinstance(decoded, dict) else {"items": decoded}


def _seconds_to_wait(answer: urllib3.BaseHTTPResponse) -> float | None:
    if answer.status != 429:
        return None
    try:
        return urllib3.Retry().get_retry_after(answer)
    except urllib3.exceptions.InvalidHeader:
        return None


_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')  # RFC 9110: a backslash escapes a quote in a quoted string


def warning_texts(headers: urllib3.HTTPHeaderDict) -> builtins.list[str]:
    found = (_QUOTED.search(text) for text in headers.getlist("warning"))
    return [re.sub(r"\\(.)", r"\1", each[1]) for each in found if each]
