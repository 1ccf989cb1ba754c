"""KEP-2433, Controller Unit Tests: the rows of the KEP's table, except the removal of nodes (`test_node_updates`).

For `TrafficPolicy == 'PreferZone'` in the table, the tests use the topology annotation Auto (see `zones`).
"""

from __future__ import annotations

import pytest

from conformance.features import CONTROLLER_RELEASES, ENDPOINT_SLICES, TOPOLOGY_MODE
from conformance.kep_2433_topology_aware_hints.zones import (
    AUTO,
    AWARE_HINTS,
    MODE,
    WEB,
    create_auto,
    create_pods,
    own_zones,
    size_zones,
    unhinted,
)
from trafficdist import (
    CONTROLLER,
    MUST,
    Cluster,
    expect_hint_counts,
    expect_hints,
    expect_min_hint_counts,
    release,
    requirement,
)

TABLE = "KEP-2433, Controller Unit Tests"
GATE_OFF = {
    each: release(each, TopologyAwareHints=False) for each in ("1.21", "1.24", "1.27", "1.32")
}  # releases: gate disabled by default, enabled by default, with the newer annotation, and the last with the gate


@requirement(
    "KEP-2433/two-zones-and-more-get-hints",
    "With the topology annotation Auto and one endpoint in each of two or more zones of equal size, every endpoint is "
    "hinted for its own zone.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{TABLE}: feature gate on, PreferZone, 2+ zones; and 3 endpoints, 3 zones",
    kills={"writes-no-hints", "needs-more-endpoints-than-zones", "right-then-wrong-soon"},
)
@pytest.mark.parametrize("zones", ["ab", "abc", "abcd"])
def test_two_zones_and_more_get_hints(three_zones: Cluster, zones: str) -> None:
    size_zones(three_zones, **dict.fromkeys(zones, 8))
    create_pods(three_zones, zones)

    expect_hints(three_zones, create_auto(three_zones), own_zones(zones), exactly=True)


@requirement(
    "KEP-2433/one-zone-gets-no-hints",
    "With nodes in only one zone, no endpoint has hints.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{TABLE}: feature gate on, PreferZone, 1 zone",
    kills={"hints-in-one-zone"},
)
def test_one_zone_gets_no_hints(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8)
    create_pods(three_zones, "aa")

    expect_hints(three_zones, create_auto(three_zones), unhinted("aa"))


@requirement(
    "KEP-2433/policy-local-gets-no-hints",
    "A Service with a Local traffic policy and without the topology annotation gets no hints.",
    level=MUST,
    features={TOPOLOGY_MODE, ENDPOINT_SLICES},
    source=f"{TABLE}: feature gate on, Local, 2+ zones; Local and PreferZone were values of one field",
    kills={"hints-unasked"},
)
@pytest.mark.parametrize("direction", ["internal", "external"])
def test_policy_local_alone_gets_no_hints(three_zones: Cluster, direction: str) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    service = three_zones.create_service(selector=WEB, type="NodePort")
    three_zones.patch_service(service, {"spec": {f"{direction}TrafficPolicy": "Local"}})

    expect_hints(three_zones, service, unhinted("abc"))


