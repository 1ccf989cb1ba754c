"""Each package and each subpackage of the harness is within its budget of lines. The budgets are in pyproject.toml.

`python -m pytest tests/package/test_budgets.py -s` prints the number of lines of each. Raise a budget in a separate
commit that gives the reason.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

import pytest

from tests.package.wheel_environment import ROOT

BUDGETS: Mapping[str, int] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "trafficdist"
]["budgets"]
PRODUCT = ("harness", "explain", "emulator", "tools", "trafficdist", "reference")


def lines(place: str) -> int:
    """Return the number of lines of Python in a folder or file."""
    path = ROOT / place
    files = path.rglob("*.py") if path.is_dir() else [path]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


@pytest.mark.parametrize("place", [place for place in BUDGETS if place != "product"])
def test_each_place_stays_within_its_budget(place: str) -> None:
    print(f"{place}: {lines(place):,} of {BUDGETS[place]:,} lines")  # noqa: T201  shown with -s
    assert lines(place) <= BUDGETS[place], f"{place} has {lines(place)} lines, but its budget is {BUDGETS[place]}"


def test_the_product_stays_within_its_budget() -> None:
    found = sum(map(lines, PRODUCT))
    print(f"{', '.join(PRODUCT)}: {found:,} of {BUDGETS['product']:,} lines")  # noqa: T201  shown with -s
    assert found <= BUDGETS["product"]


def test_each_room_of_the_harness_has_a_budget() -> None:
    rooms = {f"harness/{each.name}" for each in (ROOT / "harness").iterdir() if list(each.glob("*.py"))}
    assert rooms == {place for place in BUDGETS if place.startswith("harness/")}
