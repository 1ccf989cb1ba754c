"""The effects of random values on the objects that a scenario writes: Services, slices, pod and node labels."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from harness.model.manifests import MANAGED_BY_LABEL, TCP, UDP, Object, Port
from harness.variation import axes
from harness.variation.axes import DrawnValues

_PARTS = {"several": 3, "each": 12}  # maximum number of slices for each value of the axis `slices`
PORT_NAME = "drawn-web"  # name of a Service's only port if it gets more, because several ports need names

MORE_PORTS = (Port(8443, "TCP", "drawn-tls", 8099), Port(8443, "UDP", "drawn-quic", 8099))
"""Additional ports of a Service, on which no pod listens."""

TWELVE = tuple(Port(7000 + number, "TCP", f"drawn-{number}", 8099) for number in range(1, 10))
"""Nine ports. With the port of a scenario, its twin (see `ports`), and one of `MORE_PORTS`, a Service has twelve."""

_MOST, _MOST_HINTS = 1000, 8  # the limits of the API for endpoints of a slice and hints of an endpoint

_UNREADY = {"unready": 4, "many": 130}
_FURTHER = {"IPv4": "198.51.100.{}", "IPv6": "2001:db8:1::{:x}"}
"""Addresses of endpoints that must never receive a packet. No node routes these documentation addresses."""

_PLACE = ("nodeName", "zone", "hints")
_NOT_READY = {"ready": False, "serving": False, "terminating": False}


def usual_ports(draw: DrawnValues) -> tuple[Port, ...]:
    return (UDP,) if draw[axes.PROTOCOL] == "udp" else (TCP,)


def ports(draw: DrawnValues, written: Sequence[Port]) -> tuple[Port, ...]:
    """Return the ports of a Service: the scenario's ports, with names, and additional ports according to the draw."""
    if draw[axes.PORTS] == "written" or len(written) != 1:
        return tuple(written)
    only = replace(written[0], name=written[0].name or PORT_NAME)
    twin = replace(only, name="drawn-other", protocol="UDP" if only.protocol == "TCP" else "TCP", target=8099)
    more = [*MORE_PORTS[:1], *TWELVE] if draw[axes.PORTS] == "twelve" else MORE_PORTS
    return (only, twin, *(port for port in more if port.port != only.port))


def service(draw: DrawnValues, obj: Object) -> Object:
    if draw[axes.POLICIES] == "written" and obj["spec"].get("type") != "ExternalName":
        obj = {**obj, "spec": {**_defaults(obj["spec"]), **obj["spec"]}}
    if draw[axes.EXTRAS] == "metadata":
        metadata = obj["metadata"]
        labels = {"app.kubernetes.io/name": "drawn", "zone": "a", **metadata.get("labels", {})}
        annotations = {"example.com/zone": "a", **metadata.get("annotations", {})}
        return {**obj, "metadata": {**metadata, "labels": labels, "annotations": annotations}}
    return obj


def _defaults(spec: Mapping[str, Any]) -> Object:
    external = spec.get("type") in {"NodePort", "LoadBalancer"}
    return {
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
        "publishNotReadyAddresses": False,
        **({"externalTrafficPolicy": "Cluster"} if external else {}),
        **({"allocateLoadBalancerNodePorts": True} if spec.get("type") == "LoadBalancer" else {}),
    }


def needs_nodes(service: Object) -> bool:
    """Return whether the traffic of a Service, or of a Service with this patch, can depend on nodes of endpoints."""
    spec, annotations = service.get("spec") or {}, (service.get("metadata") or {}).get("annotations") or {}
    local = "Local" in (spec.get("internalTrafficPolicy"), spec.get("externalTrafficPolicy"))
    topology = spec.get("trafficDistribution") or spec.get("topologyKeys")
    return bool(local or topology or any("topology" in key for key in annotations))


def slices(
    draw: DrawnValues,
    obj: Object,
    own: Sequence[Port] = (),
    more: Sequence[Port] = (),
    *,
    before: Mapping[str, Object] = MappingProxyType({}),
    owner: Object | None = None,
) -> list[Object]:
    """Return the EndpointSlices that represent one slice of a scenario, with names that begin with its name.

    `before` contains the current slices by name: an endpoint remains in its slice. `owner` is for ownerReferences.
    """
    family, endpoints = obj["addressType"], [*obj["endpoints"]]
    endpoints += _unready(endpoints, family, min(_UNREADY.get(draw[axes.ENDPOINTS], 0), _MOST - len(endpoints)))
    made = _with_metadata(draw, {**obj, "endpoints": [_endpoint(draw, each, family) for each in endpoints]})
    if more:  # ports of a Service with several ports have names
        made["ports"] = [{**port, "name": port["name"] or own[0].name} for port in made["ports"]]
    if draw[axes.PORTS] != "written":
        made["ports"] += [each.slice_manifest() for each in more]
    if draw[axes.EXTRAS] == "newer":
        made = _with_newer_fields(made, owner)
    if draw[axes.ORDER] == "reversed":
        made["endpoints"] = made["endpoints"][::-1]
    return _split(draw, made, before)


