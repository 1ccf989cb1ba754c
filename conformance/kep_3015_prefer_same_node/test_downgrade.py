"""KEP-3015, the KEP's manual test (upgrade, downgrade, upgrade) under traffic, by switching the gate or the release."""

from __future__ import annotations

from conformance.features import ROLLOUT
from conformance.skew import CLIENTS, SERVERS, WEB, Skew, bring_to, expect_written, routes
from trafficdist import (
    API_SERVER,
    CONTROLLER,
    MUST,
    PROXY,
    Cluster,
    Hints,
    Pod,
    Port,
    Service,
    expect_hints,
    expect_no_loss,
    expect_traffic,
    release,
    requirement,
)

BEFORE, BETA = release("1.33"), release("1.34")
GATE_ON, GATE_OFF = (release("1.34", PreferSameTrafficDistribution=on) for on in (True, False))
TCP, UDP = Port(name="tcp"), Port(name="udp", protocol="UDP")
OWN = {node: Hints(zones=(node[0],), nodes=(node,)) for node in ("a1", "b1")}


def _prefer_same_node(cluster: Cluster) -> tuple[Service, list[Pod]]:
    bring_to(cluster, Skew(BETA, BETA, BETA))
    service = cluster.create_service(selector=WEB, traffic_distribution="PreferSameNode", ports=(TCP, UDP))
    pods = cluster.run_servers(SERVERS, labels=WEB)
    hinted = expect_written(cluster, service, pods, "own zone and node")
    expect_traffic(cluster, service, routes(pods, "by node", hinted))
    return service, pods


def _switch(cluster: Cluster, *, on: bool) -> None:
    for component in (API_SERVER, CONTROLLER):
        cluster.restart(component, GATE_ON if on else GATE_OFF)


def _create_hinted_pod(cluster: Cluster) -> Service:
    _switch(cluster, on=True)
    service = cluster.create_service(selector=WEB, traffic_distribution="PreferSameNode")
    cluster.create_pod("p1", "a1", labels=WEB)
    expect_hints(cluster, service, {"p1": OWN["a1"]})
    return service


@requirement(
    "KEP-3015/gate-off-ends-hints-at-the-next-write",
    "After the PreferSameTrafficDistribution gate is disabled in the API server and the controller, the controller "
    "removes the hints from the slice of a Service with PreferSameNode the next time a pod is added.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-3015, Rollout, Upgrade and Rollback Planning (tested manually in a kind: disabled feature gate)",
    kills={"newest-controller-at-any-release", "hints-outlive-their-gate"},
)
def test_next_pod_ends_hints_when_the_gate_is_off(three_zones: Cluster) -> None:
    service = _create_hinted_pod(three_zones)

    _switch(three_zones, on=False)
    three_zones.create_pod("p2", "b1", labels=WEB)
    expect_hints(three_zones, service, {"p1": None, "p2": None})


@requirement(
    "KEP-3015/gate-on-again-hints-at-the-next-write",
    "After the PreferSameTrafficDistribution gate is enabled again, the slice of a Service with PreferSameNode has "
    "node hints again no later than when the next pod is removed.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-3015, Rollout, Upgrade and Rollback Planning (tested manually in a kind: re-enabled the feature gate)",
    kills={"hints-new-endpoints-only"},
)
def test_next_pod_brings_hints_back_when_the_gate_is_on_again(three_zones: Cluster) -> None:
    service = _create_hinted_pod(three_zones)
    _switch(three_zones, on=False)
    three_zones.create_pod("p2", "b1", labels=WEB)
    expect_hints(three_zones, service, {"p1": None, "p2": None})

    _switch(three_zones, on=True)
    three_zones.api.delete("pods", three_zones.namespace, "p1", grace_seconds=0)
    expect_hints(three_zones, service, {"p2": OWN["b1"]})


