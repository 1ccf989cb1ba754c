"""KEP-3015: each tier of PreferSameNode loses and regains its endpoints, without loss if LosslessChanges is claimed."""

from __future__ import annotations

from conformance.features import (
    CLUSTER_IP,
    LOSSLESS_CHANGES,
    NODE_HINTS,
    TERMINATING_ENDPOINTS,
    UDP_SERVICES,
    ZONE_HINTS,
)
from trafficdist import (
    MUST,
    SHOULD,
    TCP,
    UDP,
    Cluster,
    Endpoint,
    Pod,
    Port,
    expect_no_loss,
    expect_traffic,
    requirement,
    same_node,
)


@requirement(
    "KEP-3015/tiers-change-without-loss",
    "While a client's node and zone lose and regain their endpoints, each connection goes to the nearest endpoint; if "
    "LosslessChanges is claimed, no new connection fails.",
    level=MUST,
    features={CLUSTER_IP, NODE_HINTS, TERMINATING_ENDPOINTS, ZONE_HINTS},
    source="KEP-3015, Addition of PreferSameNode; User Stories, DNS (else to a remote one)",
    kills={"drops-without-hinted-endpoint", "forgets-before-it-learns", "ignores-zone-hints", "never-returns-to-hints"},
)
def test_node_and_zone_lose_and_regain_their_endpoints_without_loss(three_zones: Cluster) -> None:
    lose_and_regain(three_zones, TCP, lossless=three_zones.claims(LOSSLESS_CHANGES))


@requirement(
    "KEP-3015/tiers-change-without-losing-a-query",
    "While a client's node and zone lose and regain their UDP servers, every query from a new client port is answered.",
    level=SHOULD,
    must_if=LOSSLESS_CHANGES,
    features={CLUSTER_IP, NODE_HINTS, TERMINATING_ENDPOINTS, UDP_SERVICES, ZONE_HINTS},
    source="KEP-3015, User Stories, DNS",
    kills={"drops-without-hinted-endpoint", "ignores-zone-hints", "udp-forgets-before-it-learns"},
)
def test_node_and_zone_lose_and_regain_their_udp_servers_without_loss(three_zones: Cluster) -> None:
    lose_and_regain(three_zones, UDP, lossless=True)


def lose_and_regain(cluster: Cluster, port: Port, *, lossless: bool) -> None:
    service = cluster.create_service(ports=[port], traffic_distribution="PreferSameNode")
    a1, a2, b1 = cluster.run_servers(on=["a1", "a2", "b1"])
    cluster.publish(service, [same_node(a1), same_node(a2), same_node(b1)])
    expect_traffic(cluster, service, {"a1": {a1}, "a2": {a2}, "b1": {b1}})

    with expect_no_loss(cluster, service, from_=["a1", "a2"], allowed={a1, a2, b1}, lossless=lossless):
        cluster.publish(service, [leaving(a1), same_node(a2), same_node(b1)])
        expect_traffic(cluster, service, {"a1": {a2}, "a2": {a2}})
        cluster.publish(service, [leaving(a2), same_node(b1)])
        expect_traffic(cluster, service, {"a1": {b1}, "a2": {b1}})
        cluster.publish(service, [same_node(b1)])
        cluster.publish(service, [same_node(a2), same_node(b1)])
        expect_traffic(cluster, service, {"a1": {a2}, "a2": {a2}})
        cluster.publish(service, [same_node(a1), same_node(a2), same_node(b1)])
        expect_traffic(cluster, service, {"a1": {a1}, "a2": {a2}, "b1": {b1}})


def leaving(pod: Pod) -> Endpoint:
    return same_node(pod, ready=False, serving=True, terminating=True)
