"""Predicates and defaults for the spec of a Service. The module `pools` allocates addresses and ports later."""

from collections.abc import Mapping, Sequence
from typing import Any

from reference.apiserver.kinds import addresses
from reference.client import Object

Spec = dict[str, Any]

HEADLESS = "None"
TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
HAVE_ADDRESSES = ("ClusterIP", "LoadBalancer", "NodePort")
FAMILIES = ("IPv4", "IPv6")
POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
TRAFFIC_POLICIES = ("Cluster", "Local")
AFFINITY_SECONDS = 10800


def spec_of(service: Object) -> Spec:
    spec: Spec = service.setdefault("spec", {})
    return spec


def needs_cluster_ip(spec: Mapping[str, Any]) -> bool:
    """Return whether this type of Service has a `clusterIP`, which is "None" for headless Services."""
    return spec.get("type") != "ExternalName"


def is_headless(spec: Mapping[str, Any]) -> bool:
    return needs_cluster_ip(spec) and (spec.get("clusterIPs") or [spec.get("clusterIP")])[0] == HEADLESS


def may_have_node_ports(spec: Mapping[str, Any]) -> bool:
    return spec.get("type") in {"NodePort", "LoadBalancer"}


def wants_node_ports(spec: Mapping[str, Any]) -> bool:
    """Return whether the server allocates a node port for each Service port that has none."""
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort"


def externally_accessible(spec: Mapping[str, Any]) -> bool:
    """Return whether the Service may have node ports, or is a ClusterIP Service with external IPs."""
    return may_have_node_ports(spec) or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_check(spec: Mapping[str, Any]) -> bool:
    """Return whether a Service has a health check node port, which tells load balancers which nodes have endpoints."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def family_policy(spec: Mapping[str, Any]) -> str:
    return spec.get("ipFamilyPolicy") or "SingleStack"


def set_defaults(service: Object) -> None:
    spec: Spec = service.setdefault("spec", {})
    _fill(spec, "type", "ClusterIP")
    _fill(spec, "sessionAffinity", "None")
    _default_affinity_config(spec)
    for port in spec.get("ports") or []:
        _fill(port, "protocol", "TCP")
        _fill(port, "targetPort", port.get("port", 0))
    if externally_accessible(spec):
        _fill(spec, "externalTrafficPolicy", "Cluster")
    if spec["type"] in HAVE_ADDRESSES:
        _fill(spec, "internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if not spec.get("topologyKeys", True):  # an empty list has no effect, and is not stored
        del spec["topologyKeys"]
    for ingress in service.get("status", {}).get("loadBalancer", {}).get("ingress") or []:
        if ingress.get("ip"):
            _fill(ingress, "ipMode", "VIP")


def choose_families(spec: Spec, cluster: Sequence[str]) -> None:
    """Set `ipFamilies` and `ipFamilyPolicy`. `cluster` contains the IP families of the Service CIDRs.

    The requested addresses, or else the first Service CIDR, determine the families. A policy other than SingleStack
    adds the second family if the cluster has one. A headless Service without a selector may have a family that the
    cluster lacks, because users choose the addresses of its endpoints.
    """
    if not needs_cluster_ip(spec):
        return
    families = list(spec.get("ipFamilies") or [])
    for address in (spec.get("clusterIPs") or [])[len(families) :]:
        family = addresses.family_of(address)
        if family in cluster:
            families.append(family)
    families = families or [cluster[0]]
    dual = family_policy(spec) in {"PreferDualStack", "RequireDualStack"}
    possible = FAMILIES if is_headless(spec) and not spec.get("selector") else cluster
    if dual and len(families) == 1:
        families += [each for each in possible if each not in families]
    spec["ipFamilies"] = families
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def set_cluster_ips(spec: Spec) -> None:
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _default_affinity_config(spec: Spec) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        client.setdefault("timeoutSeconds", AFFINITY_SECONDS)


def _fill(holder: Spec, name: str, value: object) -> None:
    if not holder.get(name):
        holder[name] = value
