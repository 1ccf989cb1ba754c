"""TokenRequests: how a ServiceAccount's token is asked for, and what is answered."""

from __future__ import annotations

from typing import Any

from reference.apiserver import status
from reference.client import Object
from reference.objects.timestamps import timestamp

_SECONDS, _AT_LEAST = 3600, 600


def asked(body: Any) -> Object:
    """The spec with its defaults; `body` is a TokenRequest. Raises `ApiError`: 400, 422."""
    spec = (body.get("spec") if isinstance(body, dict) else None) or {}
    if not isinstance(spec, dict):
        raise status.bad_request("the body of the request is no TokenRequest")
    seconds = spec.get("expirationSeconds", _SECONDS)
    if type(seconds) is not int or seconds < _AT_LEAST:
        said = f"spec.expirationSeconds: Invalid value: {seconds}: may not specify a duration less than 10 minutes"
        raise status.failure(422, "Invalid", f'TokenRequest.authentication.k8s.io "" is invalid: {said}')
    return {"audiences": spec.get("audiences") or ["https://kubernetes.default.svc"], "expirationSeconds": seconds}


def request(account: Object, spec: Object, token: str) -> Object:
    """The answer; `account` is the metadata of the ServiceAccount."""
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": account["name"], "namespace": account["namespace"], "creationTimestamp": timestamp()},
        "spec": spec,
        "status": {"token": token, "expirationTimestamp": timestamp(ahead=spec["expirationSeconds"])},
    }
