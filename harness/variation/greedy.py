"""Build the rows of a covering array one by one, greedily, like AETG (Cohen et al., 1997).

Each row gets the values that cover the most missing combinations. Among equal values, it gets the rarest value so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

Row = Mapping[str, Any]
"""The chosen values, by axis."""


class RowBuilder:
    """Builds rows, and counts the values that it has used."""

    def __init__(
        self, gain: Callable[[Row, str, Any], int], shares: Mapping[tuple[str, Any], float] | None = None
    ) -> None:
        """`gain` is the number of missing combinations that a value would add to a row.

        `shares` are the shares of values relative to the other values of their axis, if they are not 1.
        """
        self._gain, self._shares = gain, shares or {}
        self._used: Counter[tuple[str, Any]] = Counter()

    def build(
        self, begin: Row, axes: Iterable[tuple[str, Callable[[Row], Iterable[Any]]]], *, passes: int = 1
    ) -> dict[str, Any]:
        """Return a row with the values of `begin`, and one value for each other axis.

        `axes` maps an axis to a function that returns the possible values of the row so far. The order breaks ties. A
        further pass chooses each value again, with knowledge of all others.
        """
        row = dict(begin)
        for name, possible in [each for each in axes if each[0] not in begin] * passes:
            row.pop(name, None)
            row[name] = max(possible(row), key=partial(self._worth, row, name))
        self._used.update(row.items())
        return row

    def _worth(self, row: Row, name: str, value: Any) -> tuple[int, float]:
        return self._gain(row, name, value), -self._used[name, value] / self._shares.get((name, value), 1)
