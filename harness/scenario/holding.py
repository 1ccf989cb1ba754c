"""What a scenario saw of written objects last is looked at once more at its end: a right sight must last.

A controller may be right at first, and wrong a moment later though nothing has changed. Who waited after each check
would pay for that at each step, so there is one wait for all of them. What the scenario changed after a check is
another matter: only checks since its last change count.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from harness import eventually
from harness.errors import InconclusiveError

if TYPE_CHECKING:
    from harness.scenario.cluster import Cluster

V = TypeVar("V")

QUIET = 0.1
"""Seconds, before the time scale, for which written objects are left alone at the end of a scenario."""


@dataclass(frozen=True, slots=True)
class _Sight:
    """What was seen to be right at `at` (monotonic seconds), when the scenario had made these changes."""

    at: float
    changes: tuple[int, int]
    seen: Any
    look_again: Callable[[], Any]


class Sights:
    """The last right sight of each thing that a scenario has checked."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._sights: dict[str, _Sight] = {}

    def keep(
        self, what: str, seen: V, look: Callable[[], V], is_right: Callable[[V], bool], shown: Callable[[V], Any]
    ) -> None:
        """Note a right sight. `shown` makes of what is seen a value that JSON can hold."""

        def look_again() -> Any:
            now = look()
            return shown(seen if is_right(now) else now)

        self._sights[what] = _Sight(time.monotonic(), self._changes(), shown(seen), look_again)

    def compare(self, quiet: float = QUIET) -> None:
        """Look once more at all that was seen since the last change, when it was left alone for `quiet` seconds.

        A scenario may do so itself, and leave it alone for longer.

        Raises `AssertionError` with what was seen before and now.
        """
        changes = self._changes()
        standing = {what: each for what, each in self._sights.items() if each.changes == changes}
        if not standing:
            return
        since = max(each.at for each in standing.values())
        until = since + quiet * max(1.0, eventually.time_scale())  # a quick machine makes no fault come sooner
        time.sleep(max(0.0, until - time.monotonic()))  # to be quiet is the point
        with contextlib.suppress(InconclusiveError):  # as before any other look at what was written
            self._cluster.settle()
        for what, each in standing.items():
            self._cluster.expect_equal(f"{what}, left alone", expected=each.seen, observed=each.look_again())

    def _changes(self) -> tuple[int, int]:
        """Return how often the scenario has written, and how often it has begun a change of any kind."""
        return self._cluster.api.writes, self._cluster.backend.changes
