"""The grid of a window, with a row per client and a column per endpoint. Each cell contains a count and a mark."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.model.texts import as_table, column_widths


class Mark(enum.Enum):
    NONE = "·"
    RIGHT = "✓"
    WRONG = "✗ not allowed"
    UNEVEN = "✗ not an equal share"
    UNSEEN = "✗ never seen"
    UNSURE = "? not seen yet"
    UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Cell:
    """How often a client saw an endpoint (or silence, a refusal, or an unknown outcome), and a mark."""

    count: int
    mark: Mark

    def __str__(self) -> str:
        return "·" if self.mark is Mark.NONE else f"{self.count} {self.mark.value}"


@dataclass(frozen=True, slots=True)
class Row:
    """A client, its expectation in words, and its cells by column."""

    client: str
    expected: str
    cells: Mapping[str, Cell]


def render(pods: Sequence[str], rows: Sequence[Row]) -> str:
    """Return the grid as a text table. Columns for other outcomes appear only if one of their counts is above zero."""
    others = dict.fromkeys(column for row in rows for column in row.cells if column not in pods)
    columns = [*pods, *(each for each in others if any(row.cells[each].count for row in rows))]
    table = [["client", "expected", *columns]]
    table += [[row.client, row.expected, *(str(row.cells[column]) for column in columns)] for row in rows]
    head, *lines = as_table(table, between=" | ").split("\n")
    return "\n".join([head, "-+-".join("-" * width for width in column_widths(table)), *lines])
