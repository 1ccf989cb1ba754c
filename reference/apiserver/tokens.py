"""TokenRequests: how a ServiceAccount's token is asked for, and what is answered."""

from __future__ import annotations

from typing import Any

import orjson

from reference.apiserver import status
from reference.client import Object
from reference.timestamps import timestamp

_SECONDS, _AT_LEAST = 3600, 600


def asked(body: bytes) -> Object:
    """The spec with its defaults. Raises `ApiError`: 400, 422."""
    spec: Any = {}
    if not body.startswith(b"k8s\0"):  # kubectl asks in protobuf, for nothing special
        try:
            spec = (orjson.loads(body) if body else {}).get("spec") or {}
        except (ValueError, AttributeError):
            raise status.bad_request("the body of the request is no TokenRequest") from None
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
