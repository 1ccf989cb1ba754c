"""A Service of a scenario, and functions that convert pods to endpoints of its slices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from harness.api.client import Object
from harness.errors import UsageError
from harness.model.manifests import Endpoint, Hints, Port
from harness.model.workloads import Pod
from harness.variation.axes import PLAIN, DrawnValues

AddressKind = Literal["cluster-ip", "node-port", "load-balancer", "external-ip"]

HINT_ANNOTATIONS = {"service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"}
"""Annotations that make a controller allocate endpoints to zones in proportion to the CPU of each zone."""


@dataclass(slots=True)
class Service:
    """A Service of the scenario, as last returned by the API server."""

    object: Object
    ports: tuple[Port, ...]
    virtual: Mapping[tuple[AddressKind, str], Mapping[str, str]] = field(default_factory=dict)
    more_ports: tuple[Port, ...] = ()  # random additional ports, which the scenario does not use
    draw: DrawnValues = PLAIN
    requested_hints: frozenset[str] = frozenset()  # as sent, even if the API server stored another value

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.object["metadata"]["namespace"])

    @property
    def selector(self) -> dict[str, str]:
        """The selector of the Service's pods. It is empty if the scenario writes the slices."""
        return dict(self.object["spec"].get("selector") or {})

    def cluster_ip(self, family: str) -> str:
        """Return the cluster IP of a family. Raises `UsageError` if the Service has none in that family."""
        families = self.object["spec"].get("ipFamilies") or []
        if family not in families:
            raise UsageError(f"service {self.name} has no {family} cluster IP: it has {families}")
        return str(self.object["spec"]["clusterIPs"][families.index(family)])

    def addresses(self, kind: AddressKind) -> list[str]:
        """Return the addresses of a kind ("load-balancer" or "external-ip") for all nodes and families."""
        return [ip for (each, _), ips in self.virtual.items() if each == kind for ip in ips.values()]

    def node_port(self, port: Port) -> int | None:
        """Return the node port of a Service port, or None."""
        ports = self.object["spec"].get("ports") or ()
        mine = (each for each in ports if (each["port"], each["protocol"]) == (port.port, port.protocol))
        return next((int(each["nodePort"]) for each in mine if each.get("nodePort")), None)


def endpoint(pod: Pod, *, zones: Sequence[str] = (), nodes: Sequence[str] = (), **conditions: Any) -> Endpoint:
    """Return a pod as an endpoint with hints for these zones and nodes. `conditions` sets any fields of `Endpoint`."""
    hints = Hints(tuple(zones), tuple(nodes)) if zones or nodes else None
    own: dict[str, Any] = {"node": pod.node, "zone": pod.zone or None, "hints": hints}
    return Endpoint(pod.addresses, **(own | conditions))


def placeless(pod: Pod, **conditions: Any) -> Endpoint:
    """Return a pod as an endpoint without a node or zone.

    Implementations may prefer nearby endpoints even if a Service has no traffic distribution. If endpoints have no
    location, every implementation must use all of them.
    """
    return endpoint(pod, node=None, zone=None, **conditions)


def at_port(pod: Pod, port: int) -> Pod:
    """Return a copy of a pod with the name that its server sends on this port (see `tells_port` of `run_servers`)."""
    return replace(pod, name=f"{pod.name}.{port}")


def same_zone(pod: Pod, **conditions: Any) -> Endpoint:
    """Return a pod as an endpoint with a hint for its own zone, as a controller writes for PreferSameZone."""
    return endpoint(pod, zones=[pod.zone], **conditions)


def same_node(pod: Pod, **conditions: Any) -> Endpoint:
    """Return a pod as an endpoint with hints for its own node and zone, as a controller writes for PreferSameNode."""
    return endpoint(pod, zones=[pod.zone], nodes=[pod.node], **conditions)


def requested_hints(service: Mapping[str, Any]) -> frozenset[str]:
    """Return the kinds of hints, "zone" and "node", that a Service or a patch of a Service requests."""
    annotations = (service.get("metadata") or {}).get("annotations") or {}
    annotated = {annotations.get(key) or "" for key in HINT_ANNOTATIONS} - {"", "Disabled", "disabled"}
    value = str((service.get("spec") or {}).get("trafficDistribution") or "")
    node = value == "PreferSameNode" or "/" in value or "Node" in annotated
    return frozenset({"node"} if node else ()) | frozenset({"zone"} if value or annotated else ())


def refuse_unrequested_hints(name: str, requested: frozenset[str], endpoints: Iterable[Endpoint]) -> None:
    """Raise `UsageError` for hints of a kind that the Service does not request.

    KEP-4444 states that kube-proxy follows hints regardless of the Service, but several proxies ignore hints unless the
    Service's field or annotation requests them. With unrequested hints, a test would fail for such proxies.
    """
    hints = [each.hints for each in endpoints if each.hints is not None]
    written = {"zone": any(each.zones for each in hints), "node": any(each.nodes for each in hints)}
    for kind, value in (("node", "PreferSameNode"), ("zone", "PreferClose")):
        if written[kind] and kind not in requested:
            raise UsageError(
                f"service {name} does not request hints for {kind}s, and a proxy may ignore hints without a request: "
                f'create it with traffic_distribution="{value}" or an annotation, or publish with unasked=True '
                "if the scenario is about such hints"
            )
