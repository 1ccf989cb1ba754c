"""KEP-4444, a drained or powered-off node: other zones serve the clients until their zone has an endpoint again."""

from __future__ import annotations

from conformance.features import OUTAGE
from trafficdist import (
    MUST,
    Cluster,
    expect_no_loss,
    expect_traffic,
    requirement,
)

WEB = {"app": "web"}


@requirement(
    "KEP-4444/drained-node-loses-no-connection",
    "While the node with the only endpoint of a zone is drained, no connection is lost; clients in the zone use "
    "endpoints in other zones until a replacement is ready on another node of the zone, and then use the replacement.",
    level=MUST,
    features={OUTAGE},
    source="KEP-4444, User Stories, Story 2 (to avoid connection failures if no close endpoints are available)",
    kills={"forgets-before-it-learns", "never-returns-to-hints"},
)
def test_draining_the_node_of_the_last_endpoint_loses_nothing(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(["a1", "b1"], labels=WEB)
    (instead,) = three_zones.run_servers(["a2"], labels=WEB, ready=False)
    expect_traffic(three_zones, service, {"a1": {a1}, "a2": {a1}, "b1": {b1}})

    with expect_no_loss(three_zones, service, from_=["a1", "a2", "b1"], allowed={a1, b1, instead}):
        three_zones.drain("a1")
        expect_traffic(three_zones, service, {"a1": {b1}, "a2": {b1}, "b1": {b1}})
        three_zones.set_ready(instead.name, True)
        expect_traffic(three_zones, service, {"a1": {instead}, "a2": {instead}, "b1": {b1}})
        three_zones.delete_pod(a1)
        expect_traffic(three_zones, service, {"a1": {instead}, "a2": {instead}, "b1": {b1}})


@requirement(
    "KEP-4444/zone-outlives-its-node",
    "Once the control plane detects that the node with a zone's only endpoint is down, endpoints in other zones serve "
    "the zone's clients; when the node is up again, the clients use its endpoint again and no connection is lost.",
    level=MUST,
    features={OUTAGE},
    source="KEP-4444, User Stories, Story 2 (to avoid connection failures if no close endpoints are available)",
    kills={"ready-by-containers", "never-returns-to-hints"},
)
def test_clients_of_a_zone_are_served_while_its_node_is_off(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(["a1", "b1"], labels=WEB)
    expect_traffic(three_zones, service, {"a2": {a1}, "b1": {b1}})

    three_zones.nodes.stop("a1")
    expect_traffic(three_zones, service, {"a2": {b1}, "b1": {b1}})
    with expect_no_loss(three_zones, service, from_=["a2", "b1"], allowed={a1, b1}):
        three_zones.nodes.start("a1")
        expect_traffic(three_zones, service, {"a2": {a1}, "b1": {b1}})
