"""EndpointSlices: the endpoints of a Service and their hints."""

from collections.abc import Iterator, Mapping
from typing import Any

from reference.apiserver.kinds import addresses, columns, errors, metadata, names
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import (
    BOOLEAN,
    INTEGER,
    OBJECT_REFERENCE,
    STRING,
    STRING_MAP,
    Shape,
    fields,
    of_object,
)
from reference.apiserver.kinds.strategy import Resource, Strategy
from reference.apiserver.kinds.versioned_fields import NODE_HINTS
from reference.client import Object
from reference.features import Features

ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
MAX_ENDPOINTS = 1000
MAX_ADDRESSES = 100
MAX_HINTS = 8
MAX_TOPOLOGY_LABELS = 16
ZONE_LABEL = "topology.kubernetes.io/zone"
HOSTNAME_LABEL = "kubernetes.io/hostname"

_HINTS: Shape = {"forZones": [{"name": STRING}], "forNodes": [{"name": STRING}]}
_ENDPOINT: Shape = {
    "addresses": [STRING],
    "conditions": {"ready": BOOLEAN, "serving": BOOLEAN, "terminating": BOOLEAN},
    **fields(STRING, "hostname", "nodeName", "zone"),
    "targetRef": OBJECT_REFERENCE,
    "deprecatedTopology": STRING_MAP,
    "hints": _HINTS,
}
_PORT: Shape = {"name": STRING, "protocol": STRING, "port": INTEGER, "appProtocol": STRING}


def _shown_ports(obj: Object) -> str:
    every = [str(port.get("port", "*")) for port in obj.get("ports") or []]
    return columns.listed(every, limit=3) if every else columns.UNSET


def _shown_endpoints(obj: Object) -> str:
    every = [address for each in obj.get("endpoints") or [] for address in each.get("addresses") or []]
    return columns.listed(every, limit=3) if every else columns.UNSET


_TABLE = (
    columns.NAME,
    columns.text("AddressType", "Type of the addresses.", lambda obj: obj.get("addressType", "")),
    columns.text("Ports", "Port numbers that every endpoint serves.", _shown_ports),
    columns.text("Endpoints", "Addresses of the endpoints.", _shown_endpoints),
    columns.AGE,
)


class EndpointSlices(Strategy):
    """The strategy of EndpointSlices. Slices without the service-name label are valid."""

    resource = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", "endpointslice")
    shape = of_object(addressType=STRING, endpoints=[_ENDPOINT], ports=[_PORT])
    generation_since = 0
    table = _TABLE

    def spec_changed(self, new: Object, old: Object) -> bool:
        same_labels = (new["metadata"].get("labels") or {}) == (old["metadata"].get("labels") or {})
        return not same_labels or any(
            (new.get(name) or None) != (old.get(name) or None) for name in ("addressType", "endpoints", "ports")
        )

    def default(self, obj: Object) -> None:
        if obj.get("endpoints") is None:
            obj["endpoints"] = []  # clients expect a list, but Go clients send null for an empty list
        for port in obj.get("ports") or []:
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def prepare_for_create(self, obj: Object, features: Features) -> None:
        _drop_disabled_hints(obj, {}, features)
        _drop_topology(obj, {})

    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        _drop_disabled_hints(new, old, features)
        if (new.get("endpoints") or []) != (old.get("endpoints") or []):
            _drop_topology(new, old)

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        kind = obj.get("addressType") or ""
        return [
            *super().validate(obj, features),
            *errors.choice("addressType", kind, ADDRESS_TYPES),
            *_validate_endpoints(obj.get("endpoints") or [], kind),
            *_validate_ports(obj, features),
        ]

    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        found = super().validate_update(new, old, features)
        if new.get("addressType") != old.get("addressType"):
            found.append(errors.invalid("addressType", new.get("addressType"), "field is immutable"))
        return found

    def warnings(self, obj: Object, features: Features) -> list[str]:
        deprecated = features.at_least(27) and obj.get("addressType") == "FQDN"
        return ["spec.addressType: FQDN endpoints are deprecated"] if deprecated else []


def _drop_disabled_hints(new: Object, old: Object, features: Features) -> None:
    """Drop all hints if their gate is disabled, unless an endpoint of the stored slice has hints.

    For node hints, only released Kubernetes makes this exception. According to KEP-3015, node hints are always "dropped
    from existing objects" if their gate is disabled.
    """
    old_hints = [each["hints"] for each in old.get("endpoints") or [] if each.get("hints") is not None]
    keeps_hints = features.enabled("TopologyAwareHints") or bool(old_hints)
    used = features.follows == "released" and any(hints.get("forNodes") for hints in old_hints)
    keeps_nodes = NODE_HINTS.enabled(features) or used
    if keeps_hints and keeps_nodes:
        return
    for endpoint in new.get("endpoints") or []:
        if not keeps_hints:
            endpoint.pop("hints", None)
        elif endpoint.get("hints"):
            endpoint["hints"].pop("forNodes", None)


