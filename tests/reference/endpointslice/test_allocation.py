"""The share of each zone, and the reasons for omitting hints. Source: KEP-2433, Overload and Controller Unit Tests."""

from __future__ import annotations

import itertools

import pytest

from reference.endpointslice.allocation import Allocation, allocate, floating_point_refuses, rules
from reference.endpointslice.zones import NoHintsReason, ZoneShares
from reference.features import Features
from tests.reference.endpointslice.objects import RELEASED

KEP = Features()


def shares(*weights: int) -> ZoneShares:
    return ZoneShares(dict(zip("abcdefgh", weights, strict=False)), sum(weights))


def minima(weights: tuple[int, ...], endpoints: int, features: Features = KEP, *, keep: bool = False) -> object:
    by = rules(features)
    found = allocate(shares(*weights), endpoints, by.to_keep if keep else by.to_add)
    return found.why if isinstance(found, NoHintsReason) else [each.minimum for each in found.portions.values()]


@pytest.mark.parametrize("features", [KEP, RELEASED])
@pytest.mark.parametrize(
    ("weights", "endpoints", "expected"),
    [
        ((4, 4, 4), 2, "TooFewEndpoints"),
        ((4, 4, 4), 3, [1, 1, 1]),
        ((4, 4, 4), 4, "Overloaded"),
        ((4, 4, 4), 5, "Overloaded"),
        ((4, 4, 4), 6, [2, 2, 2]),
        ((4, 4, 4), 8, "Overloaded"),
        ((4, 4), 4, [2, 2]),
        ((8, 4, 4), 4, [2, 1, 1]),
        ((20, 16, 14), 5, "Overloaded"),
        ((20, 16, 14), 7, [3, 2, 2]),
        ((40, 41, 42, 43), 400, [81, 83, 85, 87]),
    ],
)
def test_allocation_equals_the_tables_of_the_kep(
    weights: tuple[int, ...], endpoints: int, expected: object, features: Features
) -> None:
    assert minima(weights, endpoints, features) == expected


def test_releases_allow_exactly_twenty_percent_overload_and_the_kep_does_not() -> None:
    five_equal_zones = (4, 4, 4, 4, 4)  # 6 endpoints: 1.2 per zone
    assert minima(five_equal_zones, 6, RELEASED) == [1, 1, 1, 1, 1]
    assert minima(five_equal_zones, 6) == "Overloaded"
    assert minima((20, 16, 14), 6, RELEASED) == [2, 2, 2]
    assert minima((20, 16, 14), 6) == "Overloaded"


@pytest.mark.parametrize("weights", [(4, 4, 4, 4, 4), (40, 30, 30), (20, 16, 14)])
def test_floating_point_refuses_what_reaches_twenty_percent(weights: tuple[int, ...]) -> None:
    assert floating_point_refuses(shares(*weights), 6)


def test_floating_point_differs_from_exact_arithmetic_only_at_just_twenty_percent() -> None:
    """Check all sets of three zones with 1 to 10 cores, up to 30 endpoints: 192 of 2,620 edge cases get no hints."""
    edges = refused = 0
    for weights in itertools.product(range(1, 11), repeat=3):
        for endpoints in range(3, 31):
            edge = any(100 * weight * endpoints % (120 * sum(weights)) == 0 for weight in weights)
            exact = isinstance(allocate(shares(*weights), endpoints, rules(RELEASED).to_add), NoHintsReason)
            differs = floating_point_refuses(shares(*weights), endpoints) != exact
            assert edge or not differs
            edges += edge
            refused += differs
    assert (edges, refused) == (2620, 192)


def test_hints_stay_up_to_thirty_percent_with_the_kep() -> None:
    weights = (5, 3)  # 4 endpoints: 2.5 and 1.5; with 2 and 2 the first zone is 25% over
    assert minima(weights, 4) == "Overloaded"
    assert minima(weights, 4, keep=True) == [2, 2]
    assert minima(weights, 4, RELEASED, keep=True) == "Overloaded"


def test_hints_are_removed_at_thirty_percent() -> None:
    assert minima((13, 7), 20, keep=True) == [11, 6]
    assert minima((13, 7), 2, keep=True) == "Overloaded"  # 1.3 and 0.7: exactly 30% over


def test_refusal_names_the_numbers() -> None:
    found = allocate(shares(1, 1, 1), 4, rules(KEP).to_add)
    assert isinstance(found, NoHintsReason)
    assert found.message == (
        "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold "
        "(4 endpoints, 3 zones)"
    )


def test_node_error_is_passed_on() -> None:
    refusal = NoHintsReason("OneZone", "Nodes only ready in one zone")
    assert allocate(refusal, 100, rules(KEP).to_add) is refusal


def test_no_zone_may_get_so_many_that_another_gets_less_than_its_minimum() -> None:
    found = allocate(shares(20, 16, 14), 50, rules(KEP).to_add)
    assert isinstance(found, Allocation)
    assert {zone: (each.minimum, each.maximum) for zone, each in found.portions.items()} == {
        "a": (17, 24),
        "b": (14, 21),
        "c": (12, 19),
    }
