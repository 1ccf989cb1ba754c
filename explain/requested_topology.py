"""The topology that a Service requests, and whether a route meets the request.

Each headline, exit code and count is derived from these values, and not from the causes that were found.
"""

import difflib
from functools import cache
from typing import Literal

from harness.api.client import Object
from reference.endpointslice.hints import topology_annotation
from reference.endpointslice.labels import TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE
from reference.features import Features
from reference.proxy.objects import topology_keys

Wish = Literal["", "node", "zone", "cpu", "local", "keys"]
"""Where connections should stay. "cpu" stands for the topology annotation, which may hint endpoints for other zones."""

Shortfall = Literal["", "crosses", "misses", "fails"]
"""How a route falls short of the request: connections leave the zone, miss an endpoint on their own node, or fail."""

OFF = {None, "", "Disabled", "disabled"}
"""The values of the topology annotation that request nothing."""

AUTO = {"Auto", "auto"}
KEYS = (TOPOLOGY_MODE, TOPOLOGY_AWARE_HINTS)


def wish_of(service: Object, features: Features) -> Wish:
    """Return what a Service requests, even if no component reads the request."""
    off = topology_annotation(service, features)[1] is not None  # said, and so only what it hides is not read
    values = [each for _, key, each in unread_requests(service, features) if not off or key == TOPOLOGY_MODE]
    keys = {*topology_keys(service)} - {"*"}  # no component reads them while their gate is disabled
    return read_wish(service, features) or ("zone" if {*values} - OFF or keys else "")


def read_wish(service: Object, features: Features) -> Wish:
    """Return what a Service requests. A value that no controller knows counts as a request for the zone."""
    spec = service["spec"]
    _, annotation = topology_annotation(service, features)
    if topology_keys(service) and features.enabled("ServiceTopology"):
        return "keys"
    if spec.get("internalTrafficPolicy") == "Local":
        return "local"
    if annotation in AUTO and not spec.get("trafficDistribution"):
        return "cpu"  # the annotation overrides the field, which is yet what the Service asks for
    if spec.get("trafficDistribution"):
        return "node" if spec["trafficDistribution"] == "PreferSameNode" else "zone"
    return "" if annotation in OFF else "zone"


def asked_in_words(service: Object, features: Features, wish: Wish) -> str:
    """Return in words what the Service requests: the value of its field or annotation."""
    key, value = topology_annotation(service, features)
    by_annotation = f"{key.rpartition('/')[2]} {value}" if value else ""
    asked = service["spec"].get("trafficDistribution") or by_annotation or "the zone, by an unread key"
    return "internalTrafficPolicy Local" if wish == "local" else str(asked)


def unread_requests(service: Object, features: Features) -> list[tuple[str, str, str]]:
    """Return the kind, key and value of labels and annotations that seem to request topology but are not read."""
    metadata, (read, value) = service["metadata"], topology_annotation(service, features)
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    found = [("annotation", key, annotations[key]) for key in sorted(annotations) if key != read and _is_near(key)]
    if value is None:
        found += [("label", key, labels[key]) for key in KEYS if key in labels]
    return found


@cache
def _is_near(key: str) -> bool:
    close = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.85)
    return bool(close) or ("topology" in key and key.startswith("service.kubernetes.io/"))


def shortfall(wish: Wish, *, tier: str, crosses: bool, misses: bool) -> Shortfall:
    """Return the shortfall of a route. `misses` is true if the route does not prefer the endpoint on the node."""
    if tier == "nowhere":
        return "fails"
    if crosses and (wish in {"node", "zone"} or (wish == "cpu" and tier == "anywhere")):
        return "crosses"
    missed = misses if wish == "node" else wish == "local" and tier != "local"
    return "misses" if missed else ""
