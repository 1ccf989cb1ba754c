"""KEP-2433 with existing hints: zones disappear, nodes without a zone or CPU appear, and endpoints change."""

from __future__ import annotations

import pytest

from conformance.features import TOPOLOGY_MODE
from conformance.kep_2433_topology_aware_hints.zones import (
    WEB,
    create_auto,
    create_pods,
    give_other_ports,
    hinted_for_own_zone,
    own_zones,
    size_zones,
    unhinted,
)
from trafficdist import (
    MUST,
    SHOULD,
    ZONE_LABEL,
    Cluster,
    Port,
    expect_hint_counts,
    expect_hints,
    expect_min_hint_counts,
    expect_writes,
    requirement,
)

HANDLING = "KEP-2433, Handling Node Updates"


@requirement(
    "KEP-2433/endpoints-for-a-zone-that-goes-serve-others",
    "When the last node of a zone is removed, endpoints in other zones that were hinted for that zone are hinted for "
    "zones with nodes.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{HANDLING} (a deleted Node results in a Service exceeding the overload threshold); Overload",
    kills={"deaf-to-nodes", "zone-outlives-its-nodes"},
)
def test_endpoints_for_a_zone_that_goes_serve_others(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, d=8)
    create_pods(three_zones, "aaabbb")
    service = create_auto(three_zones)
    expect_hint_counts(three_zones, service, {"a": 2, "b": 2, "d": 2})

    three_zones.nodes.delete("d1")
    expect_hint_counts(three_zones, service, {"a": 3, "b": 3})


@requirement(
    "KEP-2433/endpoints-for-a-zone-without-ready-nodes-serve-others",
    "When the last ready node of a zone becomes unready, endpoints in other zones that were hinted for that zone are "
    "hinted for zones with ready nodes.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{HANDLING}; Overload; released since 1.21 (nodes that are not ready do not count)",
    as_="released",
    kills={"counts-unready-nodes", "deaf-to-nodes"},
)
def test_endpoints_for_a_zone_without_ready_nodes_serve_others(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, d=8)
    create_pods(three_zones, "aaabbb")
    service = create_auto(three_zones)
    expect_hint_counts(three_zones, service, {"a": 2, "b": 2, "d": 2})

    three_zones.nodes.report("d1", ready=False)
    expect_hint_counts(three_zones, service, {"a": 3, "b": 3})


@requirement(
    "KEP-2433/first-zone-of-a-node-is-noticed",
    "When a ready node without a zone is added, the controller removes the hints of Services; once the node gets a "
    "zone label, hints return no later than the next slice write.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Identifying Zones; released since 1.28 (kubernetes PR#117245, kubernetes#123401)",
    as_="released",
    since="1.28",
    kills={"first-refusal-for-ever", "leaves-out-nodes-without-zone", "reads-zones-of-nodes-once"},
)
def test_first_zone_of_a_node_brings_hints_back(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("abc"))

    three_zones.nodes.create("x9", "", cpu_milli=1000)
    expect_hints(three_zones, service, unhinted("abc"))
    three_zones.nodes.label("x9", {ZONE_LABEL: "a"})
    give_other_ports(three_zones, service)
    expect_hints(three_zones, service, own_zones("abc"))


