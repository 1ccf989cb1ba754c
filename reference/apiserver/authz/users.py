"""Users, identified by their bearer tokens.

The server has one user, the admin, who may do everything. Tests add users with limited rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from reference.apiserver import status
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


def attributes_of(method: str, route: Route, *, watch: bool) -> Attributes:
    verb = "watch" if watch else _VERBS.get((method, bool(route.name)), method.lower())
    resource = route.strategy.resource
    namespace = route.name if resource.plural == "namespaces" else route.namespace
    group = route.view.group if route.view else resource.group
    return Attributes(verb, group, resource.plural, route.subresource, namespace, route.name)


@dataclass(frozen=True)
class User:
    """A user who may do everything."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)

    @property
    def info(self) -> Object:
        """Return the user in the form that reviews contain."""
        return {"username": self.name, "groups": list(self.groups)}

    def refusal(self, wanted: Attributes) -> ApiError | None:  # noqa: ARG002  of users with limited rules
        """Return the error (403) for a request that the user may not make, or None."""
        return None


ADMIN = User("admin", groups=("system:masters", "system:authenticated"))


class Users:
    """All users. `token` is the token of the admin."""

    def __init__(self, token: str) -> None:
        self.by_token = {token: ADMIN}

    def authenticate(self, authorization: str) -> User:
        """Return the user for this Authorization header. Raises `ApiError` (401)."""
        kind, _, token = authorization.partition(" ")
        user = self.by_token.get(token) if kind == "Bearer" else None
        if user is None:
            raise status.unauthorized()
        return user


def check(user: User, wanted: Attributes) -> None:
    """Raise `ApiError` (403) if the user may not make this request."""
    if refused := user.refusal(wanted):
        raise refused
