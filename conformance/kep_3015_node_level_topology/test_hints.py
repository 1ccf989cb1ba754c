"""KEP-3015 (2022), the controller: it selects the Services for node-level topology and writes their hints."""

from __future__ import annotations

import pytest

from conformance.features import (
    MINIMAL_API_CALLS,
    NODE_LEVEL_AUTOMATIC,
    NODE_LEVEL_BY_DAEMON_SET,
    NODE_LEVEL_BY_NODES,
    NODE_LEVEL_MANUAL,
    NODE_LEVEL_OPT_IN,
    NODE_LEVEL_OPT_OUT,
)
from conformance.kep_3015_node_level_topology.daemon_sets import (
    ASKED,
    KEY,
    OFF,
    WEB,
    adopt,
    choosing,
    create_pods,
    expect_node_hints,
)
from trafficdist import (
    CONTROLLER,
    MUST,
    SHOULD,
    Cluster,
    Hints,
    expect_hints,
    expect_unchanged,
    requirement,
)

ALL = ("a1", "a2", "b1", "b2", "c1")

# The manual approach


@requirement(
    "KEP-3015/node-level-by-annotation",
    "With the manual approach to node-level topology, endpoints of a Service whose topology annotation is Node are "
    "hinted for their nodes, and endpoints of other Services are not.",
    level=MUST,
    features={NODE_LEVEL_MANUAL},
    source="KEP-3015 (2022), Approach 1: Manual",
    as_="kep",
    kills={"knows-no-node-level-topology", "node-level-unasked"},
)
def test_service_that_says_node_has_node_hints(three_zones: Cluster) -> None:
    three_zones.restart(CONTROLLER, choosing("manual"))
    asking = three_zones.create_service(selector=WEB, annotations=ASKED)
    others = [three_zones.create_service(selector=WEB, annotations=each) for each in ({}, {KEY: "Disabled"})]
    create_pods(three_zones, *ALL)

    expect_node_hints(three_zones, asking, *ALL)
    for other in others:
        expect_node_hints(three_zones, other, *ALL, hinted=False)


@requirement(
    "KEP-3015/node-level-goes-with-the-annotation",
    "With the manual approach to node-level topology, node hints are removed when the topology annotation is removed "
    "from an existing Service, and return when the annotation is set again.",
    level=MUST,
    features={NODE_LEVEL_MANUAL},
    source="KEP-3015 (2022), Approach 1: Manual",
    as_="kep",
    kills={"node-level-for-ever"},
)
def test_node_hints_go_and_come_with_the_annotation(three_zones: Cluster) -> None:
    three_zones.restart(CONTROLLER, choosing("manual"))
    service = three_zones.create_service(selector=WEB, annotations=ASKED)
    create_pods(three_zones, "a1", "b1")
    expect_node_hints(three_zones, service, "a1", "b1")
    for value in (None, "Node"):
        three_zones.patch_service(service, {"metadata": {"annotations": {KEY: value}}})
        expect_node_hints(three_zones, service, "a1", "b1", hinted=value is not None)


@requirement(
    "KEP-3015/node-level-keeps-other-hints",
    "With node-level topology, endpoints have node hints in addition to the zone hints that they would have without "
    "node-level topology.",
    level=MUST,
    features={NODE_LEVEL_MANUAL},
    source="KEP-3015 (2022), Applying Node-Level Topology (the same rules as would have been used)",
    as_="kep",
    kills={"node-level-replaces-other-hints"},
)
def test_zone_hints_stay_beside_node_hints(three_zones: Cluster) -> None:
    three_zones.restart(CONTROLLER, choosing("manual"))
    service = three_zones.create_service(selector=WEB, annotations=ASKED, traffic_distribution="PreferClose")
    create_pods(three_zones, "a1", "b1")

    both = {node: Hints(zones=(node[0],), nodes=(node,)) for node in ("a1", "b1")}
    expect_hints(three_zones, service, both)


