"""KEP-3015 (2022), Version Skew Strategy: the NodeLevelTopology gate in each component, and stale hints."""

from __future__ import annotations

from conformance.features import NODE_LEVEL_ROUTING, SKEW
from conformance.kep_3015_node_level_topology.daemon_sets import ASKED, OFF, ON, WEB, expect_node_hints
from conformance.skew import RequiredOutcome, Skew, SkewMatrix, bring_to
from trafficdist import (
    CONTROLLER,
    MUST,
    Cluster,
    expect_no_loss,
    expect_traffic,
    requirement,
)

MATRIX = SkewMatrix(
    skews={
        "all on": Skew(ON, ON, ON),
        "off in the API server": Skew(OFF, ON, ON),
        "off in the controller": Skew(ON, OFF, ON),
        "off in the proxy": Skew(ON, ON, OFF),
    },
    asked={
        "Node": {"annotations": ASKED},
        "Node and PreferClose": {"annotations": ASKED, "traffic_distribution": "PreferClose"},
    },
    table={
        ("all on", "Node"): RequiredOutcome("own node", "by node"),
        ("all on", "Node and PreferClose"): RequiredOutcome("own zone and node", "by node"),
        ("off in the API server", "Node"): RequiredOutcome("none", "anywhere"),
        ("off in the API server", "Node and PreferClose"): RequiredOutcome("own zone", "by zone"),
        ("off in the controller", "Node"): RequiredOutcome("none", "anywhere"),
        ("off in the controller", "Node and PreferClose"): RequiredOutcome("own zone", "by zone"),
        ("off in the proxy", "Node"): RequiredOutcome("own node", "anywhere"),
        ("off in the proxy", "Node and PreferClose"): RequiredOutcome("own zone and node", "by zone"),
    },
)


@requirement(
    "KEP-3015/node-level-needs-all-components",
    "With the NodeLevelTopology gate enabled in the API server, the controller and the proxies, traffic to a Service "
    "with the topology annotation stays on the client's node if that node has an endpoint, and otherwise follows zone "
    "hints.",
    level=MUST,
    features={NODE_LEVEL_ROUTING, SKEW},
    source="KEP-3015 (2022), Version Skew Strategy; Dependencies",
    as_="kep",
    kills={"knows-no-node-level-topology", "knows-no-node-level-hints"},
)
@MATRIX.cases("all on")
def test_gate_on_everywhere(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "all on", asked)


@requirement(
    "KEP-3015/node-level-skew-api-server",
    "With the NodeLevelTopology gate disabled only in the API server, traffic to a Service with the topology "
    "annotation is routed as if the Service had no topology annotation.",
    level=MUST,
    features={NODE_LEVEL_ROUTING, SKEW},
    source="KEP-3015 (2022), Version Skew Strategy (falling back to ordinary Cluster semantics)",
    as_="kep",
    kills={"newest-api-server-at-any-release"},
)
@MATRIX.cases("off in the API server")
def test_gate_off_in_the_api_server(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "off in the API server", asked)


@requirement(
    "KEP-3015/node-level-skew-controller",
    "With the NodeLevelTopology gate disabled only in the controller, traffic to a Service that never had node hints "
    "is routed as if the Service had no topology annotation.",
    level=MUST,
    features={NODE_LEVEL_ROUTING, SKEW},
    source="KEP-3015 (2022), Version Skew Strategy (falling back to ordinary Cluster semantics)",
    as_="kep",
    kills={"node-level-without-its-gate"},
)
@MATRIX.cases("off in the controller")
def test_gate_off_in_the_controller(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "off in the controller", asked)


@requirement(
    "KEP-3015/node-level-skew-proxy",
    "With the NodeLevelTopology gate disabled only in the proxies, traffic to a Service with the topology annotation "
    "is routed as if the Service had no topology annotation.",
    level=MUST,
    features={NODE_LEVEL_ROUTING, SKEW},
    source="KEP-3015 (2022), Version Skew Strategy (falling back to ordinary Cluster semantics)",
    as_="kep",
    kills={"newest-proxy-at-any-release"},
)
@MATRIX.cases("off in the proxy")
def test_gate_off_in_the_proxies(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "off in the proxy", asked)


@requirement(
    "KEP-3015/node-level-stuck-service-keeps-working",
    "While the NodeLevelTopology gate is disabled only in the controller, no connection is lost as pods are added and "
    "removed, and clients on nodes without an endpoint use any endpoint; hints are correct again once the gate is "
    "enabled again.",
    level=MUST,
    features={NODE_LEVEL_ROUTING, SKEW},
    source="KEP-3015 (2022), Version Skew Strategy (a service might get stuck)",
    as_="kep",
    kills={"node-level-without-fallback", "hints-new-endpoints-only"},
)
def test_service_whose_hints_are_stuck_keeps_working(three_zones: Cluster) -> None:
    bring_to(three_zones, Skew(ON, ON, ON))
    service = three_zones.create_service(selector=WEB, annotations=ASKED)
    pods = a1, a2, b1 = three_zones.run_servers(["a1", "a2", "b1"], labels=WEB)
    expect_node_hints(three_zones, service, *pods)
    expect_traffic(three_zones, service, {"a1": {a1}, "c1": set(pods)})

    with expect_no_loss(three_zones, service, from_=["a1", "a2", "c1"], allowed=set(pods)) as flow:
        three_zones.restart(CONTROLLER, OFF)
        three_zones.begin_termination(a2.name)
        flow.wait_for_samples()  # the KEP leaves the hints undefined, so only answers are checked
        three_zones.delete_pod(a2)
        three_zones.run_servers(["a2"], labels=WEB)
        flow.wait_for_samples()
        three_zones.restart(CONTROLLER, ON)
        expect_node_hints(three_zones, service, *pods)
        expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}})
