"""Reads the data that the proxy needs, with Kubernetes' defaults, so that no other module reads JSON."""

import ipaddress
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from reference.client import Object
from reference.objects.endpoints import is_ready
from reference.objects.topology_keys import Labels
from reference.proxy.decision import NEWEST, Behaviour, Endpoint, Family, OwnNode, ServicePort

ZONE_LABEL = "topology.kubernetes.io/zone"
SERVICE_LABEL = "kubernetes.io/service-name"
NOT_FOR_THIS_PROXY = frozenset({"service.kubernetes.io/headless", "service.kubernetes.io/service-proxy-name"})
DEPRECATED_ANNOTATION = "service.kubernetes.io/topology-aware-hints"
ANNOTATION = "service.kubernetes.io/topology-mode"
AFFINITY_SECONDS, MOST_AFFINITY_SECONDS = 10_800, 86_400
"""The default timeout of session affinity, and the maximum timeout that an API server allows, in seconds."""

UNREADABLE = (KeyError, TypeError, ValueError)
"""The exceptions that reading a malformed object raises."""

NONE: frozenset[str] = frozenset()
NO_FIELDS: Mapping[str, Any] = {}

PortName = tuple[str, str]
"""The identity of a service port within its service: its `name` ("" if unnamed) and its protocol."""


@dataclass(frozen=True, slots=True)
class Slice:
    """An EndpointSlice. Its endpoints are read on demand, to spare the garbage collector 100,000 objects."""

    service: tuple[str, str]
    family: Family
    numbers: Mapping[PortName, int]
    raw: Sequence[Object]

    def endpoints(self, port: PortName, labels: Callable[[Mapping[str, Any]], Labels] | None = None) -> list[Endpoint]:
        """Return the endpoints of a port, with node labels from `labels`. Raises `ValueError` for bad addresses."""
        number = self.numbers.get(port)
        found = [] if number is None else _read_endpoints(self.raw, number)
        if labels is None:
            return found
        return [each._replace(labels=labels(raw)) for each, raw in zip(found, self.raw, strict=False)]

    def ready_on(self, node: str) -> set[str]:
        """Return the addresses of ready endpoints on a node. Raises `KeyError` for an endpoint without addresses."""
        return {each["addresses"][0] for each in self.raw if each.get("nodeName") == node and is_ready(each)}


@dataclass(frozen=True, slots=True)
class Node:
    """The fields of a proxy's own Node that the proxy needs. Addresses and CIDRs of both IP families are included."""

    place: OwnNode
    addresses: tuple[str, ...] = ()
    pod_cidrs: tuple[str, ...] = ()


def family_of(address: str) -> Family:
    return "IPv6" if ":" in address else "IPv4"


def canonical(address: str) -> str:
    """Return an IP address in the form that the kernel uses. Raises `ValueError`."""
    try:
        if ":" in address:
            return socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, address))
        socket.inet_pton(socket.AF_INET, address)
    except OSError:
        raise ValueError(f"{address!r} is not an IP address") from None
    return address


def of_family(addresses: Iterable[str], family: Family) -> tuple[str, ...]:
    """Return the addresses of one `family`, in canonical form."""
    return tuple([canonical(each) for each in addresses if family_of(each) == family])


def is_excluded(obj: Object) -> bool:
    """Return whether labels mark the object as headless or as handled by another proxy."""
    labels = obj["metadata"].get("labels")
    return bool(labels) and not NOT_FOR_THIS_PROXY.isdisjoint(labels)


def service_ports(service: Object, behaviour: Behaviour = NEWEST) -> dict[Family, list[ServicePort]]:
    """Return the ports of a Service by IP family, or {} if it is headless, ExternalName or for another proxy."""
    spec = service["spec"]
    cluster_ips = spec.get("clusterIPs") or [spec.get("clusterIP")]
    if is_excluded(service) or spec.get("type") == "ExternalName" or cluster_ips[0] in {None, "", "None"}:
        return {}
    by_family: dict[Family, list[ServicePort]] = {}
    for cluster_ip in cluster_ips:
        family = family_of(cluster_ip)
        by_family[family] = [_service_port(service, port, family, behaviour) for port in spec.get("ports") or ()]
    return by_family


def topology_keys(service: Object) -> tuple[str, ...]:
    """Return the topology keys of a Service, in order of preference (KEP-536)."""
    return tuple(service["spec"].get("topologyKeys") or ())


def health_check_port(service: Object) -> int:
    """Return the health check node port of a Service, or 0 if the Service has no such port or does not need it."""
    spec = service["spec"]
    used = spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
    return int(spec.get("healthCheckNodePort") or 0) if used else 0


