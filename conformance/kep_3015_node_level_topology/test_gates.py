"""KEP-3015 (2022), Feature Enablement and Rollback: fields that the API server keeps, and effects of a rollout."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.features import API_SERVER_RELEASES, NODE_LEVEL_FIELD, NODE_LEVEL_ROUTING, ROLLOUT
from conformance.kep_3015_node_level_topology.daemon_sets import OFF, ON, WEB, adopt, choosing, expect_node_hints
from conformance.skew import CLIENTS, SERVERS, Skew, bring_to, expect_written, routes
from trafficdist import (
    API_SERVER,
    MUST,
    Cluster,
    Endpoint,
    Hints,
    Traffic,
    expect_no_loss,
    expect_traffic,
    expect_unchanged,
    manifests,
    requirement,
)

NODE, ZONE, BOTH = Hints(nodes=("a1",)), Hints(zones=("a",)), Hints(zones=("a",), nodes=("a1",))


def _write(cluster: Cluster, name: str, hints: Sequence[Hints], *, anew: bool = True) -> None:
    endpoints = [
        Endpoint({"IPv4": f"10.244.1.{number}"}, node="a1", zone="a", hints=each)
        for number, each in enumerate(hints, 1)
    ]
    write = cluster.api.create if anew else cluster.api.replace
    write("endpointslices", cluster.namespace, manifests.endpoint_slice(name, "web", endpoints))


def _expect_stored(cluster: Cluster, name: str, *hints: Hints | None) -> None:
    stored = cluster.api.get("endpointslices", cluster.namespace, name)["endpoints"]
    cluster.expect_equal(
        f"hints of slice {name}, read back",
        expected=[each and each.manifest() for each in hints],
        observed=[each.get("hints") or None for each in stored],
    )


@requirement(
    "KEP-3015/node-level-api-stores-node-hints",
    "With the NodeLevelTopology gate enabled, node hints are stored, with or without zone hints.",
    level=MUST,
    features={NODE_LEVEL_FIELD, API_SERVER_RELEASES},
    source="KEP-3015 (2022), Scalability (it might add a new field to EndpointSliceHints)",
    as_="kep",
    kills={"stores-no-node-level-hints"},
)
def test_node_hints_are_stored(three_zones: Cluster) -> None:
    three_zones.restart(API_SERVER, ON)
    _write(three_zones, "new", [NODE, BOTH, ZONE])
    _expect_stored(three_zones, "new", NODE, BOTH, ZONE)


@requirement(
    "KEP-3015/node-level-api-gate-off-drops-node-hints",
    "With the NodeLevelTopology gate disabled, the API server drops node hints from every slice that is created or "
    "updated, and keeps zone hints.",
    level=MUST,
    features={NODE_LEVEL_FIELD, API_SERVER_RELEASES},
    source="KEP-3015 (2022), Feature Enablement and Rollback (components depending on the feature gate)",
    as_="kep",
    kills={"newest-api-server-at-any-release", "drops-zone-hints-too"},
)
def test_node_hints_are_dropped_while_the_gate_is_off(three_zones: Cluster) -> None:
    three_zones.restart(API_SERVER, ON)
    _write(three_zones, "stored", [BOTH])
    three_zones.restart(API_SERVER, OFF)
    _write(three_zones, "new", [NODE, BOTH])
    _expect_stored(three_zones, "new", None, ZONE)
    _write(three_zones, "stored", [BOTH, BOTH], anew=False)
    _expect_stored(three_zones, "stored", ZONE, ZONE)


# The whole cluster


@requirement(
    "KEP-3015/node-level-manual-rollout-changes-nothing",
    "When the NodeLevelTopology gate is enabled with the manual approach to node-level topology, hints and traffic of "
    "Services without the topology annotation do not change, and no connection is lost.",
    level=MUST,
    features={NODE_LEVEL_ROUTING, ROLLOUT},
    source="KEP-3015 (2022), Rollout, Upgrade and Rollback Planning (should have no effect at all)",
    as_="kep",
    kills={"node-level-unasked", "rewrites-slices-at-any-start"},
)
def test_manual_rollout_changes_nothing(three_zones: Cluster) -> None:
    bring_to(three_zones, Skew(OFF, OFF, OFF))
    service = three_zones.create_service(selector=WEB)
    pods = three_zones.run_servers(SERVERS, labels=WEB)
    expected = routes(pods, "anywhere", expect_written(three_zones, service, pods, "none"))
    expect_traffic(three_zones, service, expected)

    with (
        expect_unchanged(three_zones, service),
        expect_no_loss(three_zones, service, from_=CLIENTS, allowed=set(pods)),
    ):
        bring_to(three_zones, Skew(ON, choosing("manual"), ON))
        expect_traffic(three_zones, service, expected)


@requirement(
    "KEP-3015/node-level-automatic-rollout",
    "When the NodeLevelTopology gate is enabled with the automatic approach to node-level topology, Services that meet "
    "the criteria get node-level topology without further changes, and other Services do not; no connection is lost.",
    level=MUST,
    features={NODE_LEVEL_ROUTING, ROLLOUT},
    source="KEP-3015 (2022), Upgrade / Downgrade Strategy; Rollout, Upgrade and Rollback Planning",
    as_="kep",
    kills={"knows-no-node-level-topology", "any-daemon-set-will-do"},
    fixes={"targets=lacking": "the further pod has another owner"},
)
def test_automatic_rollout_is_for_suitable_services(three_zones: Cluster) -> None:
    bring_to(three_zones, Skew(OFF, OFF, OFF))
    suitable, other = (three_zones.create_service(selector={"app": name}) for name in ("dns", "web"))
    agents = three_zones.run_servers(["a1", "a2", "b1", "b2", "c1"], labels={"app": "dns"})
    servers = a1, b1 = three_zones.run_servers(["a1", "b1"], labels={"app": "web"})
    adopt(three_zones, [pod.name for pod in agents])
    adopt(three_zones, [a1.name])
    adopt(three_zones, [b1.name], "other")
    expect_traffic(three_zones, suitable, {"a1": set(agents)})

    anywhere: Traffic = {"a1": set(servers), "c1": set(servers)}
    with (
        expect_no_loss(three_zones, suitable, from_=["a1", "c1"], allowed=set(agents)),
        expect_unchanged(three_zones, other),
    ):
        bring_to(three_zones, Skew(ON, choosing("automatic:daemonset"), ON))
        expect_node_hints(three_zones, suitable, *agents)
        expect_traffic(three_zones, suitable, {pod.node: {pod} for pod in agents})
        expect_traffic(three_zones, other, anywhere)
