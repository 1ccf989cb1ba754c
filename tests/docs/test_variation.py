"""The page on variation lists all axes and values."""

from pathlib import Path

import pytest

from harness.variation.axes import AXES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/variation.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("axis", AXES)
def test_page_has_the_values_of_each_axis(axis: str) -> None:
    values = "; ".join(f"`{value}`: {meaning}" for value, meaning in AXES[axis].items())
    assert f"| `{axis}` | {values} |" in PAGE