def _service_port(service: Object, port: Mapping[str, Any], family: Family, behaviour: Behaviour) -> ServicePort:
    metadata, spec = service["metadata"], service["spec"]
    return ServicePort(
        namespace=metadata["namespace"],
        name=metadata["name"],
        port_name=port.get("name") or "",
        protocol=port.get("protocol") or "TCP",
        port=port["port"],
        node_port=port.get("nodePort") or 0,
        cluster_ips=of_family(spec.get("clusterIPs") or [spec["clusterIP"]], family),
        load_balancer_ips=of_family(_load_balancer_ips(service), family),
        external_ips=of_family((behaviour.external_ips and spec.get("externalIPs")) or (), family),
        internal_local=spec.get("internalTrafficPolicy") == "Local",
        external_local=spec.get("externalTrafficPolicy") == "Local",
        topology_annotation=_topology_annotation(metadata.get("annotations") or {}, behaviour),
        affinity_seconds=_affinity_seconds(spec),
        topology_keys=topology_keys(service),
        source_ranges=_source_ranges(spec, family),
    )


def _source_ranges(spec: Mapping[str, Any], family: Family) -> tuple[str, ...]:
    """Return the CIDRs of clients that may use the load balancer. As in kube-proxy, () allows all clients."""
    if spec.get("type") != "LoadBalancer":
        return ()
    wanted = [each.strip() for each in spec.get("loadBalancerSourceRanges") or ()]
    networks = (ipaddress.ip_network(each, strict=False) for each in wanted if family_of(each) == family)
    return tuple(sorted({str(each) for each in networks}))


def _affinity_seconds(spec: Mapping[str, Any]) -> int:
    """Return how long in seconds an idle client keeps its endpoint, or 0 without sessionAffinity ClientIP."""
    if spec.get("sessionAffinity") != "ClientIP":
        return 0
    config = (spec.get("sessionAffinityConfig") or NO_FIELDS).get("clientIP") or NO_FIELDS
    return min(config.get("timeoutSeconds") or AFFINITY_SECONDS, MOST_AFFINITY_SECONDS)


def _load_balancer_ips(service: Object) -> list[str]:
    """Return the load balancer IPs, except those with ipMode Proxy, whose packets do not reach nodes (KEP-1860)."""
    ingress = (service.get("status") or {}).get("loadBalancer", {}).get("ingress") or ()
    return [each["ip"] for each in ingress if each.get("ip") and each.get("ipMode") != "Proxy"]


def _topology_annotation(annotations: Mapping[str, str], behaviour: Behaviour) -> str:
    """Return the topology annotation. Releases that require the value Auto know only the deprecated key."""
    newer = "" if behaviour.annotation == "auto" else annotations.get(ANNOTATION, "")
    return annotations.get(DEPRECATED_ANNOTATION, newer)


def read_slice(obj: Object) -> Slice | None:
    """Read an EndpointSlice. Return None if it has no Service, is handled by another proxy, or has no IP addresses."""
    metadata = obj["metadata"]
    name = (metadata.get("labels") or {}).get(SERVICE_LABEL)
    family = obj["addressType"]
    if not name or family not in {"IPv4", "IPv6"} or is_excluded(obj):
        return None
    numbers = {
        (port.get("name") or "", port.get("protocol") or "TCP"): port["port"]
        for port in obj.get("ports") or ()
        if port.get("port")
    }
    return Slice((metadata["namespace"], name), family, numbers, obj.get("endpoints") or ())


def _read_endpoints(endpoints: Iterable[Object], port: int) -> list[Endpoint]:
    """Read all endpoints for one port (first addresses only), in one loop, because function calls would be slower."""
    found = []
    for each in endpoints:
        conditions = (each.get("conditions") or NO_FIELDS).get
        hints = each.get("hints")
        found.append(
            Endpoint(
                canonical(each["addresses"][0]),
                port,
                conditions("ready") is not False,
                conditions("serving") is not False,
                conditions("terminating") is True,
                each.get("nodeName") or "",
                _names(hints.get("forZones")) if hints else NONE,
                _names(hints.get("forNodes")) if hints else NONE,
            )
        )
    return found


def _names(hints: Sequence[Mapping[str, str]] | None) -> frozenset[str]:
    if not hints:
        return NONE
    return _one_name(hints[0]["name"]) if len(hints) == 1 else frozenset([each["name"] for each in hints])


@lru_cache(1024)
def _one_name(name: str) -> frozenset[str]:
    """Return a cached set of one name. Hints nearly always have a single name, and clusters have few names."""
    return frozenset((name,))


def read_node(node: Object) -> Node:
    """Read the proxy's own Node: zone label, InternalIPs and pod CIDRs."""
    metadata, spec = node["metadata"], node.get("spec") or {}
    addresses = (node.get("status") or {}).get("addresses") or ()
    cidrs = spec.get("podCIDRs") or [spec.get("podCIDR")]
    return Node(
        OwnNode(metadata["name"], (metadata.get("labels") or {}).get(ZONE_LABEL, "")),
        tuple(each["address"] for each in addresses if each.get("type") == "InternalIP"),
        tuple(str(ipaddress.ip_network(each, strict=False)) for each in cidrs if each),
    )
