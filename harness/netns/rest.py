"""Tells that programs have nothing left to do, by what the kernel knows of them.

Whoever has read all that was sent to it, hardly runs, and does not wait for a processor or a disk, is not slow. What it
says of itself decides whether it is done: a timer may wake it, and nobody else knows that.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from harness.eventually import time_scale
from harness.netns.inhabitants import by_netns
from harness.netns.namespace import Namespace
from harness.netns.stillness import threads_of, unread_of

EVERY = 0.5
"""Seconds, before the time scale, between two looks, at least."""

_HARDLY = 0.1
"""The share of the time between two looks for which a program that rests runs or waits for a processor, at most."""

_DISK, _RUNNABLE = "D", "R"
"""The states of a thread that waits for a disk, and of one that runs or waits for a processor."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen of the programs of a netns: nanoseconds that each thread has run or waited for a processor.

    `busy` if something was unread, or a thread waited for a disk; then nothing else was looked at. `runnable` are the
    threads that ran or waited for a processor at that moment.
    """

    wanted: Mapping[str, int]
    busy: bool = False
    runnable: AbstractSet[str] = frozenset()

    def rests(self, earlier: Sight, seconds: float) -> bool:
        """Return whether the programs have hardly run in so many seconds.

        The kernel counts the time for which a thread waits only when it runs again. So one that is runnable at both
        looks counts as one that waited, whatever was counted.
        """
        if self.busy or earlier.busy or not self.wanted or self.runnable & earlier.runnable:
            return False
        grown = sum(spent - earlier.wanted.get(thread, 0) for thread, spent in self.wanted.items())
        return grown <= _HARDLY * seconds * 1e9


class Rest:
    """The programs of some places, each a netns, which read from a server at a TCP port."""

    def __init__(self, places: Mapping[str, Namespace], port: int) -> None:
        self._places, self._port = places, port
        self._sights: dict[str, Sight] = {}
        self._looked_at = self._since = time.monotonic()

    def seconds(self) -> float:
        """Return for how long all of them have rested; looks now and then, so it is to be asked again and again."""
        now = time.monotonic()
        if self._sights and now - self._looked_at < EVERY * time_scale():
            return self._looked_at - self._since
        before, self._sights = self._sights, self._look()
        passed, self._looked_at = now - self._looked_at, now
        rests = (each.rests(before.get(place, Sight({}, True)), passed) for place, each in self._sights.items())
        if not self._sights or not all(rests):
            self._since = now
        return now - self._since

    def _look(self) -> dict[str, Sight]:
        processes = by_netns()
        return {place: self._sight(processes.get(each.inode, [])) for place, each in self._places.items()}

    def _sight(self, processes: Sequence[Path]) -> Sight:
        if not processes or unread_of(processes[0], self._port):
            return Sight({}, True)
        threads = dict(each for process in processes for each in threads_of(process))
        wanted = {thread: sum(map(int, spent.split()[:2])) for thread, (_, spent) in threads.items()}
        states = {thread: state for thread, (state, _) in threads.items()}
        runnable = {thread for thread, state in states.items() if state == _RUNNABLE}
        return Sight(wanted, _DISK in states.values(), runnable)
