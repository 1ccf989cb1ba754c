"""A Service of a scenario, and pods as the endpoints of its slices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from harness.api.client import Object
from harness.errors import UsageError
from harness.model.manifests import Endpoint, Hints, Port
from harness.model.workloads import Pod

AddressKind = Literal["cluster-ip", "node-port", "load-balancer", "external-ip"]

HINT_ANNOTATIONS = {"service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"}
"""Annotations that make a controller allocate endpoints to zones by the CPU of all nodes."""


@dataclass(slots=True)
class Service:
    """A Service of the scenario, as the API server stored it last."""

    object: Object
    ports: tuple[Port, ...]
    virtual: Mapping[tuple[AddressKind, str], Mapping[str, str]] = field(default_factory=dict)
    requested_hints: frozenset[str] = frozenset()  # as it was sent, whatever the API server stored

    @property
    def name(self) -> str:
        """The name of the Service."""
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The Kubernetes namespace of the Service."""
        return str(self.object["metadata"]["namespace"])

    @property
    def selector(self) -> dict[str, str]:
        """The selector of its pods; empty if slices are written by hand."""
        return dict(self.object["spec"].get("selector") or {})

    def cluster_ip(self, family: str) -> str:
        """Return the cluster IP of a family. Raises `UsageError` if it has none."""
        families = self.object["spec"].get("ipFamilies") or []
        if family not in families:
            raise UsageError(f"service {self.name} has no {family} cluster IP: it has {families}")
        return str(self.object["spec"]["clusterIPs"][families.index(family)])

    def addresses(self, kind: AddressKind) -> list[str]:
        """Return its addresses of a kind, "load-balancer" or "external-ip", of all nodes and families."""
        return [ip for (each, _), ips in self.virtual.items() if each == kind for ip in ips.values()]

    def node_port(self, port: Port) -> int:
        """Return the node port of one of its ports. Raises `UsageError` if it has none."""
        for each in self.object["spec"]["ports"]:
            if each["port"] == port.port and each["protocol"] == port.protocol and each.get("nodePort"):
                return int(each["nodePort"])
        raise UsageError(f"service {self.name} has no node port for {port.protocol} {port.port}")


def endpoint(pod: Pod, *, zones: Sequence[str] = (), nodes: Sequence[str] = (), **conditions: Any) -> Endpoint:
    """Return a pod as a ready endpoint, hinted for these zones and nodes; other `Endpoint` fields by name."""
    hints = Hints(tuple(zones), tuple(nodes)) if zones or nodes else None
    own: dict[str, Any] = {"node": pod.node, "zone": pod.zone or None, "hints": hints}
    return Endpoint(pod.addresses, **(own | conditions))


def placeless(pod: Pod, **conditions: Any) -> Endpoint:
    """Return a pod as an endpoint without node and zone.

    Implementations may prefer near endpoints for a Service that requests no topology. Without locations they cannot,
    so every implementation uses all endpoints.
    """
    return endpoint(pod, node=None, zone=None, **conditions)


def at_port(pod: Pod, port: int) -> Pod:
    """Return the server at one port of a pod whose ports answer with their own names."""
    return replace(pod, name=f"{pod.name}.{port}")


def same_zone(pod: Pod, **conditions: Any) -> Endpoint:
    """Return a pod as an endpoint hinted for its own zone, as a controller writes it for PreferSameZone."""
    return endpoint(pod, zones=[pod.zone], **conditions)


def same_node(pod: Pod, **conditions: Any) -> Endpoint:
    """Return a pod as an endpoint hinted for its own node and zone, as a controller writes it for PreferSameNode."""
    return endpoint(pod, zones=[pod.zone], nodes=[pod.node], **conditions)


def requested_hints(service: Mapping[str, Any]) -> frozenset[str]:
    """Return the kinds of hints that a Service, or a patch of one, requests: "zone" and "node"."""
    annotations = (service.get("metadata") or {}).get("annotations") or {}
    annotated = {annotations.get(key) or "" for key in HINT_ANNOTATIONS} - {"", "Disabled", "disabled"}
    value = str((service.get("spec") or {}).get("trafficDistribution") or "")
    node = value == "PreferSameNode" or "/" in value or "Node" in annotated
    zone = bool(value or annotated)
    return frozenset(kind for kind, asked in (("node", node), ("zone", zone)) if asked)


def refuse_unrequested_hints(name: str, asked: frozenset[str], endpoints: Iterable[Endpoint]) -> None:
    """Raise `UsageError` for hints of a kind that the Service does not request.

    KEP-4444 has kube-proxy follow hints whatever the Service says, but several proxies read hints only if the field or
    the annotation requests them. Hints for other Services would judge that choice instead of the scenario's subject.
    """
    hints = [each.hints for each in endpoints if each.hints is not None]
    written = {"zone": any(each.zones for each in hints), "node": any(each.nodes for each in hints)}
    for kind, value in (("node", "PreferSameNode"), ("zone", "PreferClose")):
        if written[kind] and kind not in asked:
            raise UsageError(
                f"service {name} does not request hints for {kind}s, and a proxy may ignore hints without a request: "
                f'create it with traffic_distribution="{value}" or an annotation, or publish with unasked=True '
                "if the scenario is about such hints"
            )
