"""KEP-4444, Version Skew Strategy: 1.29 does not support trafficDistribution, and 1.31 enables it by default."""

from __future__ import annotations

from conformance.features import SKEW
from conformance.skew import SERVERS, WEB, RequiredOutcome, Skew, SkewMatrix, bring_to, expect_written, while_upgrading
from trafficdist import (
    MUST,
    PROXY,
    Cluster,
    expect_traffic,
    release,
    requirement,
)

OLD, NEW = release("1.29"), release("1.31")
AUTO = {"service.kubernetes.io/topology-mode": "Auto"}

MATRIX = SkewMatrix(
    skews=while_upgrading(OLD, NEW),
    asked={
        "annotation": {"annotations": AUTO},
        "field": {"traffic_distribution": "PreferClose"},
        "both": {"annotations": AUTO, "traffic_distribution": "PreferClose"},
    },
    table={
        ("new API server", "annotation"): RequiredOutcome("shared out", "by zone"),
        ("new API server", "field"): RequiredOutcome("none", "anywhere"),
        ("new API server", "both"): RequiredOutcome("shared out", "by zone"),
        ("new API server and controller", "annotation"): RequiredOutcome("shared out", "by zone"),
        ("new API server and controller", "field"): RequiredOutcome("own zone", "anywhere"),
        ("new API server and controller", "both"): RequiredOutcome("shared out", "by zone"),
        ("new API server and proxy", "annotation"): RequiredOutcome("shared out", "by zone"),
        ("new API server and proxy", "field"): RequiredOutcome("none", "anywhere"),
        ("new API server and proxy", "both"): RequiredOutcome("shared out", "by zone"),
        ("all new", "annotation"): RequiredOutcome("shared out", "by zone"),
        ("all new", "field"): RequiredOutcome("own zone", "by zone"),
        ("all new", "both"): RequiredOutcome("shared out", "by zone"),
    },
)


@requirement(
    "KEP-4444/skew-new-api-server",
    "With a newer API server, older controllers and proxies ignore trafficDistribution, and follow the topology "
    "annotation.",
    level=MUST,
    features={SKEW},
    source="KEP-4444, Version Skew Strategy, kube-apiserver",
    kills={"newest-controller-at-any-release"},
)
@MATRIX.cases("new API server")
def test_new_api_server(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "new API server", asked)


@requirement(
    "KEP-4444/skew-new-controller",
    "With a newer controller and an older proxy, hints from the topology annotation are written and followed, with or "
    "without trafficDistribution; hints from trafficDistribution alone are written but not followed.",
    level=MUST,
    features={SKEW},
    source="KEP-4444, Version Skew Strategy, new controller and old kube-proxy, 1 to 3",
    kills={"field-before-annotation", "newest-proxy-at-any-release"},
)
@MATRIX.cases("new API server and controller")
def test_new_controller_and_old_proxy(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "new API server and controller", asked)


@requirement(
    "KEP-4444/skew-new-proxy",
    "With an older controller and a newer proxy, hints from the topology annotation are written and followed, with or "
    "without trafficDistribution; with trafficDistribution alone there are no hints, and traffic goes to all "
    "endpoints.",
    level=MUST,
    features={SKEW},
    source="KEP-4444, Version Skew Strategy, old controller and new kube-proxy, 1 to 3",
    kills={"newest-controller-at-any-release"},
)
@MATRIX.cases("new API server and proxy")
def test_old_controller_and_new_proxy(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "new API server and proxy", asked)


@requirement(
    "KEP-4444/upgraded-cluster-prefers-the-annotation",
    "Once all components are upgraded, hints follow the topology annotation if it is set and otherwise "
    "trafficDistribution, and proxies follow the hints.",
    level=MUST,
    features={SKEW},
    source="KEP-4444, Upgrade / Downgrade Strategy",
    kills={"field-before-annotation", "oldest-controller-at-any-release", "oldest-proxy-at-any-release"},
)
@MATRIX.cases("all new")
def test_upgraded_cluster(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "all new", asked)


@requirement(
    "KEP-4444/old-and-new-proxies-side-by-side",
    "In a cluster with older and newer proxies, each node routes traffic as the release of its own proxy does, and "
    "every client gets an answer.",
    level=MUST,
    features={SKEW},
    source="KEP-4444, Rollout, Upgrade and Rollback Planning (partial rollouts) and Version Skew Strategy",
    kills={"newest-proxy-at-any-release"},
)
def test_old_and_new_proxies_on_different_nodes(three_zones: Cluster) -> None:
    bring_to(three_zones, Skew(NEW, NEW, OLD))
    three_zones.restart(PROXY, NEW, on=["a2", "b2", "c1"])
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    pods = a, _, a2, b1, b2 = three_zones.run_servers(SERVERS, labels=WEB)
    expect_written(three_zones, service, pods, "own zone")

    everybody = set(pods)
    expect_traffic(
        three_zones,
        service,
        {"a1": everybody, "a2": {a, pods[1], a2}, "b1": everybody, "b2": {b1, b2}, "c1": everybody},
    )
