"""The columns that `kubectl get` shows, and how their cells read.

kubectl asks for a Table and prints what it gets, so a server decides what its users see; these are the columns, in
order and wording, of the released server (pkg/printers/internalversion).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from reference.client import Object

UNKNOWN = "<unknown>"
NONE = "<none>"
UNSET = "<unset>"

Cell = Callable[[Object], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the Table that `kubectl get` shows; priority 1 is shown with `-o wide` only."""

    name: str
    type: Literal["string", "integer", "date"]
    format: str
    description: str
    priority: int
    cell: Cell


def text(name: str, description: str, cell: Cell, *, wide: bool = False) -> Column:
    """A column of strings; `wide` ones are for `-o wide`."""
    return Column(name, "string", "", description, int(wide), cell)


def number(name: str, description: str, cell: Cell) -> Column:
    """A column of integers."""
    return Column(name, "integer", "", description, 0, cell)


def listed(items: Iterable[str], *, limit: int | None = None) -> str:
    """Items with commas, at most `limit` of them and then how many more; `<none>` for an empty list."""
    every = list(items)
    if not every:
        return NONE
    shown = every if limit is None else every[:limit]
    more = len(every) - len(shown)
    return ",".join(shown) + (f" + {more} more..." if more else "")


def labels(pairs: Mapping[str, str]) -> str:
    """Labels as `key=value` with commas, by key."""
    return listed(f"{key}={pairs[key]}" for key in sorted(pairs))


def age(timestamp: str | None, *, now: datetime | None = None) -> str:
    """Return how long ago an RFC 3339 time was, as kubectl writes it: `5m`, `3d4h`; `<unknown>` without one."""
    if not timestamp:
        return UNKNOWN
    then = datetime.fromisoformat(timestamp)
    return human_duration(int(((now or datetime.now(UTC)) - then).total_seconds()))


def human_duration(seconds: int) -> str:
    """Seconds as kubectl shortens them (apimachinery's HumanDuration): two units while the second one matters."""
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    steps: tuple[tuple[bool, int, str, int, str], ...] = (
        (seconds < 60 * 2, seconds, "s", 0, ""),
        (minutes < 10, minutes, "m", seconds % 60, "s"),
        (minutes < 60 * 3, minutes, "m", 0, ""),
        (hours < 8, hours, "h", minutes % 60, "m"),
        (hours < 48, hours, "h", 0, ""),
        (hours < 24 * 8, days, "d", hours % 24, "h"),
        (hours < 24 * 365 * 2, days, "d", 0, ""),
        (hours < 24 * 365 * 8, days // 365, "y", days % 365, "d"),
        (True, days // 365, "y", 0, ""),
    )
    whole, unit, rest, small = next(step[1:] for step in steps if step[0])
    return f"{whole}{unit}{rest}{small}" if rest else f"{whole}{unit}"


NAME = Column(
    "Name", "string", "name", "Name of the object, unique within its namespace.", 0, lambda obj: obj["metadata"]["name"]
)
AGE = text("Age", "Time since the object was created.", lambda obj: age(obj["metadata"].get("creationTimestamp")))
