"""Reviews by which a client asks who it is and what it may do (`kubectl auth can-i`, `trafficdist doctor`)."""

from __future__ import annotations

from collections.abc import Callable

from reference.apiserver import media, status
from reference.apiserver.manners.authorization import Attributes, Authorizer
from reference.apiserver.manners.users import ADMIN, User
from reference.client import Object

AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"


class Reviews:
    """Answers reviews by what users may do."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._served: dict[tuple[str, str], tuple[str, Callable[[User, Object], Object]]] = {
            (AUTHORIZATION, "selfsubjectaccessreviews"): ("SelfSubjectAccessReview", self._access),
            (AUTHORIZATION, "selfsubjectrulesreviews"): ("SelfSubjectRulesReview", self._rules),
            (AUTHENTICATION, "selfsubjectreviews"): ("SelfSubjectReview", lambda user, _: {"userInfo": user.info}),
        }

    def review(self, path: str, body: bytes, content_type: str, user: User) -> Object | None:
        """The answer to a POST of a review, None when the path is not one. Raises `ApiError`: 400, 403."""
        parts = path.strip("/").split("/")
        if len(parts) < 4 or parts[0] != "apis" or parts[2] != "v1":
            return None
        served = self._served.get((parts[1], parts[-1]))
        if served is None:
            return None
        namespace = parts[4] if parts[3] == "namespaces" else ""
        self._authorizer.check(user, Attributes("create", parts[1], parts[-1], namespace=namespace))
        kind, answer = served
        spec = _spec(body, content_type)
        head = {"kind": kind, "apiVersion": f"{parts[1]}/v1", "metadata": {}, "spec": spec}
        return {**head, "status": answer(user, spec)}

    def _access(self, user: User, spec: Object) -> Object:
        allowed = self._authorizer.allows(user, _attributes(spec))
        reason = "the bearer of the token may do everything" if user == ADMIN else ""
        return {"allowed": allowed, **({"reason": reason} if reason else {})}

    def _rules(self, user: User, spec: Object) -> Object:
        every = list(self._authorizer.rules(user, str(spec.get("namespace") or "")))
        of_paths = [each for each in every if each.get("nonResourceURLs")]
        of_resources = [each for each in every if not each.get("nonResourceURLs")]
        return {"resourceRules": of_resources, "nonResourceRules": of_paths, "incomplete": False}


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
