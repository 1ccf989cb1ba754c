"""KEP-4444, the proxy, while Nodes change: it uses hints and the zone of its own Node, and ignores other Nodes."""

from __future__ import annotations

from conformance.features import CLUSTER_IP, ZONE_HINTS
from trafficdist import (
    MUST,
    PROXY,
    SHOULD,
    Cluster,
    Traffic,
    endpoint,
    expect_traffic,
    node_client,
    requirement,
    same_zone,
)


@requirement(
    "KEP-4444/first-zone-label-takes-effect",
    "A proxy that starts on a node without a zone label uses every endpoint; once the node gets its first zone label, "
    "the proxy uses the endpoints hinted for that zone, without a restart.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-2433, Kube-Proxy (able to determine the zone), and Scalability (will include a Node informer)",
    kills={
        "drops-without-hinted-endpoint",
        "drops-without-zone-label",
        "ignores-zone-hints",
        "zone-known-at-the-start-or-never",
    },
)
def test_first_zone_label_takes_effect(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1)])
    three_zones.nodes.move("a2", None)
    three_zones.restart(PROXY, on=["a2"])
    expect_traffic(three_zones, service, {"a2": {a1, b1}, "b2": {b1}})

    three_zones.nodes.move("a2", "a")
    expect_traffic(three_zones, service, {"a2": {a1}, node_client("a2"): {a1}})


@requirement(
    "KEP-4444/unready-nodes-change-no-routing",
    "While an endpoint is ready in its slice, clients use it according to its hints, even if its Node, or the last "
    "ready Node of a zone, becomes unready.",
    level=SHOULD,  # the KEPs require a proxy to read its own Node, and do not forbid reading more
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-2433, Kube-Proxy; discovery/v1 EndpointConditions.ready",
    kills={"ignores-zone-hints", "skips-endpoints-of-unready-nodes"},
)
def test_unready_nodes_change_no_routing(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    three_zones.publish(service, [same_zone(a1), endpoint(b1, zones=["c"]), endpoint(c1, zones=["b"])])
    expected: Traffic = {"a2": {a1}, "b2": {c1}, "c1": {b1}}
    expect_traffic(three_zones, service, expected)

    three_zones.nodes.report("c1", ready=False)
    expect_traffic(three_zones, service, expected)
    three_zones.nodes.report("b1", ready=False)
    three_zones.nodes.report("b2", ready=False)
    expect_traffic(three_zones, service, expected)


@requirement(
    "KEP-4444/lost-node-changes-no-routing",
    "While an endpoint is ready in its slice, clients use it according to its hints, even if its Node is deleted and "
    "later recreated; a proxy that then starts on that node follows hints for the Node's new zone.",
    level=SHOULD,  # the KEPs require a proxy to read its own Node, and do not forbid reading more
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-2433, Kube-Proxy; discovery/v1 EndpointConditions.ready",
    kills={"skips-endpoints-of-lost-nodes"},
)
def test_lost_node_changes_no_routing(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1, zones=["b"]), endpoint(b1, zones=["a"])])
    expected: Traffic = {"a2": {b1}, "b2": {a1}, "c1": {a1, b1}}
    expect_traffic(three_zones, service, expected)

    three_zones.stop(PROXY, on=["b1"])  # a proxy may also exit when its Node is deleted
    three_zones.nodes.unregister("b1")
    expect_traffic(three_zones, service, expected)
    three_zones.nodes.register("b1", zone="a")
    three_zones.restart(PROXY, on=["b1"])
    expect_traffic(three_zones, service, {**expected, "b1": {b1}})
