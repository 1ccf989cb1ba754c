"""Reads the endpoints of EndpointSlices, with the API's defaults for what they leave out.

A controller, a proxy and an explanation must read slices in the same way.
Source: `k8s.io/api/discovery/v1`, Endpoint.
"""

from __future__ import annotations

from reference.client import Object


def name_of(endpoint: Object) -> str:
    """Return the name that people have for an endpoint: the name of its pod, or its first address."""
    return str((endpoint.get("targetRef") or {}).get("name") or endpoint["addresses"][0])


def is_ready(endpoint: Object) -> bool:
    """Return whether an endpoint takes new connections; one without the condition does."""
    return (endpoint.get("conditions") or {}).get("ready") is not False


def has_hints(endpoint: Object) -> bool:
    """Return whether an endpoint is hinted for some place."""
    return bool(endpoint.get("hints"))


def any_hints(endpoint_slice: Object) -> bool:
    """Return whether some endpoint of a slice has hints."""
    return any(map(has_hints, endpoint_slice.get("endpoints") or ()))
