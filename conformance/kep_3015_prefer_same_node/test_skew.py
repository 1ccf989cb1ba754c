"""KEP-3015, Version Skew Strategy: the new values and forNodes are off by default in 1.33 and on in 1.34."""

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

OLD, NEW = release("1.33"), release("1.34")

MATRIX = SkewMatrix(
    skews=while_upgrading(OLD, NEW),
    asked={
        "PreferClose": {"traffic_distribution": "PreferClose"},
        "PreferSameZone": {"traffic_distribution": "PreferSameZone"},
        "PreferSameNode": {"traffic_distribution": "PreferSameNode"},
    },
    table={
        ("new API server", "PreferClose"): RequiredOutcome("own zone", "by zone"),
        ("new API server", "PreferSameZone"): RequiredOutcome("none", "anywhere"),
        ("new API server", "PreferSameNode"): RequiredOutcome("none", "anywhere"),
        ("new API server and controller", "PreferClose"): RequiredOutcome("own zone", "by zone"),
        ("new API server and controller", "PreferSameZone"): RequiredOutcome("own zone", "by zone"),
        ("new API server and controller", "PreferSameNode"): RequiredOutcome("own zone and node", "by zone"),
        ("new API server and proxy", "PreferClose"): RequiredOutcome("own zone", "by zone"),
        ("new API server and proxy", "PreferSameZone"): RequiredOutcome("none", "anywhere"),
        ("new API server and proxy", "PreferSameNode"): RequiredOutcome("none", "anywhere"),
        ("all new", "PreferClose"): RequiredOutcome("own zone", "by zone"),
        ("all new", "PreferSameZone"): RequiredOutcome("own zone", "by zone"),
        ("all new", "PreferSameNode"): RequiredOutcome("own zone and node", "by node"),
    },
)


@requirement(
    "KEP-3015/skew-new-api-server",
    "With a newer API server, an older controller writes no hints for Services with PreferSameZone or PreferSameNode, "
    "and their traffic goes to all endpoints; PreferClose works as before.",
    level=MUST,
    features={SKEW},
    source="KEP-3015, Version Skew Strategy (those values would not be recognized)",
    kills={"newest-controller-at-any-release"},
)
@MATRIX.cases("new API server")
def test_new_api_server(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "new API server", asked)


@requirement(
    "KEP-3015/skew-new-controller",
    "A proxy that does not support PreferSameZone and PreferSameNode keeps traffic to Services with these values in "
    "the client's zone.",
    level=MUST,
    features={SKEW},
    source="KEP-3015, Version Skew Strategy (would at least fall back to prefer-same-zone)",
    kills={"same-node-without-zone-hints", "newest-proxy-at-any-release"},
)
@MATRIX.cases("new API server and controller")
def test_new_controller_and_old_proxy(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "new API server and controller", asked)


@requirement(
    "KEP-3015/skew-new-proxy",
    "With an older controller, Services with PreferSameZone or PreferSameNode have no hints, and a newer proxy uses "
    "all their endpoints.",
    level=MUST,
    features={SKEW},
    source="KEP-3015, Version Skew Strategy (it only looks at the hints set by kube-controller-manager)",
    kills={"newest-controller-at-any-release"},
)
@MATRIX.cases("new API server and proxy")
def test_old_controller_and_new_proxy(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "new API server and proxy", asked)


@requirement(
    "KEP-3015/upgraded-cluster-knows-every-value",
    "Once all components are upgraded, PreferClose and PreferSameZone keep traffic in the client's zone, and "
    "PreferSameNode keeps it on the client's node, or in the zone if the node has no endpoint.",
    level=MUST,
    features={SKEW},
    source="KEP-3015, Upgrade / Downgrade Strategy",
    kills={"knows-only-prefer-close", "same-node-without-node-hints"},
)
@MATRIX.cases("all new")
def test_upgraded_cluster(three_zones: Cluster, asked: str) -> None:
    MATRIX.judge(three_zones, "all new", asked)


@requirement(
    "KEP-3015/old-and-new-proxies-side-by-side",
    "With PreferSameNode in a cluster with older and newer proxies, nodes with a newer proxy prefer the endpoints on "
    "the node, and nodes with an older proxy prefer the endpoints in their zone.",
    level=MUST,
    features={SKEW},
    source="KEP-3015, Version Skew Strategy",
    kills={"newest-proxy-at-any-release"},
)
def test_old_and_new_proxies_on_different_nodes(three_zones: Cluster) -> None:
    bring_to(three_zones, Skew(NEW, NEW, OLD))
    three_zones.restart(PROXY, NEW, on=["a1", "b2", "c1"])
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode")
    pods = a1, other, a2, b1, b2 = three_zones.run_servers(SERVERS, labels=WEB)
    expect_written(three_zones, service, pods, "own zone and node")

    expect_traffic(
        three_zones,
        service,
        {"a1": {a1, other}, "a2": {a1, other, a2}, "b1": {b1, b2}, "b2": {b2}, "c1": set(pods)},
    )
