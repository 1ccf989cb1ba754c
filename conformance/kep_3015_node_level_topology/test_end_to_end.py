"""KEP-3015 (2022), User Stories: the controller recognizes a DNS Service with a pod on each node."""

from __future__ import annotations

from contextlib import ExitStack

from conformance.features import NODE_LEVEL_ROUTING
from conformance.kep_3015_node_level_topology.daemon_sets import ON, adopt, choosing, expect_node_hints
from conformance.skew import Skew, bring_to
from trafficdist import (
    SHOULD,
    Cluster,
    Port,
    Traffic,
    expect_no_loss,
    expect_traffic,
    requirement,
)

DNS = {"k8s-app": "dns"}
QUERIES, TRANSFERS = Port(53, "UDP", name="dns"), Port(53, "TCP", name="dns-tcp")


@requirement(
    "KEP-3015/node-level-dns-on-each-node",
    "Without an annotation on the Service, queries to the DNS servers of a DaemonSet stay on the client's node while "
    "that node has a server, and go to any server otherwise; every query over UDP and TCP is answered.",
    level=SHOULD,
    features={NODE_LEVEL_ROUTING},
    source="KEP-3015 (2022), User Stories, Per-Node DNS Pods",
    as_="kep",
    kills={"knows-no-node-level-topology", "knows-no-node-level-hints", "udp-forgets-before-it-learns"},
)
def test_queries_go_to_the_server_of_the_node(three_zones: Cluster) -> None:
    bring_to(three_zones, Skew(ON, choosing("automatic:missing=20%,daemonset"), ON))
    families = three_zones.families
    service = three_zones.create_service("dns", ports=(QUERIES, TRANSFERS), selector=DNS, dual_stack=len(families) == 2)
    pods = a1, *rest = three_zones.run_servers(["a1", "a2", "b1", "b2", "c1"], labels=DNS)
    adopt(three_zones, [pod.name for pod in pods])
    expect_node_hints(three_zones, service, *pods)
    at_home: Traffic = {pod.node: {pod} for pod in pods}
    for port in (QUERIES, TRANSFERS):
        expect_traffic(three_zones, service, at_home, port=port)

    with ExitStack() as steady:
        for port in (QUERIES, TRANSFERS):
            for family in families:
                steady.enter_context(
                    expect_no_loss(
                        three_zones, service, from_=["a1", "a2"], allowed=set(pods), port=port, family=family
                    )
                )
        three_zones.begin_termination(a1.name)
        expect_traffic(three_zones, service, {**at_home, "a1": set(rest)})
        three_zones.delete_pod(a1)
        expect_traffic(three_zones, service, {**at_home, "a1": set(rest)})
        (back,) = three_zones.run_servers(["a1"], labels=DNS)
        adopt(three_zones, [back.name])
        expect_traffic(three_zones, service, {**at_home, "a1": {back}})
