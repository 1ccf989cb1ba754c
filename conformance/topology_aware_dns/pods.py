"""Setup for DNS scenarios: on each node, a pod with a PodLocator is both client and endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.kep_536_topology_keys.topology import NODES, label_nodes, switch_on
from trafficdist import (
    API_SERVER,
    Cluster,
    Pod,
    ServesDns,
    Service,
    endpoint,
    expect_dns_pods,
)

Pods = Mapping[str, Pod]


def begin(cluster: Cluster) -> Pods:
    """Label nodes with racks, zones and regions, enable topology keys, and serve DNS. Returns the pods by node."""
    label_nodes(cluster)
    switch_on(cluster, API_SERVER)
    return run(cluster)


def run(cluster: Cluster) -> Pods:
    """Serve DNS, and run a pod on each node. Returns the pods by node."""
    cluster.backend.part(ServesDns).dns()
    return {pod.node: pod for pod in cluster.run_servers(on=NODES)}


def create_headless(cluster: Cluster, *keys: str, **fields: Any) -> Service:
    """Create a headless Service with these topology keys and all IP families of the cluster."""
    keyed: dict[str, Any] = {"topologyKeys": list(keys)} if keys else {}
    families = list(cluster.families)
    both = len(families) == 2
    return cluster.create_service(dual_stack=both, ipFamilies=families, clusterIP="None", **keyed, **fields)


def kinds(cluster: Cluster) -> list[str]:
    """Return the DNS record types (A, AAAA) for the IP families of the cluster."""
    return [{"IPv4": "A", "IPv6": "AAAA"}[family] for family in cluster.families]


def publish(cluster: Cluster, service: Service, pods: Pods, on: str) -> None:
    """Publish the pods on these nodes as ready endpoints of a Service."""
    chosen = [pods[node] for node in on.split()]
    target = {each.name: {"kind": "Pod", "namespace": each.namespace, "name": each.name} for each in chosen}
    cluster.publish(service, [endpoint(each, extra={"targetRef": target[each.name]}) for each in chosen])


def expect_rows(cluster: Cluster, service: Service, pods: Pods, told: Mapping[str, str], *, kind: str = "") -> None:
    """Expect DNS to return exactly the listed pods to clients. `told` maps a client's node to the nodes of these pods.

    `kind` is the record type. By default, both A and AAAA are queried, if the cluster has both IP families.
    """
    table = {pods[node]: {pods[each] for each in nodes.split()} for node, nodes in told.items()}
    for each in [kind] if kind else kinds(cluster):
        expect_dns_pods(cluster, service, table, kind=each)
