"""KEP-2433, Handling Node Updates and Overload: node events cause slice writes only if a threshold is crossed.

Added and removed nodes exist only in the API. Each event has its own `expect_writes` block, so the report contains the
number of writes per event. If the KEP requires no write, any write is a failure. If the KEP requires new hints, a
separate requirement limits the number of writes.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from conformance.features import MINIMAL_API_CALLS, TOPOLOGY_MODE
from conformance.kep_2433_topology_aware_hints.zones import (
    WEB,
    ZONE,
    create_auto,
    create_pods,
    give_other_ports,
    own_zones,
    size_zones,
    touch,
    unhinted,
)
from trafficdist import (
    MUST,
    SHOULD,
    Cluster,
    Port,
    Service,
    expect_hint_counts,
    expect_hints,
    expect_min_hint_counts,
    expect_writes,
    requirement,
)

HANDLING = "KEP-2433, Handling Node Updates"


@requirement(
    "KEP-2433/removal-below-the-threshold-writes-nothing",
    "Removing a node causes no slice write if no zone becomes overloaded.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Controller Unit Tests: node removal that does not trigger threshold transition",
    kills={"rewrites-at-node-events"},
)
def test_removal_below_the_threshold_writes_nothing(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    three_zones.nodes.create("a9", "a", cpu_milli=1000)
    create_pods(three_zones, "abc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("abc"))

    with expect_writes(three_zones, service, "a node goes and zone a is overloaded by 0 instead of 8 %", at_most=0):
        three_zones.nodes.delete("a9")


@requirement(
    "KEP-2433/node-that-comes-and-goes-writes-nothing",
    "Adding and removing a node, in any zone, causes no slice write if no zone becomes overloaded.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{HANDLING} (only in a transition above or below the threshold); Goals (minimize churn)",
    kills={"rewrites-at-node-events"},
)
def test_node_that_comes_and_goes_writes_nothing(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "aaabbc")
    service = create_auto(three_zones)
    expect_hint_counts(three_zones, service, {"a": 2, "b": 2, "c": 2})

    for zone in "abca":
        with expect_writes(three_zones, service, f"a node comes in zone {zone}, and 8 % overload", at_most=0):
            three_zones.nodes.create("x9", zone, cpu_milli=1000)
        with expect_writes(three_zones, service, f"a node goes in zone {zone}", at_most=0):
            three_zones.nodes.delete("x9")


@requirement(
    "KEP-2433/removal-that-overloads-shares-out-anew",
    "When the removal or addition of a node leaves a zone overloaded, endpoints are allocated to zones again so that "
    "no zone is overloaded.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Controller Unit Tests: node removal that triggers threshold transition; Overload",
    kills={"deaf-to-nodes"},
)
def test_removal_that_overloads_shares_out_anew(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    three_zones.nodes.create("a9", "a", cpu_milli=8000)
    create_pods(three_zones, "aaaaabbcc")  # the ideal shares are 4.5, 2.25 and 2.25, so 4, 2 and 2 endpoints suffice
    service = create_auto(three_zones)
    expect_min_hint_counts(three_zones, service, {"a": 4, "b": 2, "c": 2}, endpoints=9)

    with expect_writes(three_zones, service, "a node goes and zones b and c would be overloaded by 50 %"):
        three_zones.nodes.delete("a9")
        expect_hint_counts(three_zones, service, {"a": 3, "b": 3, "c": 3})
    # The ideal shares are 6, 1.5 and 1.5: zones b and c have too many endpoints, so released controllers also write.
    # With 24 cores, 5 endpoints would be overloaded by exactly 20 %, where rounding decides.
    with expect_writes(three_zones, service, "a larger node comes and zone a would be overloaded by 100 %"):
        three_zones.nodes.create("a9", "a", cpu_milli=23_990)
        expect_hint_counts(three_zones, service, {"a": 5, "b": 2, "c": 2})


@requirement(
    "KEP-2433/removal-that-overloads-ends-hints",
    "When a node is removed and every allocation of endpoints would then overload a zone, hints are removed.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{HANDLING}, 1; Overload (if this is impossible, hints will be removed)",
    kills={"deaf-to-nodes", "never-withdraws"},
)
def test_removal_that_overloads_ends_hints(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    three_zones.nodes.create("a9", "a", cpu_milli=8000)
    create_pods(three_zones, "aabc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("aabc"))

    with expect_writes(three_zones, service, "a node goes and a zone is overloaded by 33 %"):
        three_zones.nodes.delete("a9")
        expect_hints(three_zones, service, unhinted("aabc"))


@requirement(
    "KEP-2433/addition-that-overloads-ends-hints",
    "When a node is added and every allocation of endpoints would then overload the node's zone, hints are removed.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{HANDLING} (a node addition or removal)",
    kills={"deaf-to-nodes", "never-withdraws"},
)
@pytest.mark.parametrize("zone", ["a", "d"])
def test_addition_that_overloads_ends_hints(three_zones: Cluster, zone: str) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("abc"))

    with expect_writes(three_zones, service, f"a node comes in zone {zone}, and three endpoints are too few"):
        three_zones.nodes.create("x9", zone, cpu_milli=8000)
        expect_hints(three_zones, service, unhinted("abc"))


@requirement(
    "KEP-2433/addition-that-makes-hints-possible-gives-them",
    "When a new node brings the overload below 20 % for the first time, endpoints get hints.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{HANDLING}, 2",
    as_="kep",
    kills={"deaf-to-nodes", "first-refusal-for-ever"},
)
def test_addition_that_makes_hints_possible_gives_them(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "aabc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, unhinted("aabc"))

    with expect_writes(three_zones, service, "a node comes and four endpoints are enough"):
        three_zones.nodes.create("a9", "a", cpu_milli=8000)
        expect_hints(three_zones, service, own_zones("aabc"))


@requirement(
    "KEP-2433/hints-that-became-possible-come-with-the-next-change",
    "When a new node makes hints possible, endpoints get hints no later than the next slice write.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{HANDLING}, 2; released behaviour differs since 1.21 (kubernetes#123401)",
    as_="released",
    instead_of="KEP-2433/addition-that-makes-hints-possible-gives-them",
    kills={"first-refusal-for-ever"},
)
def test_hints_that_became_possible_come_with_the_next_change(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "aabc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, unhinted("aabc"))

    three_zones.nodes.create("a9", "a", cpu_milli=8000)
    give_other_ports(three_zones, service)
    expect_hints(three_zones, service, own_zones("aabc"))


@requirement(
    "KEP-2433/readiness-of-nodes-is-noticed",
    "When endpoints are allocated to zones, a node that becomes unready counts as removed.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{HANDLING} (as nodes are added or removed); released since 1.21",
    as_="released",
    kills={"counts-unready-nodes", "deaf-to-nodes"},
)
def test_node_that_is_no_longer_ready_counts_as_gone(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    three_zones.nodes.create("a9", "a", cpu_milli=8000)
    create_pods(three_zones, "aabc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("aabc"))

    with expect_writes(three_zones, service, "a node is no longer ready and a zone is overloaded by 33 %"):
        three_zones.nodes.report("a9", ready=False)
        expect_hints(three_zones, service, unhinted("aabc"))


@requirement(
    "KEP-2433/zone-of-a-node-is-noticed",
    "When endpoints are allocated to zones, a node whose zone label changes counts for the new zone.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{HANDLING}; Identifying Zones; released since 1.28 (kubernetes PR#117245)",
    as_="released",
    kills={"deaf-to-nodes"},
)
def test_node_with_another_zone_label_counts_for_that_zone(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    three_zones.nodes.create("a9", "a", cpu_milli=8000)
    create_pods(three_zones, "aabc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("aabc"))

    with expect_writes(three_zones, service, "a node moves and zone b would be overloaded by 100 %"):
        three_zones.nodes.move("a9", "b")
        expect_hint_counts(three_zones, service, {"a": 1, "b": 2, "c": 1})


@requirement(
    "KEP-2433/slices-that-are-right-are-not-written",
    "When one slice of a Service with hints changes, the controller does not write other slices of the Service that "
    "need no change.",
    level=SHOULD,
    must_if=MINIMAL_API_CALLS,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Goals (minimize churn of EndpointSlices while doing topology aware distribution)",
    kills={"rewrites-slices-that-stand"},
)
def test_slices_that_are_right_are_not_written(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    for number, zone in enumerate("abcabcabc"):
        port = ("web", 8080 + number // 3, "TCP")  # each port number has its own slice
        three_zones.create_pod(f"p{number + 1}", f"{zone}1", labels=WEB, container_ports=[port])
    service = create_auto(three_zones, ports=[Port(80, target="web")])
    expect_hints(three_zones, service, own_zones("abcabcabc"))

    others = _versions_without(three_zones, service, port=8080)
    with expect_writes(three_zones, service, "one endpoint of ten comes, with the port of three others"):
        three_zones.create_pod("p10", "a1", labels=WEB, container_ports=[("web", 8080, "TCP")])
        expect_hints(three_zones, service, {**own_zones("abcabcabc"), "p10": ZONE["a"]})
    three_zones.expect_equal(
        f"resource versions of the slices of service {service.name} with other ports",
        expected=others,
        observed=_versions_without(three_zones, service, port=8080),
    )


def _versions_without(cluster: Cluster, service: Service, *, port: int) -> dict[str, str]:
    return {
        each["metadata"]["name"]: each["metadata"]["resourceVersion"]
        for each in cluster.slices(service)
        if port not in [every["port"] for every in each.get("ports") or ()]
    }


@requirement(
    "KEP-2433/node-event-writes-each-slice-once",
    "When the removal of a node changes the hints of a Service, the controller writes each slice of the Service at "
    "most once.",
    level=SHOULD,
    must_if=MINIMAL_API_CALLS,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Goals (minimize churn of EndpointSlices while doing topology aware distribution)",
    kills={"writes-every-slice-twice"},
)
def test_node_event_writes_each_slice_once(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    three_zones.nodes.create("a9", "a", cpu_milli=8000)
    create_pods(three_zones, "aaaaabbcc")
    service = create_auto(three_zones)
    expect_min_hint_counts(three_zones, service, {"a": 4, "b": 2, "c": 2}, endpoints=9)

    slices = len(three_zones.slices(service))
    with expect_writes(three_zones, service, "a node goes and endpoints are shared out anew", at_most=slices):
        three_zones.nodes.delete("a9")
        expect_hint_counts(three_zones, service, {"a": 3, "b": 3, "c": 3})


# Thresholds. There are three endpoints, one per zone. Zone a has 8 + n of 24 + n cores, which determines its overload.

OVERLOAD = {0: 0, 2: 15, 3: 22, 4: 29, 5: 34}  # overload of zone a in per cent, by the number of additional cores


def _grow(cluster: Cluster, cores: int) -> None:
    """Set the number of additional cores in zone a, by adding or removing single-core nodes one by one."""
    now = {each["metadata"]["name"] for each in cluster.api.list("nodes")}
    wanted = {f"a{number}" for number in range(10, 10 + cores)}
    for name in sorted(wanted - now):
        cluster.nodes.create(name, "a", cpu_milli=1000)
    for name in sorted({each for each in now if each.startswith("a") and len(each) == 3} - wanted):
        cluster.nodes.delete(name)


def _expect_steady(cluster: Cluster, service: Service, trace: Iterable[int]) -> None:
    for cores in trace:
        with expect_writes(cluster, service, f"the overload becomes {OVERLOAD[cores]} %", at_most=0):
            _grow(cluster, cores)


def _expect_flip(cluster: Cluster, service: Service, cores: int, *, hinted: bool) -> None:
    with expect_writes(cluster, service, f"the overload becomes {OVERLOAD[cores]} % and hints change"):
        _grow(cluster, cores)
        expect_hints(cluster, service, own_zones("abc") if hinted else unhinted("abc"))


@requirement(
    "KEP-2433/nothing-flips-between-the-thresholds",
    "Between 20 and 30 % overload, adding or removing nodes neither adds hints to Services nor removes them; above 30 "
    "% hints are removed, and below 20 % they are added.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Overload (this difference exists to prevent flapping between approaches)",
    as_="kep",
    kills={"takes-the-other-thresholds", "never-withdraws"},
)
def test_nothing_flips_between_the_thresholds(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("abc"))

    _expect_steady(three_zones, service, (2, 3, 4, 3, 2, 3, 4))
    _expect_flip(three_zones, service, 5, hinted=False)
    _expect_steady(three_zones, service, (4, 3, 5, 4, 3))
    _expect_flip(three_zones, service, 2, hinted=True)
    _expect_steady(three_zones, service, (3, 4, 0))


@requirement(
    "KEP-2433/between-the-thresholds-new-services-get-no-hints",
    "Between 20 and 30 % overload, a Service that already has hints keeps them, but an identical Service to which the "
    "topology annotation is added at this overload gets no hints.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Overload (hints will not be added unless the expected initial overload is below 20 %)",
    as_="kep",
    kills={"takes-the-other-thresholds", "copies-the-own-zone"},
)
def test_between_the_thresholds_new_services_get_no_hints(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    before = create_auto(three_zones)
    expect_hints(three_zones, before, own_zones("abc"))
    _grow(three_zones, 4)

    later = create_auto(three_zones)
    expect_hints(three_zones, later, unhinted("abc"))
    with expect_writes(three_zones, before, "something else of the Service changes", at_most=0):
        touch(three_zones, before)
    expect_hints(three_zones, before, own_zones("abc"))


@requirement(
    "KEP-2433/one-threshold-for-both",
    "Hints are removed when the overload rises above 20 %; after it falls below 20 %, hints return no later than the "
    "next slice write.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Overload; released behaviour differs since 1.21 (one threshold of 20 %)",
    as_="released",
    instead_of="KEP-2433/nothing-flips-between-the-thresholds",
    kills={"takes-the-other-thresholds", "never-withdraws"},
)
def test_one_threshold_for_both(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("abc"))

    _expect_steady(three_zones, service, (2, 0, 2))
    _expect_flip(three_zones, service, 3, hinted=False)
    _grow(three_zones, 2)
    give_other_ports(three_zones, service)
    expect_hints(three_zones, service, own_zones("abc"))


@requirement(
    "KEP-2433/above-the-threshold-no-hints-at-all",
    "Above 20 % overload, a Service that gets the topology annotation gets no hints, and a Service that had hints "
    "loses them.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Overload; released behaviour differs since 1.21 (one threshold of 20 %)",
    as_="released",
    instead_of="KEP-2433/between-the-thresholds-new-services-get-no-hints",
    kills={"takes-the-other-thresholds", "never-withdraws"},
)
def test_above_the_threshold_there_are_no_hints_at_all(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    before = create_auto(three_zones)
    expect_hints(three_zones, before, own_zones("abc"))
    _grow(three_zones, 4)

    for service in (create_auto(three_zones), before):
        expect_hints(three_zones, service, unhinted("abc"))
