"""KEP-3015 end to end: trafficDistribution determines routing. One test is the KEP's user story about DNS."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from conformance.features import LOSSLESS_CHANGES, PREFER_SAME_ROUTING, ROUTING
from trafficdist import (
    SHOULD,
    Cluster,
    Hints,
    Pod,
    Port,
    Traffic,
    expect_hints,
    expect_no_loss,
    expect_traffic,
    requirement,
)

WEB = {"app": "web"}
DNS = {"k8s-app": "dns"}
QUERIES, TRANSFERS = Port(53, "UDP", name="dns"), Port(53, "TCP", name="dns-tcp")


def _hints(pods: Sequence[Pod], *, nodes: bool) -> dict[str, Hints]:
    return {pod.name: Hints(zones=(pod.zone,), nodes=(pod.node,) if nodes else ()) for pod in pods}


@requirement(
    "KEP-3015/new-values-reach-the-packets",
    "Traffic to a Service that is created through the API stays in the client's zone with PreferSameZone; with "
    "PreferSameNode, it goes to the client's node, else to the client's zone, else anywhere.",
    level=SHOULD,
    features={PREFER_SAME_ROUTING, ROUTING},
    source="KEP-3015, Test Plan, e2e tests",
    kills={"knows-only-prefer-close", "skips-zone-tier"},
)
@pytest.mark.parametrize("value", ["PreferSameZone", "PreferSameNode"])
def test_value_decides_where_packets_go(three_zones: Cluster, value: str) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution=value)
    a1, b1, b2 = three_zones.run_servers(["a1", "b1", "b2"], labels=WEB)

    own_node = value == "PreferSameNode"
    expect_hints(three_zones, service, _hints([a1, b1, b2], nodes=own_node), exactly=True)
    zone_b: Traffic = {"b1": {b1}, "b2": {b2}} if own_node else {"b1": {b1, b2}, "b2": {b1, b2}}
    expect_traffic(three_zones, service, {"a1": {a1}, "a2": {a1}, **zone_b, "c1": {a1, b1, b2}})


@requirement(
    "KEP-3015/dns-loses-no-query",
    "While the DNS server of a node is removed and added again, every query is answered; once the server is back, "
    "queries from the node go to it again.",
    level=SHOULD,
    must_if=LOSSLESS_CHANGES,
    features={PREFER_SAME_ROUTING, ROUTING},
    source="KEP-3015, User Stories, DNS",
    kills={"same-node-without-node-hints", "udp-forgets-before-it-learns"},
)
def test_no_query_is_lost_while_the_local_server_goes_and_comes_back(three_zones: Cluster) -> None:
    service = three_zones.create_service(
        "dns",
        ports=(QUERIES, TRANSFERS),
        selector=DNS,
        dual_stack=len(three_zones.families) == 2,
        traffic_distribution="PreferSameNode",
    )
    pods = a1, a2, *_ = three_zones.run_servers(["a1", "a2", "b1", "b2", "c1"], labels=DNS)
    expect_hints(three_zones, service, _hints(pods, nodes=True))
    everywhere: Traffic = {pod.node: {pod} for pod in pods}
    expect_traffic(three_zones, service, everywhere)

    with ExitStack() as steady:
        for port in (QUERIES, TRANSFERS):
            for family in three_zones.families:
                steady.enter_context(
                    expect_no_loss(
                        three_zones, service, from_=["a1", "a2"], allowed=set(pods), port=port, family=family
                    )
                )
        three_zones.begin_termination("a1")
        expect_traffic(three_zones, service, {**everywhere, "a1": {a2}})
        three_zones.delete_pod(a1)
        expect_traffic(three_zones, service, {**everywhere, "a1": {a2}})
        (back,) = three_zones.run_servers(["a1"], labels=DNS)
        expect_traffic(three_zones, service, {**everywhere, "a1": {back}})