@requirement(
    "KEP-2433/node-of-unknown-size-changes-no-hint",
    "When all zones have the same number of cores, adding a node with unknown CPU capacity causes no slice write if "
    "afterwards all zones have the same number of nodes.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{HANDLING}; Controller Unit Tests: node without way to determine cores; Assumptions",
    as_="kep",
    kills={"takes-the-other-thresholds"},
)
def test_node_of_unknown_size_changes_no_hint(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "aabbcc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("aabbcc"))

    with expect_writes(three_zones, service, "a node of unknown size comes, and each zone has two nodes", at_most=0):
        three_zones.nodes.create("c9", "c", cpu_milli=0)
    expect_hints(three_zones, service, own_zones("aabbcc"))


@requirement(
    "KEP-2433/node-of-unknown-size-ends-hints",
    "When a node with unknown CPU capacity is added, the controller removes the hints of Services; once the node is "
    "removed, hints return no later than the next slice write.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, EndpointSlice Controller; released behaviour differs since 1.21",
    as_="released",
    instead_of="KEP-2433/node-of-unknown-size-changes-no-hint",
    kills={"deaf-to-nodes", "leaves-out-nodes-without-cpu", "takes-the-other-thresholds"},
)
def test_node_of_unknown_size_ends_hints(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "aabbcc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("aabbcc"))

    three_zones.nodes.create("c9", "c", cpu_milli=0)
    expect_hints(three_zones, service, unhinted("aabbcc"))
    three_zones.nodes.delete("c9")
    give_other_ports(three_zones, service)
    expect_hints(three_zones, service, own_zones("aabbcc"))


@requirement(
    "KEP-2433/own-zone-first-after-changes",
    "After endpoints are added or removed, and after the last node of a zone is removed, endpoints are hinted for "
    "their own zones, except for endpoints that exceed their zone's share.",
    level=SHOULD,  # a controller may keep slices unchanged within the threshold (Goals, minimize churn)
    features={TOPOLOGY_MODE},
    source="KEP-2433, Example (keeping endpoints in the same zone will be prioritized)",
    kills={"own-zone-first-at-first-only"},
)
@pytest.mark.parametrize("change", ["additions", "removals", "a node"])
def test_own_zone_comes_first_after_changes(three_zones: Cluster, change: str) -> None:
    zones = {"additions": "aab", "removals": "aaabbbccc", "a node": "aaabbb"}[change]
    sized = "abd" if change == "a node" else "abc"
    size_zones(three_zones, **dict.fromkeys(sized, 8))
    create_pods(three_zones, zones)
    service = create_auto(three_zones)
    expect_hint_counts(three_zones, service, dict.fromkeys(sized, len(zones) // 3))

    match change:
        case "additions":
            create_pods(three_zones, "cbc", first=4)
            zones, shared, own = "aabcbc", {"a": 2, "b": 2, "c": 2}, {"a": 2, "b": 2, "c": 2}
        case "removals":
            for name in ("p1", "p8", "p9"):
                three_zones.api.delete("pods", three_zones.namespace, name, grace_seconds=0)
            shared, own = {"a": 2, "b": 2, "c": 2}, {"a": 2, "b": 2, "c": 1}
        case _:
            three_zones.nodes.delete("d1")
            shared, own = {"a": 3, "b": 3}, {"a": 3, "b": 3}
    hinted = expect_hint_counts(three_zones, service, shared)
    what = f"endpoints of service {service.name} that are hinted for their own zone after {change}"
    three_zones.expect_equal(what, expected=own, observed=hinted_for_own_zone(zones, hinted))


PORTS = {8080: "aab", 9090: "aac", 9191: "abc"}
"""The zones of the pods with each target port number. Each port number has its own slice."""


def _create_slices(cluster: Cluster) -> None:
    places = [(zone, number) for number, zones in PORTS.items() for zone in zones]
    for count, (zone, number) in enumerate(places, 1):
        cluster.create_pod(f"p{count}", f"{zone}1", labels=WEB, container_ports=[("web", number, "TCP")])


@requirement(
    "KEP-2433/slices-that-overload-a-zone-together",
    "When each of several slices is within the overload threshold but together they overload a zone, for example "
    "after a node is removed, the controller allocates the endpoints to zones again.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Overload (less endpoints for a zone than a perfect distribution); Handling Node Updates, 1",
    kills={"deaf-to-nodes", "judges-each-slice-alone"},
)
def test_slices_that_overload_zones_together_are_shared_out(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    three_zones.nodes.create("a9", "a", cpu_milli=8000)
    _create_slices(three_zones)
    service = create_auto(three_zones, ports=[Port(80, target="web")])
    expect_min_hint_counts(three_zones, service, {"a": 4, "b": 2, "c": 2}, endpoints=9)

    three_zones.nodes.delete("a9")  # now each zone needs 3 endpoints, but the slices together hint 4, 2 and 2
    expect_hint_counts(three_zones, service, {"a": 3, "b": 3, "c": 3})