def _unready(endpoints: Sequence[Object], family: str, count: int) -> list[Object]:
    """Return unready endpoints, with hints, because some proxies ignore hints unless all endpoints have them."""
    places: list[Object] = [{key: each[key] for key in _PLACE if key in each} for each in endpoints] or [{}]
    return [
        {"addresses": [_FURTHER[family].format(number)], "conditions": _NOT_READY, **places[number % len(places)]}
        for number in range(1, count + 1)
    ]


def _foreign(count: int) -> list[Object]:
    return [{"name": f"nowhere-{number}"} for number in range(1, count + 1)]


def _endpoint(draw: DrawnValues, endpoint: Object, family: str) -> Object:
    made = dict(endpoint)
    # A hint for another zone or node that exists would change the correct answers.
    match draw[axes.HINTS], made.get("hints"):
        case ("two", dict(hints)):
            made["hints"] = {kind: [*_foreign(1), *named] for kind, named in hints.items()}
        case ("eight", dict(hints)):
            made["hints"] = {kind: [*_foreign(_MOST_HINTS - len(named)), *named] for kind, named in hints.items()}
    match draw[axes.ADDRESSES]:
        case "several":
            made["addresses"] = [*made["addresses"], _FURTHER[family].format(251), _FURTHER[family].format(252)]
        case "nowhere":
            made.pop("nodeName", None)
    if made.get("conditions") == {"ready": True}:
        match draw[axes.CONDITIONS]:
            case "all":
                made["conditions"] = {"ready": True, "serving": True, "terminating": False}
            case "none":
                made["conditions"] = {}
    if draw[axes.EXTRAS] == "metadata":
        number = int.from_bytes(hashlib.sha256(_address(made).encode()).digest()[:4])  # depends only on the address
        made.setdefault("hostname", f"pod-{number}")
        made.setdefault("targetRef", {"kind": "Pod", "name": f"pod-{number}", "namespace": "elsewhere"})
    return made


def _with_metadata(draw: DrawnValues, obj: Object) -> Object:
    labels = dict(obj["metadata"].get("labels") or {})
    match draw[axes.OWNER]:
        case "controller":
            labels[MANAGED_BY_LABEL] = "endpointslice-controller.k8s.io"
        case "nobody":
            del labels[MANAGED_BY_LABEL]
    metadata = {**obj["metadata"], "labels": labels}
    if draw[axes.EXTRAS] == "metadata":
        labels |= {"app.kubernetes.io/name": "drawn", "topology.kubernetes.io/zone": "nowhere"}
        metadata["annotations"] = {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"}
    return {**obj, "metadata": metadata}


def _with_newer_fields(obj: Object, owner: Object | None) -> Object:
    ports = [{"appProtocol": "example.com/drawn", **port} for port in obj["ports"]]
    metadata = dict(obj["metadata"])
    if owner is not None:
        named = {key: owner["metadata"][key] for key in ("name", "uid")}
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": owner["kind"], **named}]
    return {**obj, "metadata": metadata, "ports": ports, "drawnField": {"weight": 1}}


def _split(draw: DrawnValues, obj: Object, before: Mapping[str, Object]) -> list[Object]:
    name = obj["metadata"]["name"]

    def part(suffix: str, endpoints: Sequence[Object]) -> Object:
        return {**obj, "metadata": {**obj["metadata"], "name": name + suffix}, "endpoints": list(endpoints)}

    match draw[axes.SLICES]:
        case "several" | "each" as value:
            suffixes = [f"-{number}" for number in range(_PARTS[value])]
            places = _places(obj["endpoints"], {each: before.get(name + each) for each in suffixes})
            parts = {each: [one for one in obj["endpoints"] if places[_address(one)] == each] for each in suffixes}
            return [part(*each) for each in parts.items() if each[1]] or [part("-0", ())]
        case "overlapping":
            return [part("-0", obj["endpoints"]), part("-1", obj["endpoints"][:1])]
        case "empty":
            return [part("-0", ()), part("-1", obj["endpoints"])]
    return [obj]


def _places(endpoints: Sequence[Object], before: Mapping[str, Object | None]) -> dict[str, str]:
    """Return the slice of each address: the slice that already has it, or else the slice with the fewest endpoints."""
    known = {_address(each): name for name, obj in before.items() if obj for each in obj["endpoints"]}
    places = {_address(each): known[_address(each)] for each in endpoints if _address(each) in known}
    used = Counter(places.values())
    for address in map(_address, endpoints):
        if address not in places:
            places[address] = min(before, key=used.__getitem__)
            used[places[address]] += 1
    return places


def _address(endpoint: Mapping[str, Any]) -> str:
    return str(endpoint["addresses"][0])


@dataclass(slots=True)
class LabelVariation:
    """Variation of labels and selectors. For each key, one value may be replaced with an empty value."""

    draw: DrawnValues
    _empty: dict[str, str] = field(default_factory=dict)

    def of(self, labels: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return these labels, or this selector, with random variation. `None` removes a label."""
        if self.draw[axes.LABELS] != "empty":
            return dict(labels)
        return {
            key: "" if value is not None and value == self._empty.setdefault(key, value) else value
            for key, value in labels.items()
        }

    def before(self, labels: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return labels for the creation of an object that gets `labels` later, or {} if its labels never change."""
        changed = self.draw[axes.LABELS] == "changed"
        return {key: "before" for key, value in labels.items() if changed and value is not None}
