"""Defaults of a Service.

`apply` sets the defaults that are the same in every cluster. `choose_families` sets the IP families, which depend on
the Service CIDRs. The registry allocates addresses and ports later.
"""

from collections.abc import Sequence

from reference.apiserver.kinds import addresses
from reference.apiserver.kinds.service_fields import (
    FAMILIES,
    HAVE_ADDRESSES,
    Spec,
    externally_accessible,
    family_policy,
    is_headless,
    needs_cluster_ip,
)
from reference.client import Object

AFFINITY_SECONDS = 10800


def apply(service: Object) -> None:
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
    """Set `ipFamilies` and `ipFamilyPolicy` like a cluster with Service CIDRs of these families.

    Families are derived from the requested addresses, or else from the first Service CIDR. A policy other than
    SingleStack adds the second family if the cluster has a second family. A headless Service without a selector may
    have a family that the cluster lacks, because the cluster does not assign its endpoints.
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
    """On create, set `clusterIPs` from `clusterIP`."""
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
