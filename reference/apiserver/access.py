"""Authentication and authorization, without RBAC, because the tested KEPs do not involve users."""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from reference.apiserver import media, status
from reference.apiserver.http_request import HttpRequest
from reference.client import Object

Review = Literal["SelfSubjectAccessReview", "SelfSubjectReview"]

ADMIN: Object = {"username": "admin", "groups": ["system:masters", "system:authenticated"]}
"""The user who may do everything, in the format of `status.userInfo` of a SelfSubjectReview."""


@dataclass(slots=True)
class AccessChecks:
    """The access checks of a server. Tests replace them, for example with `tests/reference/limited_users.py`."""

    authenticate: Callable[[str], Object]
    """Returns the user for an Authorization header. Raises `ApiError` (401)."""

    allows: Callable[[Object, Object], bool] = lambda user, spec: True  # noqa: ARG005  names of the arguments
    """Returns whether a user may do what the spec of a SelfSubjectAccessReview describes."""

    check: Callable[[Object, HttpRequest, Any], None] = lambda user, asked, target: None  # noqa: ARG005
    """Raises `ApiError` (403) if a user may not send a request. `target` is a `Route`, a `PodRequest` or None."""


def bearer_of(token: str) -> AccessChecks:
    """Return checks that allow a request if and only if it has this token."""

    def authenticate(authorization: str) -> Object:
        if not hmac.compare_digest(authorization.encode(errors="surrogateescape"), f"Bearer {token}".encode()):
            raise status.unauthorized()
        return ADMIN

    return AccessChecks(authenticate)


def review(access: AccessChecks, asked: HttpRequest, user: Object) -> Object | None:
    """Return the response to a review that a client POSTs, or None for a path not in `SERVED`. Raises `ApiError`."""
    if asked.path not in SERVED:
        return None
    group, kind = SERVED[asked.path]
    obj = media.decode(asked.body, asked.content_type)
    spec = obj.get("spec") if isinstance(obj, dict) else None
    spec = spec if isinstance(spec, dict) else {}
    if kind == "SelfSubjectReview":
        found: Object = {"userInfo": user}
    elif isinstance(spec.get("resourceAttributes") or spec.get("nonResourceAttributes"), dict):
        found = {"allowed": access.allows(user, spec)}
    else:
        said = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise status.bad_request(f"spec.resourceAttributes: Invalid value: null: {said}")
    return {"kind": kind, "apiVersion": f"{group}/v1", "metadata": {}, "spec": spec, "status": found}


SERVED: Mapping[str, tuple[str, Review]] = {
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": ("authorization.k8s.io", "SelfSubjectAccessReview"),
    "/apis/authentication.k8s.io/v1/selfsubjectreviews": ("authentication.k8s.io", "SelfSubjectReview"),
}
"""The API group and kind of each review, by the path to which clients POST the review."""
