"""KEP-3015 (2022), the proxy: it prefers endpoints on the node, and otherwise routes as without node-level topology."""

from __future__ import annotations

import pytest

from conformance.features import EXTERNAL_POLICY, INTERNAL_POLICY, NODE_LEVEL_TOPOLOGY, NODE_PORT, ZONE_HINTS
from conformance.kep_3015_node_level_topology.daemon_sets import ASKED, OFF, ON
from trafficdist import (
    MUST,
    NO_ANSWER,
    PROXY,
    Cluster,
    Endpoint,
    Expected,
    ExpectedTraffic,
    Pod,
    Traffic,
    endpoint,
    expect_concurrent_traffic,
    expect_no_loss,
    expect_traffic,
    external_client,
    node_client,
    release,
    requirement,
    same_node,
)


def own_node(pod: Pod) -> Endpoint:
    """Return an endpoint with a node hint only, as node-level topology writes hints."""
    return endpoint(pod, nodes=[pod.node])


@requirement(
    "KEP-3015/node-level-uses-the-node-if-it-can",
    "With node-level hints, a client uses the endpoints on its node if there are any, and all endpoints otherwise; "
    "the Service needs no annotation.",
    level=MUST,
    features={NODE_LEVEL_TOPOLOGY},
    source="KEP-3015 (2022), Applying Node-Level Topology; Goals",
    as_="kep",
    kills={"drops-without-hinted-endpoint", "knows-no-node-level-hints", "node-level-needs-the-annotation"},
)
@pytest.mark.parametrize("version", ["1.26", "1.32"])
def test_clients_use_endpoints_of_their_node(three_zones: Cluster, version: str) -> None:
    three_zones.restart(PROXY, release(version, NodeLevelTopology=True))
    service = three_zones.create_service()
    pods = a1, other, b1 = three_zones.run_servers(on=["a1", "a1", "b1"])
    three_zones.publish(service, [own_node(pod) for pod in pods], unasked=True)

    everybody = set(pods)
    expect_traffic(
        three_zones,
        service,
        {"a1": {a1, other}, "b1": {b1}, node_client("b1"): {b1}, "a2": everybody, "c1": everybody},
    )


@requirement(
    "KEP-3015/node-level-falls-back-to-other-hints",
    "A client whose node has no endpoint follows zone hints, as if there were no node-level hints.",
    level=MUST,
    features={NODE_LEVEL_TOPOLOGY, ZONE_HINTS},
    source="KEP-3015 (2022), Applying Node-Level Topology (the same rules as would have been used)",
    as_="kep",
    kills={"drops-without-hinted-endpoint", "ignores-zone-hints", "skips-zone-tier"},
)
def test_node_without_endpoint_follows_zone_hints(three_zones: Cluster) -> None:
    three_zones.restart(PROXY, ON)
    service = three_zones.create_service(annotations=ASKED)
    pods = a1, b1, b2 = three_zones.run_servers(on=["a1", "b1", "b2"])
    three_zones.publish(service, [same_node(pod) for pod in pods])

    expect_traffic(three_zones, service, {"a1": {a1}, "a2": {a1}, "b1": {b1}, "b2": {b2}, "c1": set(pods)})


@requirement(
    "KEP-3015/node-level-endpoint-comes-and-goes",
    "When the only endpoint on a node is removed, clients on the node use other endpoints, and when the removed "
    "endpoint is added again, they use it again; no connection fails.",
    level=MUST,
    features={NODE_LEVEL_TOPOLOGY},
    source="KEP-3015 (2022), Test Plan, e2e tests (when a local endpoint is available and when it is not)",
    as_="kep",
    kills={"drops-without-hinted-endpoint", "forgets-before-it-learns", "node-level-without-fallback"},
)
def test_endpoint_of_the_node_goes_and_comes_back(three_zones: Cluster) -> None:
    three_zones.restart(PROXY, ON)
    service = three_zones.create_service(annotations=ASKED)
    pods = a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    three_zones.publish(service, [own_node(pod) for pod in pods])
    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}})

    with expect_no_loss(three_zones, service, from_=["a1", "b1"], allowed=set(pods)):
        three_zones.publish(service, [own_node(pod) for pod in (b1, c1)])
        expect_traffic(three_zones, service, {"a1": {b1, c1}, "b1": {b1}})
        three_zones.publish(service, [own_node(pod) for pod in pods])
        expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}})


