"""Changes of a Node's labels, and replacement of a Node by a new Node with the same name.

No test changes node addresses, because no specification says when node ports must use new addresses. kube-proxy reads
the addresses once, newer releases exit when the addresses change, and `--nodeport-addresses` selects addresses. Pod
CIDRs never change.
"""

from __future__ import annotations

from conformance.features import CLUSTER_IP, INTERNAL_POLICY, NODE_HINTS, PREFER_CLOSE, ZONE_HINTS
from conformance.live_changes.snapshots import expect_now
from trafficdist import (
    HOSTNAME_LABEL,
    MUST,
    PROXY,
    Cluster,
    ExpectedTraffic,
    Hints,
    Traffic,
    endpoint,
    expect_hints,
    expect_no_loss,
    requirement,
    same_node,
    same_zone,
)


@requirement(
    "CHANGES/hostname-label-of-a-node",
    "A node is identified by its name: when its hostname label becomes the name of another node or is removed, node "
    "hints and a Local policy still select the same endpoints, and no connection is lost.",
    level=MUST,
    features={CLUSTER_IP, INTERNAL_POLICY, NODE_HINTS},
    source="discovery/v1 ForNode.name (the name of the node); Endpoint.nodeName (the name of the Node)",
    kills={"ignores-internal-local", "named-by-its-hostname-label"},
)
def test_hostname_label_of_a_node(three_zones: Cluster) -> None:
    hinted = three_zones.create_service(traffic_distribution="PreferSameNode")
    local = three_zones.create_service(internal_traffic_policy="Local")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(hinted, [same_node(a1), same_node(b1)])
    three_zones.publish(local, [endpoint(a1), endpoint(b1)])

    def expect(told: str) -> None:
        for_each: Traffic = {"a1": {a1}, "b1": {b1}}
        expect_now(
            three_zones,
            ExpectedTraffic(f"node hints, {told}", hinted, for_each),
            ExpectedTraffic(f"policy Local, {told}", local, for_each),
        )

    expect("label a1")
    with expect_no_loss(three_zones, hinted, from_=["a1"], allowed={a1}):
        for label in ("b1", None, "a1"):
            three_zones.nodes.label("a1", {HOSTNAME_LABEL: label})
            expect(f"label {label}")


@requirement(
    "CHANGES/a-node-is-created-anew",
    "When a Node is deleted and recreated under the same name in another zone, and then again in its first zone, "
    "clients on the node follow hints for the node and for its current zone, provided that a proxy that exits is "
    "restarted.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS, NODE_HINTS},
    source="KEP-2433, Kube-Proxy (the zone it is running in), and Scalability (will include a Node informer)",
    kills={"ignores-zone-hints", "knows-its-node-by-the-uid"},
)
def test_node_is_created_anew(three_zones: Cluster) -> None:
    by_zone = three_zones.create_service(traffic_distribution="PreferClose")
    by_node = three_zones.create_service(traffic_distribution="PreferSameNode")
    a1, a2, b1 = three_zones.run_servers(on=["a1", "a2", "b1"])
    three_zones.publish(by_zone, [same_zone(a1), same_zone(b1)])
    three_zones.publish(by_node, [same_node(a1), same_node(a2)])

    def expect(zone: str) -> None:
        near: Traffic = {"a1": {a1}, "a2": {a1 if zone == "a" else b1}}
        expect_now(
            three_zones,
            ExpectedTraffic(f"hints for zones, a2 in zone {zone}", by_zone, near),
            ExpectedTraffic(f"hints for nodes, a2 in zone {zone}", by_node, {"a1": {a1}, "a2": {a2}}),
        )

    expect("a")
    for zone in "ba":
        three_zones.nodes.recreate("a2", zone=zone)
        three_zones.start_if_ended(PROXY, on=["a2"])
        expect(zone)


@requirement(
    "CHANGES/hints-follow-a-node-that-is-created-anew",
    "When the Node of a pod is deleted and recreated under the same name in another zone, the pod's endpoint is hinted "
    "for the new zone no later than when the next endpoint is added.",
    level=MUST,
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose (the zone hint will match the endpoint of the zone itself); discovery/v1 "
    "Endpoint.zone (the zone that the endpoint exists in)",
    kills={"knows-nodes-by-their-uid"},
)
def test_hints_follow_a_node_that_is_created_anew(three_zones: Cluster) -> None:
    web = {"app": "web"}
    three_zones.nodes.create("x1", "x")
    service = three_zones.create_service(selector=web, traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "x1", labels=web)
    expect_hints(three_zones, service, {"p1": Hints(zones=("x",))})

    three_zones.nodes.delete("x1")
    three_zones.nodes.create("x1", "y")
    three_zones.create_pod("p2", "a1", labels=web)
    expect_hints(three_zones, service, {"p1": Hints(zones=("y",)), "p2": Hints(zones=("a",))})
