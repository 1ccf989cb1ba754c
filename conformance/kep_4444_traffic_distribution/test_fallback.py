"""KEP-4444: a zone loses and regains its endpoints, without loss if LosslessChanges is claimed."""

from __future__ import annotations

from conformance.features import CLUSTER_IP, LOSSLESS_CHANGES, TERMINATING_ENDPOINTS, UDP_SERVICES, ZONE_HINTS
from trafficdist import (
    MUST,
    SHOULD,
    TCP,
    UDP,
    Cluster,
    Port,
    endpoint,
    expect_no_loss,
    expect_traffic,
    requirement,
    same_zone,
)


@requirement(
    "KEP-4444/zone-loses-and-regains-its-endpoints",
    "While the last endpoint of a zone is removed and added again, clients in the zone use endpoints in other zones, "
    "and use the zone's endpoint again once it is back; if LosslessChanges is claimed, no new connection fails.",
    level=MUST,
    features={CLUSTER_IP, TERMINATING_ENDPOINTS, ZONE_HINTS},
    source="KEP-4444, PreferClose (traffic would be routed to other zones); User Stories, Story 2",
    kills={
        "drops-without-hinted-endpoint",
        "forgets-before-it-learns",
        "forgets-for-200-ms",
        "forgets-for-a-second",
        "ignores-zone-hints",
        "never-returns-to-zone-hints",
    },
)
def test_zone_loses_and_regains_its_last_endpoint_without_loss(three_zones: Cluster) -> None:
    lose_and_regain(three_zones, TCP, lossless=three_zones.claims(LOSSLESS_CHANGES))


@requirement(
    "KEP-4444/zone-change-loses-no-query",
    "While the last UDP server of a zone is removed and added again, every query from a new client port is answered.",
    level=SHOULD,
    must_if=LOSSLESS_CHANGES,
    features={CLUSTER_IP, TERMINATING_ENDPOINTS, UDP_SERVICES, ZONE_HINTS},
    source="KEP-4444, User Stories, Story 2",
    kills={"drops-without-hinted-endpoint", "ignores-zone-hints", "udp-forgets-before-it-learns"},
)
def test_zone_loses_and_regains_its_last_udp_server_without_loss(three_zones: Cluster) -> None:
    lose_and_regain(three_zones, UDP, lossless=True)


@requirement(
    "KEP-4444/hints-come-and-go-without-loss",
    "No connection fails while hints are added slice by slice, the client's node moves to another zone, and hints are "
    "removed.",
    level=SHOULD,  # the KEP's reason is overload; it does not mention connections
    must_if=LOSSLESS_CHANGES,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, Changes within kube-proxy (safer transitions between enabled and disabled states)",
    kills={
        "accepts-partial-zone-hints",
        "drops-without-hinted-endpoint",
        "forgets-before-it-learns",
        "hints-outlive-their-removal",
        "ignores-zone-hints",
    },
)
def test_hints_come_and_go_slice_by_slice_without_loss(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    slices = {"one": a1, "two": b1}
    for name, pod in slices.items():
        three_zones.publish(service, [endpoint(pod)], name=name)

    with expect_no_loss(three_zones, service, from_=["a1", "a2", "c1"], allowed={a1, b1}):
        three_zones.publish(service, [same_zone(a1)], name="one")
        expect_traffic(three_zones, service, {"a2": {a1, b1}})
        three_zones.publish(service, [same_zone(b1)], name="two")
        expect_traffic(three_zones, service, {"a1": {a1}, "a2": {a1}, "c1": {a1, b1}})
        three_zones.nodes.move("a2", "b")
        expect_traffic(three_zones, service, {"a2": {b1}})
        for name, pod in slices.items():
            three_zones.publish(service, [endpoint(pod)], name=name)
        expect_traffic(three_zones, service, {"a1": {a1, b1}, "a2": {a1, b1}})


def lose_and_regain(cluster: Cluster, port: Port, *, lossless: bool) -> None:
    service = cluster.create_service(ports=[port], traffic_distribution="PreferClose")
    a1, b1 = cluster.run_servers(on=["a1", "b1"])
    cluster.publish(service, [same_zone(a1), same_zone(b1)])
    expect_traffic(cluster, service, {"a1": {a1}, "a2": {a1}, "b1": {b1}})

    with expect_no_loss(cluster, service, from_=["a1", "a2", "b1"], allowed={a1, b1}, lossless=lossless):
        cluster.publish(service, [same_zone(a1, ready=False, serving=True, terminating=True), same_zone(b1)])
        expect_traffic(cluster, service, {"a1": {b1}, "a2": {b1}, "b1": {b1}})
        cluster.publish(service, [same_zone(b1)])
        cluster.settle()
        cluster.delete_pod(a1)
        (again,) = cluster.run_servers(on=["a1"])
        cluster.publish(service, [same_zone(again, ready=False), same_zone(b1)])
        expect_traffic(cluster, service, {"a1": {b1}, "a2": {b1}})
        cluster.publish(service, [same_zone(again), same_zone(b1)])
        expect_traffic(cluster, service, {"a1": {again}, "a2": {again}, "b1": {b1}})
