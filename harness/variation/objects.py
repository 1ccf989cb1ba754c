"""The effects of drawn values on the objects that a scenario writes: pure functions of Services, slices and pods."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.model.manifests import MANAGED_BY_LABEL, TCP, UDP, Object, Port
from harness.variation import axes
from harness.variation.axes import Draw

_PARTS = {"several": 3, "each": 12}  # maximum number of slices
PORT_NAME = "drawn-web"
"""The name of a Service's only port if more ports are drawn: Services with several ports need names."""

MORE_PORTS = (Port(8443, "TCP", "drawn-tls", 8099), Port(8443, "UDP", "drawn-quic", 8099))
"""Further ports of a Service, on which no pod listens."""


def usual_ports(draw: Draw) -> tuple[Port, ...]:
    """Return the ports of a Service for which the scenario chooses none."""
    return (UDP,) if draw[axes.PROTOCOL] == "udp" else (TCP,)


def ports(draw: Draw, written: Sequence[Port]) -> tuple[Port, ...]:
    """Return the ports of a Service: those of the scenario with names, and any drawn additional ports."""
    if draw[axes.PORTS] != "more" or len(written) != 1:
        return tuple(written)
    only = replace(written[0], name=written[0].name or PORT_NAME)
    twin = replace(only, name="drawn-other", protocol="UDP" if only.protocol == "TCP" else "TCP", target=8099)
    return (only, twin, *(port for port in MORE_PORTS if port.port != only.port))


def service(draw: Draw, obj: Object) -> Object:
    """Return a Service with drawn metadata."""
    if draw[axes.EXTRAS] == "metadata":
        metadata = obj["metadata"]
        labels = {"app.kubernetes.io/name": "drawn", "zone": "a", **metadata.get("labels", {})}
        annotations = {"example.com/zone": "a", **metadata.get("annotations", {})}
        return {**obj, "metadata": {**metadata, "labels": labels, "annotations": annotations}}
    return obj


def slices(draw: Draw, obj: Object, own: Sequence[Port] = (), more: Sequence[Port] = ()) -> list[Object]:
    """Return the EndpointSlices that represent one slice of a scenario. Their names begin with that slice's name.

    An endpoint remains in the same slice while its address is unchanged, as with a controller.
    """
    drawn = _with_metadata(draw, {**obj, "endpoints": [_endpoint(draw, each) for each in obj["endpoints"]]})
    if more:  # ports of a Service with several ports have names
        drawn["ports"] = [{**port, "name": port["name"] or own[0].name} for port in drawn["ports"]]
    if draw[axes.PORTS] != "written":
        drawn["ports"] += [each.slice_manifest() for each in more]
    if draw[axes.ORDER] == "reversed":
        drawn["endpoints"] = drawn["endpoints"][::-1]
    return _split(draw, drawn)


def _endpoint(draw: Draw, endpoint: Object) -> Object:
    made = dict(endpoint)
    conditions = made.get("conditions") or {}
    if conditions == {"ready": True}:
        match draw[axes.CONDITIONS]:
            case "all":
                made["conditions"] = {"ready": True, "serving": True, "terminating": False}
            case "none":
                made["conditions"] = {}
    if draw[axes.EXTRAS] == "metadata":
        number = _number(made)
        made.setdefault("hostname", f"pod-{number}")
        made.setdefault("targetRef", {"kind": "Pod", "name": f"pod-{number}", "namespace": "elsewhere"})
    return made


def _with_metadata(draw: Draw, obj: Object) -> Object:
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


def _split(draw: Draw, obj: Object) -> list[Object]:
    name = obj["metadata"]["name"]

    def part(suffix: str, endpoints: Sequence[Object]) -> Object:
        return {**obj, "metadata": {**obj["metadata"], "name": name + suffix}, "endpoints": list(endpoints)}

    match draw[axes.SLICES]:
        case "several" | "each" as value:
            parts: dict[int, list[Object]] = {}
            for endpoint in obj["endpoints"]:
                parts.setdefault(_number(endpoint) % _PARTS[value], []).append(endpoint)
            return [part(f"-{number}", endpoints) for number, endpoints in sorted(parts.items())] or [part("-0", ())]
        case "overlapping":
            return [part("-0", obj["endpoints"]), part("-1", obj["endpoints"][:1])]
        case "empty":
            return [part("-0", ()), part("-1", obj["endpoints"])]
    return [obj]


def _number(endpoint: Mapping[str, Any]) -> int:
    """Return a number that depends only on the address of an endpoint."""
    return int.from_bytes(hashlib.sha256(str(endpoint["addresses"]).encode()).digest()[:4])
