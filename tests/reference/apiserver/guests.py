"""Users of the API server with role-based access control, for tests of runs with restricted permissions.

As in Kubernetes' RBAC, rules only add permissions.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from reference.apiserver import status
from reference.apiserver.authz.users import Attributes, User
from reference.apiserver.server import HttpServer
from reference.client import ApiError, Object

_OPEN_TO_ALL = (
    {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
     "resources": ["selfsubjectaccessreviews"]},
    {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
    {"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi",
                                           "/openapi/*", "/readyz", "/version", "/version/"]},
)  # fmt: skip
"""The rules of every user: the roles system:basic-user and system:discovery."""


@dataclass(frozen=True)
class Guest(User):
    """A user with RBAC PolicyRules that apply to the whole cluster."""

    rules: tuple[Object, ...] = ()

    def refusal(self, wanted: Attributes) -> ApiError | None:
        allowed = any(_covers(each, wanted) for each in (*self.rules, *_OPEN_TO_ALL))
        return None if allowed else _forbidden(self, wanted)


def add_user(server: HttpServer, name: str, rules: Sequence[Object] = ()) -> str:
    """Return a token for a user with these PolicyRules. It is valid until `revoke`."""
    token = secrets.token_urlsafe(32)
    server.users.by_token[token] = Guest(name, rules=tuple(rules))
    return token


def revoke(server: HttpServer, token: str) -> None:
    """Invalidate a token from `add_user`: requests with the token receive 401."""
    del server.users.by_token[token]


def _forbidden(user: User, wanted: Attributes) -> ApiError:
    """Return the 403 error with the message that Kubernetes uses."""
    if wanted.path:
        return status.failure(
            403, "Forbidden", f'forbidden: User "{user.name}" cannot {wanted.verb} path "{wanted.path}"'
        )
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    what = f'{wanted.verb} resource "{_full_resource(wanted)}" in API group "{wanted.group}"'
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
    if _has(listed, _full_resource(wanted)):
        return True
    return bool(wanted.subresource) and f"*/{wanted.subresource}" in listed


def _path_covers(pattern: str, path: str) -> bool:
    return pattern in {"*", path} or (pattern.endswith("*") and path.startswith(pattern[:-1]))


def _full_resource(wanted: Attributes) -> str:
    return f"{wanted.resource}/{wanted.subresource}" if wanted.subresource else wanted.resource
