"""Setup for scenarios about topology keys: the ServiceTopology gate, and nodes in racks, zones and regions.

Racks span zones here: rack 2 has a node in zone a and a node in zone b, and node c1 is in no rack. Therefore no other
label selects the same endpoints as the rack label.

                zone a     zone b     zone c
    region n    a1  a2     b1  b2
    region s                          c1
    rack         1   2      2   3     (none)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trafficdist import (
    API_SERVER,
    HOSTNAME_LABEL,
    NO_ANSWER,
    PROXY,
    REGION_LABEL,
    ZONE_LABEL,
    Client,
    Cluster,
    Component,
    Pod,
    Service,
    Traffic,
    endpoint,
    expect_traffic,
)

GATE = "ServiceTopology"
HOST, ZONE, REGION = HOSTNAME_LABEL, ZONE_LABEL, REGION_LABEL
RACK = "example.com/rack"
ANY = "*"

NODES = ("a1", "a2", "b1", "b2", "c1")
RACKS = {"a1": "1", "a2": "2", "b1": "2", "b2": "3"}

Reached = Mapping[str, str] | Mapping[Client, str]
"""Maps each client to the nodes of the endpoints that it reaches, or to "" if it must receive no answer."""


def switch_on(cluster: Cluster, *components: Component) -> None:
    """Enable the ServiceTopology gate in these components, unless the cluster was started with the gate enabled."""
    for component in components:
        cluster.enable(GATE, component)


def label_nodes(cluster: Cluster) -> None:
    for node in NODES:
        rack = {RACK: RACKS[node]} if node in RACKS else {}
        cluster.nodes.label(node, {REGION: "s" if node == "c1" else "n", **rack})


def begin(cluster: Cluster, *components: Component) -> None:
    """Label the nodes, and enable the ServiceTopology gate, by default in the API server and all proxies."""
    label_nodes(cluster)
    switch_on(cluster, *(components or (API_SERVER, PROXY)))


def create(cluster: Cluster, *keys: str, on: str = "a1 a2 b1", **fields: Any) -> tuple[Service, dict[str, Pod]]:
    """Create a Service with these keys and an endpoint on each of these nodes. Returns its pods by node.

    Without keys, the Service lacks the field topologyKeys. `fields` are arguments of `Cluster.create_service`.
    """
    keyed: dict[str, Any] = {"topologyKeys": list(keys)} if keys else {}
    service = cluster.create_service(**keyed, **fields)
    pods = {pod.node: pod for pod in cluster.run_servers(on.split())}
    publish(cluster, service, pods.values())
    return service, pods


def publish(cluster: Cluster, service: Service, pods: Iterable[Pod]) -> None:
    """Publish these pods as the endpoints of a Service. All endpoints are ready and have no hints."""
    cluster.publish(service, [endpoint(pod) for pod in pods])


def change_keys(cluster: Cluster, service: Service, *keys: str) -> None:
    cluster.patch_service(service, {"spec": {"topologyKeys": list(keys) or None}})


def expect_reached(cluster: Cluster, service: Service, pods: Mapping[str, Pod], reached: Reached, **how: Any) -> None:
    """Expect each client to reach exactly the pods on its `reached` nodes. `how` is passed to `expect_traffic`."""
    expect_traffic(cluster, service, traffic(pods, reached), **how)


def traffic(pods: Mapping[str, Pod], reached: Reached) -> Traffic:
    return {who: {pods[node] for node in nodes.split()} or NO_ANSWER for who, nodes in reached.items()}


def expect_rows(cluster: Cluster, keys: Sequence[str], rows: Mapping[str, Reached]) -> None:
    """Create a Service with these keys, and expect the traffic of each row. Row names list the nodes with endpoints."""
    begin(cluster)
    service, pods = create(cluster, *keys, on=" ".join(NODES))
    for on, reached in rows.items():
        publish(cluster, service, [pods[node] for node in on.split()])
        expect_reached(cluster, service, pods, reached)
