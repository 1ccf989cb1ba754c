"""Build minimal valid Kubernetes objects from the fields that a scenario needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.model.topology import HOSTNAME_LABEL, ZONE_LABEL, Node

Object = dict[str, Any]

MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
MANAGED_BY = "trafficdist.dev"
TARGET_PORT = 8080
CONTAINER = "server"
IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.53"
CAPACITY = "96"  # CPUs of every node; all nodes are equal for a controller that uses this instead of allocatable


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a Service. The pods of the Service listen on `target` (a number, or a container port name)."""

    port: int = 80
    protocol: str = "TCP"
    name: str = ""
    target: int | str = TARGET_PORT

    def manifest(self) -> Object:
        named = {"name": self.name} if self.name else {}
        return {**named, "port": self.port, "protocol": self.protocol, "targetPort": self.target}

    def slice_manifest(self) -> Object:
        return {"name": self.name, "protocol": self.protocol, "port": self.target}


TCP = Port()
UDP = Port(protocol="UDP")


@dataclass(frozen=True, slots=True)
class Hints:
    zones: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()

    def manifest(self) -> Object:
        zones = {"forZones": [{"name": zone} for zone in self.zones]} if self.zones else {}
        nodes = {"forNodes": [{"name": node} for node in self.nodes]} if self.nodes else {}
        return {**zones, **nodes}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint of an EndpointSlice that a scenario writes. `None` omits a condition or field."""

    addresses: Mapping[str, str]
    node: str | None = None
    zone: str | None = None
    hints: Hints | None = None
    ready: bool | None = True
    serving: bool | None = None
    terminating: bool | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def manifest(self, family: str) -> Object:
        """Return the entry of `endpoints` in a slice of this address family ("IPv4" or "IPv6")."""
        conditions = {"ready": self.ready, "serving": self.serving, "terminating": self.terminating}
        hints = None if self.hints is None else self.hints.manifest()
        optional = {"nodeName": self.node, "zone": self.zone, "hints": hints}
        return {
            "addresses": [self.addresses[family]],
            "conditions": {name: value for name, value in conditions.items() if value is not None},
            **{name: value for name, value in optional.items() if value is not None},
            **self.extra,
        }


def service(
    name: str,
    *,
    ports: Sequence[Port] = (TCP,),
    selector: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """Return a Service. Keyword arguments are fields of its spec with their Kubernetes names. `None` omits a field."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "annotations": dict(annotations or {}), "labels": dict(labels or {})},
        "spec": {
            "ports": [port.manifest() for port in ports],
            **({"selector": dict(selector)} if selector else {}),
            **{name: value for name, value in spec.items() if value is not None},
        },
    }


def with_usual(obj: Mapping[str, Any], usual: Mapping[str, Any]) -> Object:
    """Return an object with missing fields added from `usual`, including fields of nested mappings."""
    both = {name for name, value in usual.items() if isinstance(value, Mapping) and isinstance(obj.get(name), Mapping)}
    return {**usual, **obj, **{name: with_usual(obj[name], usual[name]) for name in both}}


def service_with_usual(obj: Object, usual: Mapping[str, Any]) -> Object:
    """Add missing fields from `usual` to a Service, but none that request hints if its trafficDistribution is ""."""
    whole = with_usual(obj, usual)
    if whole.get("spec", {}).get("trafficDistribution") != "":
        return whole
    own, prefix = obj["metadata"].get("annotations") or {}, "service.kubernetes.io/topology-"
    annotations = (whole["metadata"].get("annotations") or {}).items()
    kept = {key: value for key, value in annotations if key in own or not key.startswith(prefix)}
    spec = {name: value for name, value in whole["spec"].items() if name != "trafficDistribution"}
    return {**whole, "metadata": {**whole["metadata"], "annotations": kept}, "spec": spec}


def endpoint_slice(
    name: str,
    service_name: str,
    endpoints: Sequence[Endpoint],
    *,
    family: str = "IPv4",
    ports: Sequence[Port] = (TCP,),
    labels: Mapping[str, str] | None = None,
) -> Object:
    """Return an EndpointSlice that controllers ignore because of its managed-by label."""
    all_labels = {"kubernetes.io/service-name": service_name, MANAGED_BY_LABEL: MANAGED_BY, **(labels or {})}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": all_labels},
        "addressType": family,
        "endpoints": [endpoint.manifest(family) for endpoint in endpoints],
        "ports": [port.slice_manifest() for port in ports],
    }


