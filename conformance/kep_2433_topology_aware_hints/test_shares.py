"""KEP-2433, EndpointSlice Controller: the number of endpoints allocated to each zone, and the choice of endpoints.

Expected numbers are computed by hand from the KEP: a zone with a share s of the cores needs more than n * s / 1.2 of n
endpoints, otherwise the zone is overloaded by 20 %. The tests avoid cases in which this bound is a whole number,
because the KEP requires less than 20 %, releases allow 20 %, and floating point may round in either direction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from conformance.features import TOPOLOGY_MODE
from conformance.kep_2433_topology_aware_hints.zones import (
    create_auto,
    create_pods,
    hinted_for_own_zone,
    size_zones,
    touch,
    unhinted,
)
from trafficdist import (
    MUST,
    Cluster,
    expect_hint_counts,
    expect_hints,
    expect_min_hint_counts,
    requirement,
)

EXAMPLE = {"a": 20, "b": 16, "c": 14}
"""The cores of the KEP's example, which are 40, 32 and 28 % of the total."""

SMALL_ZONES: Mapping[str, tuple[Mapping[str, int], str, Mapping[str, int]]] = {
    # Zones need more than 3.9, 3.9, 3.9 and 0.8 of 15 endpoints.
    "fractions of three zones": (
        {"a": 14, "b": 14, "c": 14, "d": 3},
        "aaaaabbbbbccccc",
        {"a": 4, "b": 4, "c": 4, "d": 1},
    ),
    # Zones need more than 9.6, 0.2 and 0.2 of 12 endpoints.
    "two endpoints of one zone": ({"a": 96, "b": 2, "c": 2}, "a" * 12, {"a": 10, "b": 1, "c": 1}),
}
"""The cores of zones, the zones of the endpoints, and the fewest endpoints that each zone needs."""


@requirement(
    "KEP-2433/shares-of-the-example",
    "Zones with 20, 16 and 14 cores get about 40, 32 and 28 % of a Service's 25 endpoints, so that no zone is "
    "overloaded by 20 % or more.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Example; Overload (below 20 %)",
    kills={"counts-nodes-instead-of-cores", "keeps-every-own-zone"},
)
@pytest.mark.parametrize("zones", ["a" * 25, "a" * 9 + "b" * 9 + "c" * 7], ids=["25 in a", "9 in a, 9 in b, 7 in c"])
def test_zones_of_the_example_get_their_shares(three_zones: Cluster, zones: str) -> None:
    size_zones(three_zones, **EXAMPLE)
    create_pods(three_zones, zones)

    # Zones need more than 8.3, 6.7 and 5.8 of the 25 endpoints. The other three endpoints may go to any zone.
    expect_min_hint_counts(three_zones, create_auto(three_zones), {"a": 9, "b": 7, "c": 6}, endpoints=25)


@requirement(
    "KEP-2433/unequal-zones-below-the-threshold",
    "In a cluster whose zones have 20, 16 and 14 cores, a Service with 7 or 10 endpoints gets the only allocation that "
    "overloads no zone by 20 % or more.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Example; Overload (below 20 %)",
    kills={"counts-nodes-instead-of-cores", "keeps-every-own-zone", "reads-cpu-in-thousandths-only"},
)
@pytest.mark.parametrize("count", [7, 10])
def test_unequal_zones_are_kept_below_the_threshold(three_zones: Cluster, count: int) -> None:
    size_zones(three_zones, **EXAMPLE)
    create_pods(three_zones, "b" * count)
    # Zones need more than 2.3, 1.9 and 1.6 of 7 endpoints, or more than 3.3, 2.7 and 2.3 of 10 endpoints.
    expected = {7: {"a": 3, "b": 2, "c": 2}, 10: {"a": 4, "b": 3, "c": 3}}

    expect_hint_counts(three_zones, create_auto(three_zones), expected[count])


