"""The columns of `kubectl get`, with the order, wording and cells of kube-apiserver (pkg/printers/internalversion)."""

from collections.abc import Callable, Iterable
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
    """A column with priority 1 appears only with `kubectl get -o wide`."""

    name: str
    type: Literal["string", "integer", "date"]
    format: str
    description: str
    priority: int
    cell: Cell


def text(name: str, description: str, cell: Cell, *, wide: bool = False) -> Column:
    return Column(name, "string", "", description, int(wide), cell)


def listed(items: Iterable[str], *, limit: int | None = None) -> str:
    """Join at most `limit` items with commas, and count the others: `a,b + 3 more...`. Return `<none>` for no items."""
    every = list(items)
    if not every:
        return NONE
    shown = every if limit is None else every[:limit]
    more = len(every) - len(shown)
    return ",".join(shown) + (f" + {more} more..." if more else "")


def age(timestamp: str | None, *, now: datetime | None = None) -> str:
    """Return the time since an RFC 3339 timestamp in kubectl's format: `5m`, `3d4h`; `<unknown>` if None."""
    if not timestamp:
        return UNKNOWN
    then = datetime.fromisoformat(timestamp)
    return human_duration(int(((now or datetime.now(UTC)) - then).total_seconds()))


def human_duration(seconds: int) -> str:
    """Format a duration like apimachinery's HumanDuration, with one unit or with two: `90s`, `5m30s`, `4d`."""
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
