"""A failing draw is reduced to the values that matter."""

from collections.abc import Iterable

import pytest

from harness.plugin.shrinking import shrunk
from harness.variation.axes import PLAIN, DrawnValues, parse_draw

DRAW = parse_draw("names=cloud,slices=each,owner=nobody,client=node")


def smallest(needed: Iterable[str], tries: int = 100) -> tuple[DrawnValues | None, int]:
    asked: list[DrawnValues] = []

    def fails(draw: DrawnValues) -> bool | None:
        if len(asked) == tries:
            return None
        asked.append(draw)
        return {axis for axis, _ in draw.values} >= set(needed)

    return shrunk(DRAW, fails), len(asked)


def test_failure_without_drawn_values_takes_one_try() -> None:
    assert smallest([]) == (PLAIN, 1)


@pytest.mark.parametrize("axis", ["names", "slices", "owner", "client"])
def test_single_value_is_found(axis: str) -> None:
    found, tries = smallest([axis])
    assert found is not None
    assert [name for name, _ in found.values] == [axis]
    assert tries <= 5


def test_two_values_are_found_together() -> None:
    found, tries = smallest(["names", "owner"])
    assert str(found) == "names=cloud,owner=nobody"
    assert tries <= 9


def test_nothing_is_said_when_time_runs_out() -> None:
    assert smallest(["names", "owner"], tries=6)[0] is None


def test_nothing_is_said_when_a_try_could_not_tell() -> None:
    assert shrunk(DRAW, lambda draw: None if draw == PLAIN else True) is None
