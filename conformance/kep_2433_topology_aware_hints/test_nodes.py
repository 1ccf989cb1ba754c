"""KEP-2433, Assumptions: the nodes whose cores count for a zone. Some rules come only from released controllers."""

from __future__ import annotations

import pytest

from conformance.features import TOPOLOGY_MODE
from conformance.kep_2433_topology_aware_hints.zones import (
    create_auto,
    create_pods,
    own_zones,
    size_zones,
    unhinted,
)
from trafficdist import (
    MAY,
    MUST,
    SHOULD,
    Cluster,
    expect_hint_counts,
    expect_hints,
    expect_min_hint_counts,
    requirement,
)

HUGE = 64_000
"""Enough millicores for a zone to need all three endpoints."""


@requirement(
    "KEP-2433/control-plane-nodes-do-not-count",
    "The allocation of endpoints to zones ignores the CPU cores of control plane nodes, and zones that have only such "
    "nodes.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Assumptions (incoming traffic is proportional to cores); Kubernetes, Topology Aware Routing, "
    "Constraints (ignores nodes with the label set)",
    since="1.23",
    kills={"counts-control-plane-nodes", "control-plane-labels-have-no-value"},
)
@pytest.mark.parametrize("role", ["control-plane", "master"])
@pytest.mark.parametrize("value", ["", "true"], ids=["no value", "true"])
@pytest.mark.parametrize("zone", ["a", "d"])
def test_control_plane_nodes_do_not_count(three_zones: Cluster, role: str, value: str, zone: str) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    three_zones.nodes.create(f"{zone}9", zone, cpu_milli=HUGE, labels={f"node-role.kubernetes.io/{role}": value})
    create_pods(three_zones, "abc")

    expect_hints(three_zones, create_auto(three_zones), own_zones("abc"))


@requirement(
    "KEP-2433/unready-nodes-do-not-count",
    "The allocation of endpoints to zones ignores the CPU cores of unready nodes, whether or not such a node has a "
    "zone.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Assumptions; Kubernetes, Topology Aware Routing, Constraints (ignores any nodes that aren't "
    "ready)",
    kills={"counts-nodes-of-unknown-readiness", "counts-unready-nodes"},
)
@pytest.mark.parametrize("zone", ["a", "d", ""], ids=["a", "d", "no zone"])
def test_unready_nodes_do_not_count(three_zones: Cluster, zone: str) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    three_zones.nodes.create("x9", zone, cpu_milli=HUGE, ready=False)
    three_zones.nodes.create("y9", zone, cpu_milli=HUGE, ready=False)
    three_zones.nodes.report("y9", ready="Unknown")
    create_pods(three_zones, "abc")

    expect_hints(three_zones, create_auto(three_zones), own_zones("abc"))


@requirement(
    "KEP-2433/one-node-without-zone-ends-hints",
    "While at least one ready node has no zone, no Service gets hints.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Identifying Zones; released since 1.21",
    as_="released",
    kills={"counts-nodes-without-zone-as-a-zone", "leaves-out-nodes-without-zone"},
)
@pytest.mark.parametrize("zones", ["abc", "aaaabbbbcccc"])  # fewer and more endpoints than zones, if "" were a zone
def test_one_node_without_zone_ends_hints(three_zones: Cluster, zones: str) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    three_zones.nodes.create("x9", "", cpu_milli=8000)
    create_pods(three_zones, zones)

    expect_hints(three_zones, create_auto(three_zones), unhinted(zones))


def _one_node_of_unknown_size(cluster: Cluster, *, largest: int) -> None:
    cpus = {"a1": largest, "a2": 1000, "b1": 1000, "b2": 1000, "c1": 0}
    for name, cpu_milli in cpus.items():
        cluster.nodes.report(name, cpu_milli=cpu_milli, ready=False)
    for name in cpus:
        cluster.nodes.report(name, ready=True)


@requirement(
    "KEP-2433/unknown-cores-treat-all-nodes-equally",
    "When every other node has one core, a node with unknown CPU capacity counts as a node with one core.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Controller Unit Tests: node without way to determine cores; Assumptions (the number of nodes in "
    "that zone); EndpointSlice Controller (1 core per node)",
    as_="kep",
    kills={"takes-the-other-thresholds", "leaves-out-nodes-without-cpu"},
)
def test_all_nodes_are_equal_where_cores_are_not_known(three_zones: Cluster) -> None:
    # The three passages of the KEP agree for nodes of equal size, and differ for larger nodes.
    _one_node_of_unknown_size(three_zones, largest=1000)
    create_pods(three_zones, "aaabb")

    expect_hint_counts(three_zones, create_auto(three_zones), {"a": 2, "b": 2, "c": 1})


@requirement(
    "KEP-2433/unknown-cores-end-hints",
    "When the CPU capacity of one node is unknown, no Service gets hints.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, EndpointSlice Controller; released behaviour differs since 1.21",
    as_="released",
    instead_of="KEP-2433/unknown-cores-treat-all-nodes-equally",
    kills={"takes-the-other-thresholds", "leaves-out-nodes-without-cpu"},
)
def test_no_hints_where_cores_are_not_known(three_zones: Cluster) -> None:
    _one_node_of_unknown_size(three_zones, largest=16_000)
    create_pods(three_zones, "aaabb")

    expect_hints(three_zones, create_auto(three_zones), unhinted("aaabb"))


def _lose_the_nodes_of_zone_c(cluster: Cluster) -> None:
    size_zones(cluster, a=8, b=8, c=8)
    cluster.nodes.report("c1", ready=False)
    create_pods(cluster, "aabbcc")


@requirement(
    "KEP-2433/endpoints-of-a-zone-without-nodes-serve-others",
    "Endpoints in a zone without ready nodes are hinted for zones that have ready nodes.",
    level=SHOULD,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Example (taken from zones that have excess capacity); Overload",
    as_="kep",
    kills={"copies-the-own-zone", "takes-the-other-thresholds"},
)
def test_endpoints_of_a_zone_without_nodes_serve_others(three_zones: Cluster) -> None:
    _lose_the_nodes_of_zone_c(three_zones)

    expect_min_hint_counts(three_zones, create_auto(three_zones), {"a": 3, "b": 3}, endpoints=6)


@requirement(
    "KEP-2433/endpoints-of-a-zone-without-nodes-keep-it",
    "All endpoints are hinted for their own zones, including endpoints in a zone without ready nodes.",
    level=MAY,  # this is only what releases do: a controller may also hint them for zones with nodes
    features={TOPOLOGY_MODE},
    source="KEP-2433, Example; released behaviour differs since 1.21",
    as_="released",
    instead_of="KEP-2433/endpoints-of-a-zone-without-nodes-serve-others",
    kills={"takes-the-other-thresholds"},
)
def test_endpoints_of_a_zone_without_nodes_keep_it(three_zones: Cluster) -> None:
    _lose_the_nodes_of_zone_c(three_zones)

    expect_hints(three_zones, create_auto(three_zones), own_zones("aabbcc"))
