"""Tests that the check of a bound on the load of endpoints keeps its stated error rates."""

from __future__ import annotations

import pytest

from harness.judging.statistics import DEFAULT_RATES, at_most, bounded_load


@pytest.mark.parametrize(("count", "percent"), [(5, 20), (10, 20), (11, 30)])
def test_an_endpoint_within_its_bound_raises_no_alarm(count: int, percent: int) -> None:
    samples, bound = bounded_load(count, percent)
    may = (1 + percent / 100) / count
    assert count * (1 - at_most(bound, samples, may)) <= DEFAULT_RATES.miss * 1.001
    assert at_most(bound, samples, 1 / count) == pytest.approx(1)


@pytest.mark.parametrize(("count", "percent"), [(5, 20), (10, 20), (11, 30)])
def test_an_endpoint_far_beyond_its_bound_is_found(count: int, percent: int) -> None:
    samples, bound = bounded_load(count, percent)
    too_much = 1.5 * (1 + percent / 100) / count
    assert at_most(bound, samples, too_much) <= DEFAULT_RATES.miss


def test_too_few_endpoints_have_no_such_bound() -> None:
    with pytest.raises(ValueError, match="with 1 endpoints, no number of probes"):
        bounded_load(1, 20)
