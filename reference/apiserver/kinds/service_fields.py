"""Predicates on the spec of a Service."""

from collections.abc import Mapping
from typing import Any

from reference.client import Object

Spec = dict[str, Any]

HEADLESS = "None"
TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
HAVE_ADDRESSES = ("ClusterIP", "LoadBalancer", "NodePort")
FAMILIES = ("IPv4", "IPv6")
POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
TRAFFIC_POLICIES = ("Cluster", "Local")


def spec_of(service: Object) -> Spec:
    """Return the spec; create it if missing."""
    spec: Spec = service.setdefault("spec", {})
    return spec


def needs_cluster_ip(spec: Mapping[str, Any]) -> bool:
    """Return whether this type of Service has a `clusterIP`. Headless Services ("None") are included."""
    return spec.get("type") != "ExternalName"


def is_headless(spec: Mapping[str, Any]) -> bool:
    """Return whether `clusterIP` is the string "None"."""
    return needs_cluster_ip(spec) and (spec.get("clusterIPs") or [spec.get("clusterIP")])[0] == HEADLESS


def may_have_node_ports(spec: Mapping[str, Any]) -> bool:
    return spec.get("type") in {"NodePort", "LoadBalancer"}


def wants_node_ports(spec: Mapping[str, Any]) -> bool:
    """Return whether the server allocates a node port for each port without one."""
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort"


def externally_accessible(spec: Mapping[str, Any]) -> bool:
    """Return whether external traffic can reach the Service, by its type or by external IPs of a ClusterIP Service."""
    return may_have_node_ports(spec) or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_check(spec: Mapping[str, Any]) -> bool:
    """Return whether load balancers check each node for endpoints."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def family_policy(spec: Mapping[str, Any]) -> str:
    return spec.get("ipFamilyPolicy") or "SingleStack"
