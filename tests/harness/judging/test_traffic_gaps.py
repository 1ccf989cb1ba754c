"""Tests that a gap in steady traffic lasts from one answered probe to the next, with a lost probe between them."""

from __future__ import annotations

import pytest

from harness.judging.timeline import longest_gap
from harness.model.outcomes import REFUSED, TIMED_OUT, Observation, Reached

A1 = Reached("a1")


@pytest.mark.parametrize(
    ("observations", "milliseconds"),
    [
        ([A1] * 10, 0.0),
        ([A1, A1, TIMED_OUT, TIMED_OUT, A1, REFUSED, A1], 6.0),
        ([A1, A1, REFUSED, REFUSED, REFUSED], 6.0),
        ([TIMED_OUT] * 5, 8.0),
        ([A1], 0.0),
        ([], 0.0),
    ],
)
def test_longest_gap_is_computed_from_requests_every_two_milliseconds(
    observations: list[Observation], milliseconds: float
) -> None:
    assert longest_gap([(number * 0.002, each) for number, each in enumerate(observations)]) == milliseconds