@requirement(
    "KEP-2433/fractions-overload-no-zone",
    "In a cluster whose zones have 3 and 5 cores, two of three endpoints are hinted for the larger zone, wherever the "
    "endpoints are, because a single endpoint for that zone would be overloaded by 87 %.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Overload (below 20 %)",
    kills={"keeps-every-own-zone"},
)
@pytest.mark.parametrize("zones", ["aab", "bba", "aaa"])
def test_fractions_overload_no_zone(three_zones: Cluster, zones: str) -> None:
    large, small = ("a", "b") if zones == "bba" else ("b", "a")
    size_zones(three_zones, **{large: 5, small: 3})
    create_pods(three_zones, zones)

    # Zones need more than 1.6 and 0.9 of 3 endpoints.
    expect_hint_counts(three_zones, create_auto(three_zones), {large: 2, small: 1})


@requirement(
    "KEP-2433/small-zones-get-their-shares",
    "A zone gets enough endpoints to be overloaded by less than 20 %, even if every other zone has only a fraction of "
    "an endpoint more than its share, or if a single zone gives endpoints to several others.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Overload (attempt to redistribute endpoints to get below this threshold; below 20 %)",
    as_="kep",
    kills={"moves-whole-surpluses-only", "takes-the-other-thresholds"},
)
@pytest.mark.parametrize("case", list(SMALL_ZONES))
def test_small_zones_get_their_shares(three_zones: Cluster, case: str) -> None:
    cores, zones, fewest = SMALL_ZONES[case]
    size_zones(three_zones, **cores)
    create_pods(three_zones, zones)

    expect_min_hint_counts(three_zones, create_auto(three_zones), fewest, endpoints=len(zones))


@requirement(
    "KEP-2433/zone-that-comes-gets-enough-of-several-slices",
    "When a third zone with a fifth of all cores is added, the controller hints enough of a Service's 105 endpoints "
    "for the new zone to keep every zone below the overload threshold.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Overload (an Overload Threshold of 30 %; expected initial overload is below 20 %)",
    as_="kep",
    kills={"keeps-the-hints-of-full-slices"},
)
def test_zone_that_comes_gets_enough_of_several_slices(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8)
    create_pods(three_zones, "ab" * 52 + "a")
    service = create_auto(three_zones)
    # Each zone needs more than 43.75 of 105 endpoints.
    expect_min_hint_counts(three_zones, service, {"a": 44, "b": 44}, endpoints=105)

    three_zones.nodes.create("c9", "c", cpu_milli=4000)
    touch(three_zones, service)
    # Hints stay while the overload is below 30 %: zones need more than 32.3, 32.3 and 16.2 endpoints.
    expect_min_hint_counts(three_zones, service, {"a": 33, "b": 33, "c": 17}, endpoints=105)


@requirement(
    "KEP-2433/unequal-zones-above-the-threshold",
    "In a cluster whose zones have 20, 16 and 14 cores, a Service with 4 or 5 endpoints gets no hints, because every "
    "allocation would overload a zone.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Example; Overload (below 20 %)",
    kills={"copies-the-own-zone"},
)
@pytest.mark.parametrize("zones", ["aabc", "aabbc"])
def test_unequal_zones_above_the_threshold_get_no_hints(three_zones: Cluster, zones: str) -> None:
    size_zones(three_zones, **EXAMPLE)
    create_pods(three_zones, zones)

    expect_hints(three_zones, create_auto(three_zones), unhinted(zones))


@requirement(
    "KEP-2433/own-zone-first",
    "Endpoints are hinted for their own zones, except for endpoints that exceed their zone's share.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Example (keeping endpoints in the same zone will be prioritized; taken from zones with excess)",
    kills={"forgets-who-is-in-the-zone"},
)
@pytest.mark.parametrize("zones", ["aab", "aaaabb", "ccccbbbaaa"])
def test_only_surplus_endpoints_serve_another_zone(three_zones: Cluster, zones: str) -> None:
    shares = {3: (1, 1, 1), 6: (2, 2, 2), 10: (4, 3, 3)}[len(zones)]
    size_zones(three_zones, **(EXAMPLE if len(zones) == 10 else {"a": 8, "b": 8, "c": 8}))
    create_pods(three_zones, zones)
    share = dict(zip("abc", shares, strict=True))
    service = create_auto(three_zones)
    hinted = expect_hint_counts(three_zones, service, share)

    three_zones.expect_equal(
        f"endpoints of service {service.name} that are hinted for their own zone",
        expected={zone: min(share[zone], Counter(zones)[zone]) for zone in "abc"},
        observed=hinted_for_own_zone(zones, hinted),
    )
