"""Role-based access control with a list of rules for each user.

As in Kubernetes' RBAC, rules only add permissions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reference.apiserver import status
from reference.apiserver.authz.users import ADMIN, User
from reference.apiserver.routes import Route
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
_OPEN_TO_ALL = (
    {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
     "resources": ["selfsubjectaccessreviews"]},
    {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
    {"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi",
                                           "/openapi/*", "/readyz", "/version", "/version/"]},
)  # fmt: skip
"""The rules of every user: the roles system:basic-user and system:discovery."""


@dataclass(frozen=True, slots=True)
class Attributes:
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


def attributes_of(method: str, route: Route, *, watch: bool) -> Attributes:
    verb = "watch" if watch else _VERBS.get((method, bool(route.name)), method.lower())
    resource = route.strategy.resource
    namespace = route.name if resource.plural == "namespaces" else route.namespace
    group = route.view.group if route.view else resource.group
    return Attributes(verb, group, resource.plural, route.subresource, namespace, route.name)


def check(user: User, wanted: Attributes) -> None:
    """Raise `ApiError` (403) if the rules of the user do not allow this request."""
    if not allows(user, wanted):
        raise forbidden(user, wanted)


def allows(user: User, wanted: Attributes) -> bool:
    return user is ADMIN or any(_covers(each, wanted) for each in (*user.rules, *_OPEN_TO_ALL))


def forbidden(user: User, wanted: Attributes) -> ApiError:
    """Return the 403 error with the message that Kubernetes uses."""
    if wanted.path:
        return status.failure(
            403, "Forbidden", f'forbidden: User "{user.name}" cannot {wanted.verb} path "{wanted.path}"'
        )
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    what = f'{wanted.verb} resource "{wanted.full_resource}" in API group "{wanted.group}"'
    qualified = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
    named = f'{qualified} "{wanted.name}"' if wanted.name else qualified
    details = {"name": wanted.name, "group": wanted.group, "kind": wanted.resource}
    return status.failure(
        403,
        "Forbidden",
        f'{named} is forbidden: User "{user.name}" cannot {what} {where}',
        {name: value for name, value in details.items() if value},
    )


def _covers(rule: Object, wanted: Attributes) -> bool:
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


def _has_resource(listed: Sequence[str], wanted: Attributes) -> bool:
    if _has(listed, wanted.full_resource):
        return True
    return bool(wanted.subresource) and f"*/{wanted.subresource}" in listed


def _path_covers(pattern: str, path: str) -> bool:
    return pattern in {"*", path} or (pattern.endswith("*") and path.startswith(pattern[:-1]))