@requirement(
    "KEP-3015/node-level-is-for-policy-cluster",
    "With the Cluster policy, traffic follows node-level hints; with the Local policy, traffic ignores them, uses the "
    "endpoints on the node, and gets no answer if there are none.",
    level=MUST,
    features={NODE_LEVEL_TOPOLOGY, EXTERNAL_POLICY, INTERNAL_POLICY, NODE_PORT},
    source="KEP-3015 (2022), Applying Node-Level Topology (only to connections with Cluster traffic policy)",
    as_="kep",
    kills={
        "ignores-external-local",
        "ignores-internal-local",
        "node-level-narrows-local",
        "node-level-needs-both-policies",
        "node-level-softens-local",
    },
)
def test_node_level_hints_are_for_policy_cluster(three_zones: Cluster) -> None:
    three_zones.restart(PROXY, ON)
    a1, other, b1 = three_zones.run_servers(on=["a1", "a1", "b1"])
    nodes = ("a1", "a2", "b1")
    local: tuple[Expected, ...] = ({a1, other}, NO_ANSWER, {b1})
    by_policy = {"Local": local, "Cluster": ({a1}, {other}, {b1})}
    questions = []
    for internal, external in (("Local", "Local"), ("Local", "Cluster"), ("Cluster", "Local")):
        service = three_zones.create_service(
            annotations=ASKED, type="NodePort", internal_traffic_policy=internal, external_traffic_policy=external
        )
        three_zones.publish(service, [own_node(a1), endpoint(other, nodes=["a2"]), own_node(b1)])
        name = f"internal {internal}, external {external}"
        inside: Traffic = dict(zip(nodes, by_policy[internal], strict=True))
        outside: Traffic = dict(zip(map(external_client, nodes), by_policy[external], strict=True))
        questions.append(ExpectedTraffic(f"{name}: inside", service, inside))
        questions.append(ExpectedTraffic(f"{name}: outside", service, outside, to="node-port"))
    expect_concurrent_traffic(three_zones, questions)


@requirement(
    "KEP-3015/node-level-stuck-hints-break-nothing",
    "Stale node-level hints on a Service that no longer has endpoints on most nodes may unbalance the Service's "
    "traffic, but never interrupt it.",
    level=MUST,
    features={NODE_LEVEL_TOPOLOGY},
    source="KEP-3015 (2022), Version Skew Strategy (not that the service actually breaks)",
    as_="kep",
    kills={"drops-without-hinted-endpoint", "node-level-without-fallback"},
)
def test_stuck_hints_break_nothing(three_zones: Cluster) -> None:
    three_zones.restart(PROXY, ON)
    service = three_zones.create_service(annotations=ASKED)
    pods = a1, a2, b1, *_ = three_zones.run_servers(on=["a1", "a2", "b1", "b2", "c1"])
    three_zones.publish(service, [own_node(pod) for pod in pods])
    expect_traffic(three_zones, service, {pod.node: {pod} for pod in pods})

    with expect_no_loss(three_zones, service, from_=["a1", "b1", "c1"], allowed=set(pods)):
        for left in ([a1, a2, b1], [a1]):
            three_zones.publish(service, [own_node(pod) for pod in left])
            here = {pod.node: {pod} for pod in left}
            expect_traffic(three_zones, service, {pod.node: here.get(pod.node, set(left)) for pod in pods})


@requirement(
    "KEP-3015/node-level-proxy-gate-off-ignores-node-hints",
    "With the NodeLevelTopology gate disabled, a proxy that supports no other kind of node hints routes as if there "
    "were no node hints.",
    level=MUST,
    features={NODE_LEVEL_TOPOLOGY, ZONE_HINTS},
    source="KEP-3015 (2022), Feature Enablement and Rollback (revert back to ordinary Cluster semantics)",
    as_="kep",
    kills={"drops-without-hinted-endpoint", "ignores-zone-hints", "newest-proxy-at-any-release"},
)
def test_node_hints_are_ignored_while_the_gate_is_off(three_zones: Cluster) -> None:
    three_zones.restart(PROXY, OFF)
    service = three_zones.create_service(annotations=ASKED)
    pods = a1, a2, b1 = three_zones.run_servers(on=["a1", "a2", "b1"])
    three_zones.publish(service, [own_node(pod) for pod in pods])
    expect_traffic(three_zones, service, {"a1": set(pods), "b1": set(pods)})
    three_zones.publish(service, [same_node(pod) for pod in pods])
    expect_traffic(three_zones, service, {"a1": {a1, a2}, "b1": {b1}})
