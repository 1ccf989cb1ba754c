"""Users of an API server with role-based access control: rules for each user, and tokens that expire.

As in Kubernetes' RBAC, rules only add permissions. The product needs no such users. Tests use them for runs with
restricted permissions, and for the error messages of such runs, without a real cluster.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reference.apiserver import status
from reference.apiserver.access import ADMIN, AccessChecks
from reference.apiserver.http_request import HttpRequest
from reference.apiserver.pod_access.pod_location import PodRequest
from reference.apiserver.routes import Route
from reference.apiserver.server import HttpServer
from reference.client import ApiError, Object

_VERBS = {
    ("GET", True): "get",
    ("HEAD", True): "get",
    ("GET", False): "list",
    ("POST", True): "create",
    ("POST", False): "create",
    ("PUT", True): "update",
    ("PATCH", True): "patch",
    ("DELETE", True): "delete",
    ("DELETE", False): "deletecollection",
}
_CREATED = frozenset({"exec"})  # a WebSocket is a GET, and since 1.35 needs this verb too
_OPEN_TO_ALL = (
    {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
     "resources": ["selfsubjectaccessreviews"]},
    {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
    {"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi",
                                           "/openapi/*", "/readyz", "/version", "/version/"]},
)  # fmt: skip
"""The rules of every user: the roles system:basic-user and system:discovery."""


@dataclass(frozen=True, slots=True)
class RequestAttributes:
    """A verb, and its resource or non-resource URL (`path`)."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass
class LimitedUsers:
    """The users of a server by their tokens. The first one with a token replaces the checks of the server."""

    access: AccessChecks
    rules: dict[str, tuple[Object, ...]] = field(default_factory=dict)
    """The rules of each user by name."""

    tokens: dict[str, tuple[str, float]] = field(default_factory=dict)
    """The user of each token, and the time until which it is valid (monotonic seconds)."""

    def __post_init__(self) -> None:
        self._admin = self.access.authenticate
        self.access.authenticate = self.authenticate
        self.access.allows = lambda user, spec: self.allows(user, _reviewed(spec))
        self.access.check = self.check

    def add(self, name: str, rules: Sequence[Object] = (), *, seconds: float = float("inf")) -> str:
        """Return a token for a user with these PolicyRules. It is valid for `seconds`."""
        token = secrets.token_urlsafe(32)
        self.rules[name] = tuple(rules)
        self.tokens[f"Bearer {token}"] = name, time.monotonic() + seconds
        return token

    def authenticate(self, authorization: str) -> Object:
        name, until = self.tokens.get(authorization, ("", 0.0))
        if until <= time.monotonic():
            return self._admin(authorization)
        return {"username": name, "groups": ["system:authenticated"]}

    def check(self, user: Object, asked: HttpRequest, target: Any) -> None:
        for each in _attributes(asked, target):
            if not self.allows(user, each):
                raise forbidden(user["username"], each)

    def allows(self, user: Object, wanted: RequestAttributes) -> bool:
        if user is ADMIN:
            return True
        return any(_covers(each, wanted) for each in (*self.rules[user["username"]], *_OPEN_TO_ALL))


def add_user(server: HttpServer, name: str, rules: Sequence[Object] = (), *, seconds: float = float("inf")) -> str:
    """Return a token for a user of this server with these PolicyRules. It is valid for `seconds` or until `revoke`."""
    return _users(server).add(name, rules, seconds=seconds)


def revoke(server: HttpServer, token: str) -> None:
    """Invalidate a token from `add_user`: requests with the token receive 401."""
    del _users(server).tokens[f"Bearer {token}"]


def _users(server: HttpServer) -> LimitedUsers:
    owner = getattr(server.access.authenticate, "__self__", None)
    return owner if isinstance(owner, LimitedUsers) else LimitedUsers(server.access)


def forbidden(user: str, wanted: RequestAttributes) -> ApiError:
    """Return the 403 error with the message that Kubernetes uses."""
    if wanted.path:
        return status.failure(403, "Forbidden", f'forbidden: User "{user}" cannot {wanted.verb} path "{wanted.path}"')
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    what = f'{wanted.verb} resource "{wanted.full_resource}" in API group "{wanted.group}"'
    qualified = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
    named = f'{qualified} "{wanted.name}"' if wanted.name else qualified
    details = {"name": wanted.name, "group": wanted.group, "kind": wanted.resource}
    return status.failure(
        403,
        "Forbidden",
        f'{named} is forbidden: User "{user}" cannot {what} {where}',
        {name: value for name, value in details.items() if value},
    )


def _attributes(asked: HttpRequest, target: Any) -> list[RequestAttributes]:
    """Return all that a user must be allowed for a request."""
    verb = _VERBS.get((asked.method, True), asked.method.lower())
    if isinstance(target, PodRequest):
        verbs = [verb]
        if target.subresource in _CREATED and verb == "get":
            verbs.append("create")
        return [
            RequestAttributes(each, "", "pods", target.subresource, target.namespace, target.identifier)
            for each in verbs
        ]
    if not isinstance(target, Route):
        return [RequestAttributes(verb, path=asked.path)]
    verb = "watch" if asked.streams else _VERBS.get((asked.method, bool(target.name)), asked.method.lower())
    resource = target.strategy.resource
    namespace = target.name if resource.plural == "namespaces" else target.namespace
    group = target.view.group if target.view else resource.group
    return [RequestAttributes(verb, group, resource.plural, target.subresource, namespace, target.name)]


def _reviewed(spec: Object) -> RequestAttributes:
    if not isinstance(asked := spec.get("resourceAttributes"), dict):
        asked = spec["nonResourceAttributes"]
        return RequestAttributes(str(asked.get("verb", "")), path=str(asked.get("path", "")))
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    return RequestAttributes(**{name: str(asked.get(name) or "") for name in names})


def _covers(rule: Object, wanted: RequestAttributes) -> bool:
    if not _has(rule.get("verbs"), wanted.verb):
        return False
    if wanted.path:
        return any(_path_covers(each, wanted.path) for each in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    return (
        _has(rule.get("apiGroups"), wanted.group)
        and _has_resource(rule.get("resources") or (), wanted)
        and (not names or wanted.name in names)
    )


def _has(listed: Sequence[str] | None, wanted: str) -> bool:
    return listed is not None and ("*" in listed or wanted in listed)


def _has_resource(listed: Sequence[str], wanted: RequestAttributes) -> bool:
    if _has(listed, wanted.full_resource):
        return True
    return bool(wanted.subresource) and f"*/{wanted.subresource}" in listed


def _path_covers(pattern: str, path: str) -> bool:
    return pattern in {"*", path} or (pattern.endswith("*") and path.startswith(pattern[:-1]))