def pod(
    name: str,
    node: str,
    *,
    labels: Mapping[str, str] | None = None,
    container_ports: Sequence[tuple[str, int, str]] = (),
    host_network: bool = False,
) -> Object:
    """Return a Pod bound to a node. `container_ports` are tuples (name, number, protocol)."""
    ports = [{"name": name, "containerPort": port, "protocol": protocol} for name, port, protocol in container_ports]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {
            "nodeName": node,
            "containers": [{"name": CONTAINER, "image": IMAGE, "args": ["netexec"], "ports": ports}],
            "terminationGracePeriodSeconds": 30,
            **({"hostNetwork": True} if host_network else {}),
        },
    }


def other_containers(container_ports: Sequence[tuple[str, int, str]]) -> list[Object]:
    """Return an init container and a sidecar whose ports have the same names as `container_ports`."""
    ports = [{"name": name, "containerPort": 7000, "protocol": protocol} for name, _, protocol in container_ports]
    init: Object = {"name": "init", "image": IMAGE, "ports": ports}
    return [init, {**init, "name": "sidecar", "restartPolicy": "Always"}]


def pod_status(addresses: Mapping[str, str], host_ip: str | None, *, ready: bool, phase: str = "Running") -> Object:
    """Return the status that a kubelet would report for a pod. `addresses` maps IP families to addresses."""
    state = "True" if ready else "False"
    ips = list(addresses.values())
    return {
        "phase": phase,
        "hostIP": host_ip,
        "podIP": ips[0] if ips else None,
        "podIPs": [{"ip": ip} for ip in ips],
        "conditions": [{"type": kind, "status": state} for kind in ("Ready", "ContainersReady")],
        "containerStatuses": [
            {
                "name": CONTAINER,
                "image": IMAGE,
                "imageID": "",
                "ready": ready,
                "restartCount": 0,
                "state": {"running": {}} if phase == "Running" else {"terminated": {"exitCode": 0}},
            }
        ],
    }


def node(place: Node, addresses: Sequence[str], pod_cidrs: Sequence[str]) -> Object:
    zone = {ZONE_LABEL: place.zone} if place.zone else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": place.name, "labels": {HOSTNAME_LABEL: place.name, **zone}},
        "spec": {"podCIDR": pod_cidrs[0], "podCIDRs": list(pod_cidrs)},
        "status": node_status(place, addresses),
    }


def cpu(milli: int) -> str:
    """Return an amount of CPU, given in millicores, in the format of API servers: "4" or "3500m"."""
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def node_status(place: Node, addresses: Sequence[str], *, ready: bool = True) -> Object:
    """Return the status of a node. A `cpu_milli` of 0 means that the CPU is unknown."""
    others = {"memory": "8Gi", "pods": "110"}
    allocatable, capacity = ({"cpu": cpu(place.cpu_milli)}, {"cpu": CAPACITY}) if place.cpu_milli else ({}, {})
    return {
        "addresses": [
            *({"type": "InternalIP", "address": address} for address in addresses),
            {"type": "Hostname", "address": place.name},
        ],
        "allocatable": {**allocatable, **others},
        "capacity": {**capacity, **others},
        "conditions": [{"type": "Ready", "status": "True" if ready else "False", "reason": "KubeletReady"}],
        "nodeInfo": {"operatingSystem": "linux", "architecture": "amd64"},
    }


def has_condition(obj: Mapping[str, Any], kind: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == kind and each.get("status") == "True" for each in conditions)


def internal_addresses(node: Mapping[str, Any]) -> list[str]:
    reported = (node.get("status") or {}).get("addresses") or ()
    return [str(each["address"]) for each in reported if each.get("type") == "InternalIP"]


def takes_pods(node: Object) -> bool:
    """Return whether a node is ready and accepts pods without tolerations."""
    cordoned = (node.get("spec") or {}).get("unschedulable")
    return has_condition(node, "Ready") and not cordoned and not refusing_taints(node)


def refusing_taints(node: Object) -> list[str]:
    taints = (node.get("spec") or {}).get("taints") or ()
    return [str(each["key"]) for each in taints if each.get("effect") in ("NoSchedule", "NoExecute")]


def zone_of(node: Mapping[str, Any]) -> str:
    return str((node["metadata"].get("labels") or {}).get(ZONE_LABEL, ""))