@requirement(
    "KEP-3015/node-level-settled-service-is-not-written-again",
    "With node-level topology, a change to a Service that does not affect its endpoints causes no slice write.",
    level=SHOULD,
    must_if=MINIMAL_API_CALLS,
    features={NODE_LEVEL_MANUAL},
    source="KEP-3015 (2022), Scalability (no new API calls)",
    as_="kep",
    kills={"rewrites-node-hints"},
)
def test_slices_with_node_hints_are_not_written_without_need(three_zones: Cluster) -> None:
    three_zones.restart(CONTROLLER, choosing("manual"))
    service = three_zones.create_service(selector=WEB, annotations=ASKED)
    create_pods(three_zones, "a1", "b1")
    expect_node_hints(three_zones, service, "a1", "b1")

    with expect_unchanged(three_zones, service):
        three_zones.patch_service(service, {"metadata": {"annotations": {"example.org/note": "changes no endpoint"}}})


@requirement(
    "KEP-3015/node-level-controller-gate-off-writes-none",
    "With the NodeLevelTopology gate disabled, a controller writes no node hints for a Service whose topology "
    "annotation is Node.",
    level=MUST,
    features={NODE_LEVEL_MANUAL},
    source="KEP-3015 (2022), Feature Enablement and Rollback (components depending on the feature gate)",
    as_="kep",
    kills={"node-level-without-its-gate"},
)
def test_no_node_hints_while_the_gate_is_off(three_zones: Cluster) -> None:
    three_zones.restart(CONTROLLER, OFF)
    service = three_zones.create_service(selector=WEB, annotations=ASKED)
    create_pods(three_zones, "a1", "b1")
    expect_node_hints(three_zones, service, "a1", "b1", hinted=False)


# The automatic approach


@requirement(
    "KEP-3015/node-level-on-nearly-every-node",
    "With the automatic approach to node-level topology, a Service without the topology annotation has node hints "
    "while no more than the configured number or percentage of nodes lack an endpoint.",
    level=MUST,
    features={NODE_LEVEL_AUTOMATIC, NODE_LEVEL_BY_NODES},
    source="KEP-3015 (2022), Approach 2: Automatic (no more than N or N% of nodes are missing an endpoint)",
    as_="kep",
    kills={"knows-no-node-level-topology", "one-missing-node-too-many", "percentage-as-number"},
    fixes={"bystanders": "the sentence is about all nodes"},
)
@pytest.mark.parametrize("allowed", ["1", "20%", "39%"])
def test_service_on_nearly_every_node_has_node_hints(three_zones: Cluster, allowed: str) -> None:
    three_zones.restart(CONTROLLER, choosing(f"automatic:missing={allowed}"))
    service = three_zones.create_service(selector=WEB)
    create_pods(three_zones, *ALL[:3])
    expect_node_hints(three_zones, service, *ALL[:3], hinted=False)
    create_pods(three_zones, ALL[3])
    expect_node_hints(three_zones, service, *ALL[:4])


@requirement(
    "KEP-3015/node-level-follows-the-nodes",
    "With the automatic approach to node-level topology, node hints are removed when a node without an endpoint is "
    "added and the number of such nodes exceeds the configured limit; when that node is removed, node hints return.",
    level=MUST,
    features={NODE_LEVEL_AUTOMATIC, NODE_LEVEL_BY_NODES},
    source="KEP-3015 (2022), Approach 2: Automatic (an endpoint on every node)",
    as_="kep",
    kills={"counts-nodes-once"},
    fixes={"bystanders": "the sentence is about all nodes"},
)
def test_node_hints_follow_the_nodes(three_zones: Cluster) -> None:
    three_zones.restart(CONTROLLER, choosing("automatic:missing=0"))
    service = three_zones.create_service(selector=WEB)
    create_pods(three_zones, *ALL)
    expect_node_hints(three_zones, service, *ALL)
    three_zones.nodes.create("c2", "c")
    expect_node_hints(three_zones, service, *ALL, hinted=False)
    three_zones.nodes.delete("c2")
    expect_node_hints(three_zones, service, *ALL)


@requirement(
    "KEP-3015/node-level-of-one-daemon-set",
    "With the automatic approach to node-level topology, a Service has node hints while all its pods belong to the "
    "same DaemonSet.",
    level=MUST,
    features={NODE_LEVEL_AUTOMATIC, NODE_LEVEL_BY_DAEMON_SET},
    source="KEP-3015 (2022), Approach 2: Automatic (an OwnerReference pointing to the same DaemonSet)",
    as_="kep",
    kills={"any-daemon-set-will-do", "one-pod-of-a-daemon-set-will-do"},
    fixes={"beside": "the sentence is about all pods", "targets=lacking": "the further pod has another owner"},
)
def test_pods_of_one_daemon_set_have_node_hints(three_zones: Cluster) -> None:
    three_zones.restart(CONTROLLER, choosing("automatic:daemonset"))
    service = three_zones.create_service(selector=WEB)
    create_pods(three_zones, "a1", "b1", "c1")
    adopt(three_zones, ["a1", "b1"])
    expect_node_hints(three_zones, service, "a1", "b1", "c1", hinted=False)
    adopt(three_zones, ["c1"])
    expect_node_hints(three_zones, service, "a1", "b1", "c1")
    adopt(three_zones, ["c1"], "other")
    expect_node_hints(three_zones, service, "a1", "b1", "c1", hinted=False)