def _drop_topology(new: Object, old: Object) -> None:
    """Drop `deprecatedTopology`, which v1 clients cannot set, but copy the node from it if `nodeName` is missing."""
    known = {(each.get("deprecatedTopology") or {}).get(HOSTNAME_LABEL) for each in old.get("endpoints") or []}
    for endpoint in new.get("endpoints") or []:
        node = endpoint.pop("deprecatedTopology", {}).get(HOSTNAME_LABEL)
        if node and node in known and not endpoint.get("nodeName"):
            endpoint["nodeName"] = node


def _validate_endpoints(endpoints: list[Mapping[str, Any]], kind: str) -> Iterator[FieldError]:
    if len(endpoints) > MAX_ENDPOINTS:
        yield errors.too_many("endpoints", len(endpoints), MAX_ENDPOINTS)
        return
    for index, endpoint in enumerate(endpoints):
        path = f"endpoints[{index}]"
        yield from _validate_addresses(endpoint.get("addresses") or [], f"{path}.addresses", kind)
        if endpoint.get("nodeName") is not None:
            node = endpoint["nodeName"]
            yield from errors.violations(f"{path}.nodeName", node, names.dns_subdomain)
        if endpoint.get("hostname") is not None:
            name = endpoint["hostname"]
            yield from errors.violations(f"{path}.hostname", name, names.dns_label)
        if endpoint.get("deprecatedTopology"):
            yield from _validate_topology(endpoint["deprecatedTopology"], f"{path}.deprecatedTopology")
        if endpoint.get("hints"):
            yield from _validate_hints(endpoint["hints"], f"{path}.hints")


def _validate_addresses(every: list[str], path: str, kind: str) -> Iterator[FieldError]:
    if not every:
        yield errors.required(path, "must contain at least 1 address")
    elif len(every) > MAX_ADDRESSES:
        yield errors.too_many(path, len(every), MAX_ADDRESSES)
    for index, address in enumerate(every):
        at = f"{path}[{index}]"
        if kind == "FQDN":
            yield from _validate_domain(address, at)
        elif kind in ADDRESS_TYPES:
            if addresses.family_of(address) != kind:
                yield errors.invalid(at, address, f"must be a valid {kind} address")
            yield from addresses.validate_reachable(address, at)


def _validate_domain(name: str, path: str) -> list[FieldError]:
    bare = name.removesuffix(".")
    found = errors.violations(path, bare, names.dns_subdomain)
    if found or "." in bare:
        return found
    return [errors.invalid(path, name, "should be a domain with at least two segments separated by dots")]


def _validate_topology(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    yield from metadata.validate_labels(labels, path)
    if len(labels) > MAX_TOPOLOGY_LABELS:
        yield errors.too_many(path, len(labels), MAX_TOPOLOGY_LABELS)
    if ZONE_LABEL in labels:
        said = "reserved key, the zone is in the field `zone`"
        yield errors.invalid(f"{path}[{ZONE_LABEL}]", labels[ZONE_LABEL], said)


def _validate_hints(hints: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for field, rule in (("forZones", names.label_value), ("forNodes", names.dns_subdomain)):
        every = [each.get("name", "") for each in hints.get(field) or []]
        if len(every) > MAX_HINTS:
            yield errors.too_many(f"{path}.{field}", len(every), MAX_HINTS)
            continue
        for index, name in enumerate(every):
            at = f"{path}.{field}[{index}].name"
            if name in every[:index]:
                yield errors.duplicate(at, name)
            yield from errors.violations(at, name, rule)


def _validate_ports(obj: Object, features: Features) -> Iterator[FieldError]:
    every = obj.get("ports") or []
    limit = 20000 if features.at_least(21) else 100  # kubernetes/kubernetes#99795
    if len(every) > limit:
        yield errors.too_many("ports", len(every), limit)
        return
    seen: set[str] = set()
    for index, port in enumerate(every):
        path, name = f"ports[{index}]", port.get("name") or ""
        if name:
            yield from errors.violations(f"{path}.name", name, names.dns_label)
        yield from errors.unique(f"{path}.name", name, seen)
        yield from errors.choice(f"{path}.protocol", port.get("protocol") or "", addresses.PROTOCOLS)
        if port.get("appProtocol") is not None:
            yield from errors.violations(f"{path}.appProtocol", port["appProtocol"], names.qualified_name)
