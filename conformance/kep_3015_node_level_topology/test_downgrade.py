"""KEP-3015 (2022), Upgrade / Downgrade Strategy: node-level topology is disabled and enabled again under traffic."""

from __future__ import annotations

from conformance.features import NODE_LEVEL_ROUTING, ROLLOUT
from conformance.kep_3015_node_level_topology.daemon_sets import ASKED, BEFORE, OFF, ON, WEB, expect_node_hints
from conformance.skew import CLIENTS, SERVERS, Skew, bring_to, routes
from trafficdist import (
    API_SERVER,
    CONTROLLER,
    MUST,
    PROXY,
    Cluster,
    Pod,
    Service,
    expect_no_loss,
    expect_traffic,
    requirement,
)


def _routed_by_node(cluster: Cluster) -> tuple[Service, list[Pod]]:
    bring_to(cluster, Skew(ON, ON, ON))
    service = cluster.create_service(selector=WEB, annotations=ASKED)
    pods = cluster.run_servers(SERVERS, labels=WEB)
    expect_node_hints(cluster, service, *pods)
    expect_traffic(cluster, service, routes(pods, "by node", {}))
    return service, pods


@requirement(
    "KEP-3015/node-level-downgrade-distributes-by-default",
    "Once proxies are downgraded to a release without node-level topology, traffic goes to all endpoints, even while "
    "the controller and the API server are downgraded; no connection is lost.",
    level=MUST,
    features={NODE_LEVEL_ROUTING, ROLLOUT},
    source="KEP-3015 (2022), Upgrade / Downgrade Strategy (less-efficient but still correct functioning)",
    as_="kep",
    kills={"newest-proxy-at-any-release"},
)
def test_downgrade_distributes_by_default(three_zones: Cluster) -> None:
    service, pods = _routed_by_node(three_zones)

    with expect_no_loss(three_zones, service, from_=CLIENTS, allowed=set(pods)):
        for component in (PROXY, CONTROLLER, API_SERVER):
            three_zones.restart(component, BEFORE)
            expect_traffic(three_zones, service, routes(pods, "anywhere", {}))


@requirement(
    "KEP-3015/node-level-rolls-back-and-works-again",
    "When node-level topology is disabled, traffic goes to all endpoints, and when it is enabled again, node-level "
    "topology works again; no connection is lost.",
    level=MUST,
    features={NODE_LEVEL_ROUTING, ROLLOUT},
    source="KEP-3015 (2022), Feature Enablement and Rollback (it starts working again)",
    as_="kep",
    kills={"hints-new-endpoints-only"},
)
def test_gate_off_and_on_again(three_zones: Cluster) -> None:
    service, pods = _routed_by_node(three_zones)

    with expect_no_loss(three_zones, service, from_=CLIENTS, allowed=set(pods)):
        bring_to(three_zones, Skew(OFF, OFF, OFF))
        expect_traffic(three_zones, service, routes(pods, "anywhere", {}))
        bring_to(three_zones, Skew(ON, ON, ON))
        expect_node_hints(three_zones, service, *pods)
        expect_traffic(three_zones, service, routes(pods, "by node", {}))
