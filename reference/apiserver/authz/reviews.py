"""SelfSubjectReview and SelfSubjectAccessReview (`kubectl auth can-i`, `trafficdist doctor`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from reference.apiserver import media, status
from reference.apiserver.authz.authorization import Attributes, allows
from reference.apiserver.authz.users import User
from reference.apiserver.http_request import HttpRequest
from reference.client import Object

Review = Literal["SelfSubjectAccessReview", "SelfSubjectReview"]


def review(asked: HttpRequest, user: User) -> Object | None:
    """Return the response to the POST of a review, or None if the path is not a review. Raises `ApiError` (400)."""
    answer = SERVED.get(asked.path)
    if answer is None:
        return None
    group, kind, of = answer
    spec = _spec(asked.body, asked.content_type)
    return {"kind": kind, "apiVersion": f"{group}/v1", "metadata": {}, "spec": spec, "status": of(user, spec)}


def _access(user: User, spec: Object) -> Object:
    return {"allowed": allows(user, _attributes(spec))}


def _attributes(spec: Object) -> Attributes:
    asked = spec.get("resourceAttributes")
    if not isinstance(asked, dict):
        asked = spec.get("nonResourceAttributes")
        if not isinstance(asked, dict):
            said = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            raise status.bad_request(f"spec.resourceAttributes: Invalid value: null: {said}")
        return Attributes(str(asked.get("verb", "")), path=str(asked.get("path", "")))
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(**{name: str(asked.get(name) or "") for name in names})


def _spec(body: bytes, content_type: str) -> Object:
    obj = media.decode(body, content_type)
    spec = obj.get("spec") if isinstance(obj, dict) else None
    return spec if isinstance(spec, dict) else {}


SERVED: Mapping[str, tuple[str, Review, Callable[[User, Object], Object]]] = {
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": (
        "authorization.k8s.io",
        "SelfSubjectAccessReview",
        _access,
    ),
    "/apis/authentication.k8s.io/v1/selfsubjectreviews": (
        "authentication.k8s.io",
        "SelfSubjectReview",
        lambda user, _: {"userInfo": user.info},
    ),
}
"""The group, the kind and the status of each review, by the path that it is posted to."""
