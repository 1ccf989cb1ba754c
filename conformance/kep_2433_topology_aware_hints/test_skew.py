"""KEP-2433, Version Skew Strategy: only the controller or only the proxies support topology aware hints."""

from __future__ import annotations

from conformance.features import ROLLOUT, SKEW
from conformance.kep_2433_topology_aware_hints.zones import AUTO, AWARE_HINTS
from conformance.skew import CLIENTS, SERVERS, WEB, RequiredOutcome, Skew, SkewMatrix, bring_to, expect_written, routes
from trafficdist import (
    CONTROLLER,
    MUST,
    PROXY,
    Cluster,
    ExpectedTraffic,
    expect_concurrent_traffic,
    expect_no_loss,
    expect_traffic,
    release,
    requirement,
)

NEW, GATE_OFF, BEFORE = release("1.27"), release("1.27", TopologyAwareHints=False), release("1.20")
NO_HINTS, NOT_FOLLOWED = RequiredOutcome("none", "anywhere"), RequiredOutcome("shared out", "anywhere")

MATRIX = SkewMatrix(
    skews={
        "controller with its gate off": Skew(NEW, GATE_OFF, NEW),
        "controller from before": Skew(NEW, BEFORE, NEW),
        "proxies with their gate off": Skew(NEW, NEW, GATE_OFF),
        "proxies from before": Skew(NEW, NEW, BEFORE),
    },
    asked={
        "topology-aware-hints": {"annotations": {AWARE_HINTS: "Auto"}},
        "topology-mode": {"annotations": AUTO},
    },
    table={
        ("controller with its gate off", "topology-aware-hints"): NO_HINTS,
        ("controller with its gate off", "topology-mode"): NO_HINTS,
        ("controller from before", "topology-aware-hints"): NO_HINTS,
        ("controller from before", "topology-mode"): NO_HINTS,
        ("proxies with their gate off", "topology-aware-hints"): NOT_FOLLOWED,
        ("proxies with their gate off", "topology-mode"): NOT_FOLLOWED,
        ("proxies from before", "topology-aware-hints"): NOT_FOLLOWED,
        ("proxies from before", "topology-mode"): NOT_FOLLOWED,
    },
)


@requirement(
    "KEP-2433/skew-controller-with-its-gate-off",
    "With the TopologyAwareHints gate disabled only in the controller, there are no hints, and traffic goes to all "
    "endpoints.",
    level=MUST,
    features={SKEW},
    source="KEP-2433, Version Skew Strategy, 1",
    kills={"newest-controller-at-any-release"},
)
@MATRIX.cases("controller with its gate off")
def test_controller_with_its_gate_off(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "controller with its gate off", asked)


@requirement(
    "KEP-2433/skew-controller-from-before",
    "With a controller older than topology aware hints, there are no hints, and traffic goes to all endpoints.",
    level=MUST,
    features={SKEW},
    source="KEP-2433, Version Skew Strategy, 1",
    kills={"newest-controller-at-any-release"},
)
@MATRIX.cases("controller from before")
def test_controller_from_before_hints(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "controller from before", asked)


@requirement(
    "KEP-2433/skew-proxies-with-their-gate-off",
    "With the TopologyAwareHints gate disabled only in the proxies, the controller writes hints, and traffic goes to "
    "all endpoints.",
    level=MUST,
    features={SKEW},
    source="KEP-2433, Version Skew Strategy, 2",
    kills={"newest-proxy-at-any-release"},
)
@MATRIX.cases("proxies with their gate off")
def test_proxies_with_their_gate_off(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "proxies with their gate off", asked)


@requirement(
    "KEP-2433/skew-proxies-from-before",
    "With proxies older than topology aware hints, the controller writes hints, and traffic goes to all endpoints.",
    level=MUST,
    features={SKEW},
    source="KEP-2433, Version Skew Strategy, 2",
    kills={"newest-proxy-at-any-release"},
)
@MATRIX.cases("proxies from before")
def test_proxies_from_before_hints(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "proxies from before", asked)


@requirement(
    "KEP-2433/rollback-loses-no-connection",
    "While the TopologyAwareHints gate is enabled and disabled again in the controller and, node by node, in the "
    "proxies, no connection fails; a Service without the topology annotation has no hints and uses all endpoints.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-2433, Rollout, Upgrade and Rollback Planning; Feature Enablement and Rollback",
    kills={"flushes-before-it-starts", "shares-out-unasked"},
)
def test_gate_goes_on_and_off_without_loss(three_zones: Cluster) -> None:
    bring_to(three_zones, Skew(NEW, GATE_OFF, GATE_OFF))
    service, plain = (three_zones.create_service(selector=WEB, annotations=each) for each in (AUTO, None))
    pods = three_zones.run_servers(SERVERS, labels=WEB)
    expect_written(three_zones, service, pods, "none")
    anywhere = routes(pods, "anywhere", {})
    nodes = [node.name for node in three_zones.topology.nodes]

    with expect_no_loss(three_zones, service, from_=CLIENTS, allowed=set(pods)):
        three_zones.restart(CONTROLLER, NEW)
        hinted = expect_written(three_zones, service, pods, "shared out")
        for node in nodes:
            three_zones.restart(PROXY, NEW, on=[node])
        expect_written(three_zones, plain, pods, "none")
        asked = ExpectedTraffic("with the annotation", service, routes(pods, "by zone", hinted))
        expect_concurrent_traffic(three_zones, [asked, ExpectedTraffic("without", plain, anywhere)])
        for node in nodes:
            three_zones.restart(PROXY, GATE_OFF, on=[node])
        expect_traffic(three_zones, service, anywhere)
        three_zones.restart(CONTROLLER, GATE_OFF)
        expect_written(three_zones, service, pods, "none")
