"""Users, identified by their bearer tokens.

The server has one admin token. Tests add users to check refusals: users with limited rules or with an expired token.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from dataclasses import dataclass

from reference.apiserver import status
from reference.client import Object


@dataclass(frozen=True, slots=True)
class User:
    """A user: a name, and RBAC PolicyRules that apply to the whole cluster."""

    name: str
    rules: tuple[Object, ...] = ()
    groups: tuple[str, ...] = ("system:authenticated",)

    @property
    def info(self) -> Object:
        """Return the user in the form that reviews contain."""
        return {"username": self.name, "groups": list(self.groups)}


ADMIN = User("admin", groups=("system:masters", "system:authenticated"))
"""The user who may do everything."""


@dataclass(frozen=True, slots=True)
class _Issued:
    user: User
    until: float


class Users:
    """All users; thread-safe. `token` is the token of the admin."""

    def __init__(self, token: str) -> None:
        self._admin = f"Bearer {token}".encode()
        self._lock = threading.Lock()
        self._issued: dict[str, _Issued] = {}

    def add(self, user: User, *, seconds: float = float("inf")) -> str:
        """Return a new token for a user, valid for `seconds`."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._issued[token] = _Issued(user, time.monotonic() + seconds)
        return token

    def revoke(self, token: str) -> None:
        with self._lock:
            self._issued.pop(token, None)

    def authenticate(self, authorization: str) -> User:
        """Return the user for this Authorization header. Raises `ApiError` (401)."""
        if hmac.compare_digest(authorization.encode(errors="surrogateescape"), self._admin):
            return ADMIN
        kind, _, token = authorization.partition(" ")
        issued = self._issued.get(token) if kind == "Bearer" else None
        if issued is None or issued.until <= time.monotonic():
            raise status.unauthorized()
        return issued.user
