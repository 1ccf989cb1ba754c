"""Calculate the overload of zones, and the next number of endpoints that can be allocated."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from explain.placement import enough, overload_percent, overloads
from reference.endpointslice.allocation import Threshold
from reference.endpointslice.zones import ZoneShares

RELEASED = Threshold(20, may_be_reached=True)


def shares(**weights: int) -> ZoneShares:
    return ZoneShares(weights, sum(weights.values()))


@pytest.mark.parametrize(
    ("weights", "endpoints", "percent"),
    [({"a": 1, "b": 1, "c": 1}, 3, 0), ({"a": 1, "b": 1, "c": 1}, 4, 33), ({"a": 2, "b": 1, "c": 1}, 4, 0)],
)
def test_overload_is_that_of_the_best_distribution(weights: Mapping[str, int], endpoints: int, percent: int) -> None:
    assert int(overload_percent(shares(**weights), endpoints)) == percent


@pytest.mark.parametrize(
    ("weights", "said"),
    [({"a": 20, "b": 16, "c": 14}, "by exactly 20 %"), ({"a": 2001, "b": 1600, "c": 1399}, "by 20.1 %")],
)
def test_exactly_twenty_percent_is_distinguished_from_more(weights: Mapping[str, int], said: str) -> None:
    assert overloads(shares(**weights), 6) == f"6 endpoints over 3 zones with this CPU would overload a zone {said}"


@pytest.mark.parametrize(
    ("weights", "endpoints", "wanted"),
    [({"a": 1, "b": 1, "c": 1}, 4, 6), ({"a": 1, "b": 1}, 1, 2), ({"a": 2, "b": 2, "c": 1}, 3, 5)],
)
def test_next_number_that_can_be_allocated_is_shown(weights: Mapping[str, int], endpoints: int, wanted: int) -> None:
    assert enough(shares(**weights), endpoints, RELEASED) == wanted


def test_no_number_is_shown_if_none_is_near() -> None:
    assert enough(shares(big=10**9, **{f"z{each}": 1 for each in range(300)}), 301, RELEASED) == 0
