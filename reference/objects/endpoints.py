"""What the endpoints of an EndpointSlice say of themselves, with what the API means where they say nothing.

A controller, a proxy and an explanation must read the same in a slice, whoever wrote it.
Source: `k8s.io/api/discovery/v1`, Endpoint.
"""

from __future__ import annotations

from reference.client import Object


def name_of(endpoint: Object) -> str:
    """What people call an endpoint: the name of its pod, or its first address."""
    return str((endpoint.get("targetRef") or {}).get("name") or endpoint["addresses"][0])


def is_ready(endpoint: Object) -> bool:
    """Whether an endpoint takes new connections; one that does not say does."""
    return (endpoint.get("conditions") or {}).get("ready") is not False


def has_hints(endpoint: Object) -> bool:
    """Whether an endpoint is hinted for some place."""
    return bool(endpoint.get("hints"))


def any_hints(endpoint_slice: Object) -> bool:
    """Whether some endpoint of a slice has hints."""
    return any(map(has_hints, endpoint_slice.get("endpoints") or ()))