@requirement(
    "KEP-3015/node-level-needs-all-criteria",
    "With the automatic approach to node-level topology, a Service has node hints only while it meets all configured "
    "criteria.",
    level=MUST,
    features={NODE_LEVEL_AUTOMATIC, NODE_LEVEL_BY_DAEMON_SET, NODE_LEVEL_BY_NODES},
    source="KEP-3015 (2022), Approach 2: Automatic (if all relevant criteria are met)",
    as_="kep",
    kills={"one-criterion-suffices"},
    fixes={
        "beside": "the sentence is about all pods",
        "bystanders": "the sentence is about all nodes",
        "targets=lacking": "the further pod has another owner",
    },
)
def test_all_criteria_must_be_met(three_zones: Cluster) -> None:
    three_zones.restart(CONTROLLER, choosing("automatic:missing=1,daemonset"))
    service = three_zones.create_service(selector=WEB)
    create_pods(three_zones, *ALL[:3])
    adopt(three_zones, ALL[:3])
    expect_node_hints(three_zones, service, *ALL[:3], hinted=False)
    create_pods(three_zones, ALL[3])
    expect_node_hints(three_zones, service, *ALL[:4], hinted=False)
    adopt(three_zones, [ALL[3]])
    expect_node_hints(three_zones, service, *ALL[:4])


# The semi-automatic approach


@requirement(
    "KEP-3015/node-level-opt-in",
    "With the semi-automatic (opt-in) approach to node-level topology, a Service has node hints only if it has the "
    "topology annotation and meets the criteria.",
    level=MUST,
    features={NODE_LEVEL_OPT_IN, NODE_LEVEL_BY_NODES},
    source="KEP-3015 (2022), Approach 3: Semi-Automatic or Automatic-With-Opt-Out",
    as_="kep",
    kills={"opt-in-asks-nobody", "opt-in-looks-at-no-endpoint"},
    fixes={"bystanders": "the sentence is about all nodes"},
)
def test_annotated_services_are_looked_at(three_zones: Cluster) -> None:
    three_zones.restart(CONTROLLER, choosing("opt-in:missing=1"))
    asking = three_zones.create_service(selector=WEB, annotations=ASKED)
    silent = three_zones.create_service(selector=WEB)
    create_pods(three_zones, *ALL[:3])
    expect_node_hints(three_zones, asking, *ALL[:3], hinted=False)
    create_pods(three_zones, ALL[3])
    expect_node_hints(three_zones, asking, *ALL[:4])
    expect_node_hints(three_zones, silent, *ALL[:4], hinted=False)


@requirement(
    "KEP-3015/node-level-opt-out",
    "With the automatic approach to node-level topology with opt-out, a Service that meets the criteria has node hints "
    "unless its topology annotation is set.",
    level=MUST,
    features={NODE_LEVEL_OPT_OUT, NODE_LEVEL_BY_NODES},
    source="KEP-3015 (2022), Approach 3: Semi-Automatic or Automatic-With-Opt-Out",
    as_="kep",
    kills={"opt-out-is-ignored", "knows-no-node-level-topology"},
    fixes={"bystanders": "the sentence is about all nodes"},
)
def test_annotated_services_are_left_alone(three_zones: Cluster) -> None:
    three_zones.restart(CONTROLLER, choosing("opt-out:missing=1"))
    silent = three_zones.create_service(selector=WEB)
    out = three_zones.create_service(selector=WEB, annotations={KEY: "Disabled"})
    create_pods(three_zones, *ALL[:4])
    expect_node_hints(three_zones, silent, *ALL[:4])
    expect_node_hints(three_zones, out, *ALL[:4], hinted=False)
    three_zones.patch_service(out, {"metadata": {"annotations": {KEY: None}}})
    expect_node_hints(three_zones, out, *ALL[:4])
