"""What a Service asks for, and whether a route gives it.

Each headline, exit code and count is derived from these values, and not from the causes that are known.
"""

from __future__ import annotations

from typing import Literal

from harness.api.client import Object
from reference.endpointslice.hints import topology_annotation
from reference.features import Features
from reference.proxy.objects import topology_keys

Wish = Literal["", "node", "zone", "cpu", "local", "keys"]
"""The place where connections should stay. "cpu" is the annotation, which may move endpoints to another zone."""

Shortfall = Literal["", "crosses", "misses", "fails"]
"""How a route falls short: connections leave the zone, miss an endpoint on their own node, or fail."""

OFF = {None, "", "Disabled", "disabled"}
"""The values of the topology annotation that ask for nothing."""


def wish_of(service: Object, features: Features) -> Wish:
    """Return what a Service asks for. A value that no controller knows counts as a wish for the zone."""
    spec = service["spec"]
    _, annotation = topology_annotation(service, features)
    if topology_keys(service) and features.enabled("ServiceTopology"):
        return "keys"
    if spec.get("internalTrafficPolicy") == "Local":
        return "local"
    if annotation in {"Auto", "auto"}:
        return "cpu"
    if spec.get("trafficDistribution"):
        return "node" if spec["trafficDistribution"] == "PreferSameNode" else "zone"
    return "" if annotation in OFF else "zone"


def shortfall(wish: Wish, *, tier: str, crosses: bool, on_node: bool) -> Shortfall:
    """Return how a route falls short. `on_node` is true if a ready endpoint is on the node of the client."""
    if tier == "nowhere":
        return "fails"
    match wish:
        case "node" | "zone" if crosses:
            return "crosses"
        case "cpu" if crosses and tier == "anywhere":
            return "crosses"
        case "node" if on_node and tier != "node":
            return "misses"
        case "local" if tier != "local":
            return "misses"
    return ""