@requirement(
    "KEP-2433/no-annotation-no-hints",
    "A Service without the topology annotation gets no hints, even with nodes in two or more zones.",
    level=MUST,
    features={TOPOLOGY_MODE, ENDPOINT_SLICES},
    source=f"{TABLE}: feature gate on, TrafficPolicy unset, 2+ zones",
    kills={"hints-unasked", "shares-out-unasked"},
)
def test_service_without_annotation_gets_no_hints(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")

    expect_hints(three_zones, three_zones.create_service(selector=WEB, traffic_distribution=""), unhinted("abc"))


@requirement(
    "KEP-2433/gate-off-sets-the-annotation-aside",
    "With the TopologyAwareHints gate disabled, a controller writes no hints for a Service with the topology "
    "annotation Auto.",
    level=MUST,
    features={TOPOLOGY_MODE, CONTROLLER_RELEASES},
    source=f"{TABLE}: feature gate off, PreferZone, 2+ zones",
    kills={"newest-controller-at-any-release"},
)
@pytest.mark.parametrize("version", list(GATE_OFF))
def test_gate_off_sets_the_annotation_aside(three_zones: Cluster, version: str) -> None:
    three_zones.restart(CONTROLLER, GATE_OFF[version])
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    service = three_zones.create_service(selector=WEB, annotations={AWARE_HINTS: "Auto", MODE: "Auto"})

    expect_hints(three_zones, service, unhinted("abc"))


@requirement(
    "KEP-2433/gate-off-without-annotation-gives-no-hints",
    "With the TopologyAwareHints gate disabled, a controller writes no hints for a Service without the topology "
    "annotation.",
    level=MUST,
    features={TOPOLOGY_MODE, CONTROLLER_RELEASES},
    source=f"{TABLE}: feature gate off, TrafficPolicy unset, 2+ zones (two rows)",
    kills={"hints-unasked"},
)
@pytest.mark.parametrize("version", list(GATE_OFF))
def test_gate_off_without_annotation_gives_no_hints(three_zones: Cluster, version: str) -> None:
    three_zones.restart(CONTROLLER, GATE_OFF[version])
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")

    expect_hints(three_zones, three_zones.create_service(selector=WEB), unhinted("abc"))


@requirement(
    "KEP-2433/fewer-endpoints-than-zones-get-no-hints",
    "In a cluster with three zones, a Service with two endpoints gets no hints.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{TABLE}: 2 endpoints, 3 zones",
    kills={"copies-the-own-zone"},
)
@pytest.mark.parametrize("zones", ["ab", "aa"])
def test_two_endpoints_in_three_zones_get_no_hints(three_zones: Cluster, zones: str) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, zones)

    expect_hints(three_zones, create_auto(three_zones), unhinted(zones))


@requirement(
    "KEP-2433/uneven-counts-over-equal-zones-get-no-hints",
    "In a cluster with three zones of equal size, a Service with 4, 5, 8 or 11 endpoints gets no hints, because every "
    "allocation would overload a zone by 20 % or more.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{TABLE}: 4 endpoints, 3 zones; Overload (1.33 endpoints a zone, and 33 % more traffic)",
    kills={"copies-the-own-zone"},
)
@pytest.mark.parametrize("zones", ["abcc", "aaaa", "abbcc", "aaabbbcc", "aaaabbbbccc"])
def test_uneven_counts_over_three_equal_zones_get_no_hints(three_zones: Cluster, zones: str) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, zones)

    expect_hints(three_zones, create_auto(three_zones), unhinted(zones))


@requirement(
    "KEP-2433/two-endpoints-a-zone-keep-their-zones",
    "Four endpoints, two in each of two zones of equal size, are hinted for their own zones.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{TABLE}: 4 endpoints, 2 zones",
    kills={"forgets-who-is-in-the-zone", "writes-no-hints"},
)
def test_four_endpoints_in_two_zones_keep_their_zones(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8)
    create_pods(three_zones, "aabb")

    expect_hints(three_zones, create_auto(three_zones), own_zones("aabb"))


@requirement(
    "KEP-2433/endpoints-are-shared-out",
    "In a cluster with two zones of equal size, two of four endpoints are hinted for each zone, wherever the endpoints "
    "are.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{TABLE}: 4 endpoints all from 1 zone, 2 zones",
    kills={"copies-the-own-zone", "keeps-every-own-zone"},
)
@pytest.mark.parametrize("zones", ["aaaa", "aaab", "bbbb"])
def test_endpoints_of_one_zone_are_shared_out_to_two(three_zones: Cluster, zones: str) -> None:
    size_zones(three_zones, a=8, b=8)
    create_pods(three_zones, zones)

    expect_hint_counts(three_zones, create_auto(three_zones), {"a": 2, "b": 2})


@requirement(
    "KEP-2433/larger-zone-gets-more",
    "In a cluster with three zones, two of four endpoints are hinted for the zone that has twice as many cores as each "
    "of the other zones.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{TABLE}: 4 endpoints, 3 zones, 1 zone with 2x cores",
    kills={"counts-capacity", "counts-nodes-instead-of-cores", "copies-the-own-zone"},
)
@pytest.mark.parametrize("zones", ["aabc", "abcc", "bbbb"])
def test_zone_with_twice_the_cores_gets_twice_the_endpoints(three_zones: Cluster, zones: str) -> None:
    size_zones(three_zones, a=16, b=8, c=8)
    create_pods(three_zones, zones)

    expect_hint_counts(three_zones, create_auto(three_zones), {"a": 2, "b": 1, "c": 1})


