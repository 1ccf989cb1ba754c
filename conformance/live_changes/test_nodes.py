"""Labels of a living Node: which of them say where a client is."""

from __future__ import annotations

from conformance.features import CLUSTER_IP, INTERNAL_POLICY, NODE_HINTS
from conformance.live_changes.views import expect_now
from harness import (
    HOSTNAME_LABEL,
    MUST,
    Cluster,
    Question,
    Traffic,
    endpoint,
    expect_no_loss,
    requirement,
    same_node,
)


@requirement(
    "CHANGES/hostname-label-of-a-node",
    "A node goes by its name: when its hostname label becomes the name of another node, or is gone, hints for nodes "
    "and policy Local mean the same endpoints, and no connection is lost.",
    level=MUST,
    features={CLUSTER_IP, INTERNAL_POLICY, NODE_HINTS},
    source="discovery/v1 ForNode.name (the name of the node); Endpoint.nodeName (the name of the Node)",
    kills={"named-by-its-hostname-label"},
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
            Question(f"node hints, {told}", hinted, for_each),
            Question(f"policy Local, {told}", local, for_each),
        )

    expect("label a1")
    with expect_no_loss(three_zones, hinted, from_=["a1"], allowed={a1}):
        for label in ("b1", None, "a1"):
            three_zones.nodes.label("a1", {HOSTNAME_LABEL: label})
            expect(f"label {label}")
