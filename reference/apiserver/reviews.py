"""Reviews of who may do what: whoever has the token may do everything.

Clients ask before they act (`kubectl auth can-i`, operators at their start), so the answer has to be there.
"""

from __future__ import annotations

from typing import Any

import orjson

from reference.client import Object

USER = {"username": "admin", "groups": ["system:masters", "system:authenticated"]}
_EVERYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}

_ALLOWED: Object = {"allowed": True, "reason": "the bearer of the token may do everything"}
_RULES: Object = {
    "resourceRules": [_EVERYTHING],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
_STATUS_OF: dict[str, dict[str, tuple[str, Object]]] = {
    "authorization.k8s.io/v1": {
        "selfsubjectaccessreviews": ("SelfSubjectAccessReview", _ALLOWED),
        "subjectaccessreviews": ("SubjectAccessReview", _ALLOWED),
        "localsubjectaccessreviews": ("LocalSubjectAccessReview", _ALLOWED),
        "selfsubjectrulesreviews": ("SelfSubjectRulesReview", _RULES),
    },
    "authentication.k8s.io/v1": {
        "tokenreviews": ("TokenReview", {"authenticated": True, "user": USER}),
        "selfsubjectreviews": ("SelfSubjectReview", {"userInfo": USER}),
    },
}


def review(path: str, body: bytes) -> Object | None:
    """The answer to a POST of a review, None when the path is not one."""
    parts = path.strip("/").split("/")
    if parts[0] != "apis" or len(parts) < 4:
        return None
    served = _STATUS_OF.get("/".join(parts[1:3]), {}).get(parts[-1])
    if served is None:
        return None
    kind, answer = served
    return {"kind": kind, "apiVersion": "/".join(parts[1:3]), "metadata": {}, "spec": _spec(body), "status": answer}


def _spec(body: bytes) -> Any:
    """What was asked, when it is readable: kubectl asks in protobuf, and the answer does not depend on it."""
    try:
        return orjson.loads(body).get("spec") or {}
    except (orjson.JSONDecodeError, AttributeError):
        return {}
