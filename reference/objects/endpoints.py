"""Reads endpoints of EndpointSlices, and adds the API's defaults (`k8s.io/api/discovery/v1`, Endpoint)."""

from reference.client import Object


def name_of(endpoint: Object) -> str:
    """Return the display name of an endpoint: the name of its pod, or its first address."""
    return str((endpoint.get("targetRef") or {}).get("name") or endpoint["addresses"][0])


def is_ready(endpoint: Object) -> bool:
    """Return whether an endpoint is ready. An endpoint without the condition is ready."""
    return (endpoint.get("conditions") or {}).get("ready") is not False


def has_hints(endpoint: Object) -> bool:
    return bool(endpoint.get("hints"))


def any_hints(endpoint_slice: Object) -> bool:
    return any(map(has_hints, endpoint_slice.get("endpoints") or ()))