@requirement(
    "KEP-2433/four-hundred-endpoints",
    "All 400 endpoints of a Service, spread unevenly over four zones of slightly different sizes, get hints, and no "
    "zone is overloaded by 20 % or more.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{TABLE}: 400 endpoints, 4 zones with slightly different cores; Overload",
    kills={"counts-nodes-instead-of-cores", "keeps-every-own-zone"},
)
def test_four_hundred_endpoints_are_shared_out(three_zones: Cluster) -> None:
    size_zones(three_zones, a=40, b=41, c=42, d=43)
    create_pods(three_zones, "a" * 160 + "b" * 120 + "c" * 80 + "d" * 40)
    service = create_auto(three_zones)

    # The ideal shares are 96.4, 98.8, 101.2 and 103.6; a zone with 1/1.2 of its share is overloaded by 20 %.
    expect_min_hint_counts(three_zones, service, {"a": 81, "b": 83, "c": 85, "d": 87}, endpoints=400)


@requirement(
    "KEP-2433/additions-are-shared-out",
    "When endpoints are added in one zone, all endpoints are allocated to zones again.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{TABLE}: endpoint additions that require redistribution",
    kills={"keeps-every-own-zone"},
)
def test_added_endpoints_are_shared_out(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("abc"))

    create_pods(three_zones, "aaa", first=4)
    expect_hint_counts(three_zones, service, {"a": 2, "b": 2, "c": 2})


@requirement(
    "KEP-2433/removals-are-shared-out",
    "When endpoints are removed from one zone, the remaining endpoints are allocated to zones again.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source=f"{TABLE}: endpoint removals that require redistribution",
    kills={"keeps-every-own-zone"},
)
def test_endpoints_that_are_left_are_shared_out(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "aaabbbccc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("aaabbbccc"))

    for name in ("p1", "p8", "p9"):
        three_zones.api.delete("pods", three_zones.namespace, name, grace_seconds=0)
    expect_hint_counts(three_zones, service, {"a": 2, "b": 2, "c": 2})


@requirement(
    "KEP-2433/hints-come-and-go-with-endpoints",
    "A Service that starts without endpoints gets hints when an added endpoint makes hints possible, and loses them "
    "when the removal of an endpoint makes hints impossible.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Overload (hints will be removed from the endpoints); Configuration (a sufficient number)",
    kills={"first-refusal-for-ever", "never-withdraws"},
)
def test_hints_come_and_go_with_endpoints(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    service = create_auto(three_zones)
    expect_hints(three_zones, service, {})

    for zones in ("a", "ab"):
        create_pods(three_zones, zones[-1], first=len(zones))
        expect_hints(three_zones, service, unhinted(zones))
    create_pods(three_zones, "c", first=3)
    expect_hints(three_zones, service, own_zones("abc"))

    three_zones.api.delete("pods", three_zones.namespace, "p3", grace_seconds=0)
    expect_hints(three_zones, service, unhinted("ab"))


@requirement(
    "KEP-2433/annotation-switches-hints",
    "For an existing Service, hints are added when the topology annotation is set to Auto, and removed when the "
    "annotation is removed or set to Disabled.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Feature Enablement and Rollback (setting the field to some other value for a Service)",
    kills={"annotation-outlives-itself"},
)
@pytest.mark.parametrize("ended_by", [None, "Disabled"])
def test_annotation_switches_hints_on_and_off(three_zones: Cluster, ended_by: str | None) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    service = three_zones.create_service(selector=WEB)
    expect_hints(three_zones, service, unhinted("abc"))

    for value, expected in (("Auto", own_zones("abc")), (ended_by, unhinted("abc")), ("Auto", own_zones("abc"))):
        three_zones.patch_service(service, {"metadata": {"annotations": {MODE: value}}})
        expect_hints(three_zones, service, expected)


@requirement(
    "KEP-2433/gate-on-again-brings-hints-back",
    "A controller removes its hints when the TopologyAwareHints gate is disabled, and writes them again when the gate "
    "is enabled again.",
    level=MUST,
    features={TOPOLOGY_MODE, CONTROLLER_RELEASES},
    source="KEP-2433, Feature Enablement and Rollback (hints will be added again)",
    kills={"newest-controller-at-any-release", "hints-outlive-their-gate"},
)
def test_gate_is_switched_off_and_on_again(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    three_zones.restart(CONTROLLER, release("1.27"))
    service = three_zones.create_service(selector=WEB, annotations=AUTO)
    expect_hints(three_zones, service, own_zones("abc"))

    three_zones.restart(CONTROLLER, GATE_OFF["1.27"])
    expect_hints(three_zones, service, unhinted("abc"))
    three_zones.restart(CONTROLLER, release("1.27"))
    expect_hints(three_zones, service, own_zones("abc"))