@requirement(
    "KEP-3015/downgrade-distributes-by-default",
    "When the controller is downgraded to a release without PreferSameNode, a Service with PreferSameNode loses its "
    "hints and its traffic goes to all endpoints; no connection is lost.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-3015, Upgrade / Downgrade Strategy (effectively fall back to default traffic distribution)",
    kills={"newest-controller-at-any-release", "hints-outlive-their-gate"},
)
def test_downgraded_controller_distributes_by_default(three_zones: Cluster) -> None:
    service, pods = _prefer_same_node(three_zones)

    with expect_no_loss(three_zones, service, from_=CLIENTS, allowed=set(pods), port=TCP):
        three_zones.restart(CONTROLLER, BEFORE)
        expect_written(three_zones, service, pods, "none")
        expect_traffic(three_zones, service, routes(pods, "anywhere", {}))


@requirement(
    "KEP-3015/upgrade-brings-hints-back",
    "When the controller is upgraded again, a Service that still has PreferSameNode gets its hints back and its "
    "traffic follows them; no connection is lost.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-3015, Upgrade / Downgrade Strategy (when they re-upgrade, the hints will be re-added)",
    kills={"hints-new-endpoints-only", "same-node-without-node-hints"},
)
def test_upgraded_controller_brings_hints_back(three_zones: Cluster) -> None:
    service, pods = _prefer_same_node(three_zones)
    three_zones.restart(CONTROLLER, BEFORE)
    expect_written(three_zones, service, pods, "none")

    with expect_no_loss(three_zones, service, from_=CLIENTS, allowed=set(pods), port=TCP):
        three_zones.restart(CONTROLLER, BETA)
        hinted = expect_written(three_zones, service, pods, "own zone and node")
        expect_traffic(three_zones, service, routes(pods, "by node", hinted))


@requirement(
    "KEP-3015/proxy-downgrade-falls-back-to-the-zone",
    "When proxies are downgraded to a release without PreferSameNode, traffic to a Service with PreferSameNode stays "
    "in the client's zone, over TCP and UDP, and no connection is lost.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-3015, Version Skew Strategy (would at least fall back to prefer-same-zone)",
    kills={"newest-proxy-at-any-release", "flushes-before-it-starts"},
)
def test_downgraded_proxies_stay_in_the_zone(three_zones: Cluster) -> None:
    service, pods = _prefer_same_node(three_zones)
    hinted = expect_written(three_zones, service, pods, "own zone and node")
    everybody = set(pods)

    with (
        expect_no_loss(three_zones, service, from_=CLIENTS, allowed=everybody, port=TCP),
        expect_no_loss(three_zones, service, from_=CLIENTS, allowed=everybody, port=UDP),
    ):
        three_zones.restart(PROXY, BEFORE)
        expect_traffic(three_zones, service, routes(pods, "by zone", hinted))


@requirement(
    "KEP-3015/rollout-loses-no-connection",
    "While the API server, the controller and the proxies are upgraded one by one, and downgraded again in the "
    "opposite order, no TCP connection and no UDP query is lost.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-3015, Rollout, Upgrade and Rollback Planning (won't impact already-running workloads)",
    kills={"flushes-before-it-starts"},
)
def test_rollout_forth_and_back(three_zones: Cluster) -> None:
    bring_to(three_zones, Skew(BEFORE, BEFORE, BEFORE))
    service = three_zones.create_service(selector=WEB, ports=(TCP, UDP))
    pods = three_zones.run_servers(SERVERS, labels=WEB)
    everybody, nodes = set(pods), [node.name for node in three_zones.topology.nodes]

    with (
        expect_no_loss(three_zones, service, from_=CLIENTS, allowed=everybody, port=TCP),
        expect_no_loss(three_zones, service, from_=CLIENTS, allowed=everybody, port=UDP),
    ):
        three_zones.restart(API_SERVER, BETA)
        three_zones.restart(CONTROLLER, BETA)
        for node in nodes:
            three_zones.restart(PROXY, BETA, on=[node])
        three_zones.patch_service(service, {"spec": {"trafficDistribution": "PreferSameNode"}})
        hinted = expect_written(three_zones, service, pods, "own zone and node")
        expect_traffic(three_zones, service, routes(pods, "by node", hinted))
        for node in nodes:
            three_zones.restart(PROXY, BEFORE, on=[node])
        three_zones.restart(CONTROLLER, BEFORE)
        three_zones.restart(API_SERVER, BEFORE)
        expect_written(three_zones, service, pods, "none")
        expect_traffic(three_zones, service, routes(pods, "anywhere", {}))
