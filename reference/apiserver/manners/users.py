"""Users by their bearer tokens.

The server has one token for which everything is allowed. Further users exist so that refusals can be seen: one that may
do what its rules say, a ServiceAccount that asked for a token, a token that is not valid any more.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from reference.client import Object

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    """A name and groups, and rules (RBAC's PolicyRules) that hold in the whole cluster beside those that are stored."""

    name: str
    groups: tuple[str, ...] = (AUTHENTICATED,)
    rules: tuple[Object, ...] = field(default=(), compare=False, hash=False)
    service_account: tuple[str, str, str] | None = None
    """Namespace, name and uid, of one that is."""

    @property
    def may_do_everything(self) -> bool:
        """True for a user whose permissions nobody checks."""
        return MASTERS in self.groups

    @property
    def info(self) -> Object:
        """The user as reviews show it."""
        return {"username": self.name, "groups": list(self.groups)}


ADMIN = User("admin", (MASTERS, AUTHENTICATED))


@dataclass(frozen=True, slots=True)
class _Issued:
    user: User
    until: float


class Users:
    """All users other than the admin; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._issued: dict[str, _Issued] = {}

    def add(self, user: User, *, seconds: float = float("inf")) -> str:
        """A new token for a user, valid for so long."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._issued[token] = _Issued(user, time.monotonic() + seconds)
        return token

    def revoke(self, token: str) -> None:
        """Let a token be valid no more."""
        with self._lock:
            self._issued.pop(token, None)

    def find(self, token: str) -> User | None:
        """Return the user with this token, None if nobody has it or it has expired."""
        issued = self._issued.get(token)
        return issued.user if issued and issued.until > time.monotonic() else None


def service_account(namespace: str, name: str, uid: str) -> User:
    """The user that a ServiceAccount is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups, service_account=(namespace, name, uid))


def named(name: str, groups: Sequence[str] = ()) -> User:
    """A user by name, with the groups that one of this name has besides."""
    parts = name.split(":")
    if not groups and parts[:2] == ["system", "serviceaccount"] and len(parts) == 4:
        return User(name, service_account(parts[2], parts[3], "").groups)
    return User(name, (*groups, AUTHENTICATED))
