"""Check at the end of a scenario that the last observed state of written objects still holds.

A controller may write a right value first, and a wrong value a moment later although no input has changed. A wait after
each check would slow down every step, so there is a single wait for all checks at the end. Checks from before the
scenario's last change are not repeated.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, TypeVar

from harness import eventually
from harness.errors import InconclusiveError
from harness.scenario.cluster import Cluster
from harness.scenario.record import Sighting

V = TypeVar("V")

QUIET = 0.1
"""The time without a change by the scenario before the check, in seconds before the time scale."""


def remember(
    cluster: Cluster,
    what: str,
    seen: V,
    *,
    look: Callable[[], V],
    is_right: Callable[[V], bool],
    shown: Callable[[V], Any],
) -> None:
    """Record a right value, which will be checked again. `shown` converts the value to JSON."""

    def look_again() -> Any:
        now = look()
        return shown(seen if is_right(now) else now)

    cluster.record.sightings[what] = Sighting(time.monotonic(), _changes(cluster), shown(seen), look_again)


def recheck(cluster: Cluster, quiet: float = QUIET) -> None:
    """Expect the values seen since the last change to still hold `quiet` seconds (before the time scale) after it.

    The plugin calls this after each test. Raises `AssertionError` with both values.
    """
    changes = _changes(cluster)
    standing = {what: each for what, each in cluster.record.sightings.items() if each.changes == changes}
    if not standing:
        return
    since = max(each.at for each in standing.values())
    until = since + quiet * max(1.0, eventually.time_scale())  # faults do not appear sooner on a fast machine
    time.sleep(max(0.0, until - time.monotonic()))  # the quiet time itself
    with contextlib.suppress(InconclusiveError):  # settle first, as in all other checks of written objects
        cluster.settle()
    for what, each in standing.items():
        cluster.expect_equal(f"{what}, left alone", expected=each.value, observed=each.look_again())


def _changes(cluster: Cluster) -> tuple[int, int]:
    """Return the number of the scenario's writes, and the number of changes of any kind that it has begun."""
    return cluster.api.writes, cluster.backend.changes
