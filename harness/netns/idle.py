"""Detect that programs are idle, by the kernel's counters.

A program is idle if it has read all data that was sent to it, hardly runs, and waits neither for a processor nor for a
disk. A timer may still wake the program, so the program's `synced` check decides whether it is done.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from harness.eventually import time_scale
from harness.netns.hung import threads_of, unread_of
from harness.netns.namespace import Namespace, processes_by_netns

EVERY = 0.5
"""The minimum time between two samples, in seconds before the time scale."""

_HARDLY = 0.1  # the largest share of the time for which an idle program runs or waits for a processor
_DISK, _RUNNABLE = "D", "R"  # states of a thread: waiting for a disk; running or waiting for a processor


@dataclass(frozen=True, slots=True)
class IdleSample:
    """A sample of the programs of a netns: for each thread, the nanoseconds that it has run or waited for a processor.

    `busy` is set if data was unread or a thread waited for a disk. `runnable` are the threads that ran or waited for a
    processor at that moment.
    """

    wanted: Mapping[str, int]
    busy: bool = False
    runnable: AbstractSet[str] = frozenset()

    def idle_since(self, earlier: IdleSample, seconds: float) -> bool:
        """Return whether the programs have hardly run since an earlier sample, taken this number of seconds ago.

        The kernel adds a thread's waiting time only when the thread runs again. So a thread that is runnable
        in both samples counts as waiting, whatever the counters say.
        """
        if self.busy or earlier.busy or not self.wanted or self.runnable & earlier.runnable:
            return False
        grown = sum(spent - earlier.wanted.get(thread, 0) for thread, spent in self.wanted.items())
        return grown <= _HARDLY * seconds * 1e9


class IdleWatch:
    """Watches the programs in some netns, which read from a server at a TCP port."""

    def __init__(self, places: Mapping[str, Namespace], port: int) -> None:
        self._places, self._port = places, port
        self._samples: dict[str, IdleSample] = {}
        self._looked_at = self._since = time.monotonic()

    def seconds(self) -> float:
        """Return for how long all programs have been idle. Call it repeatedly: a call may take a sample."""
        now = time.monotonic()
        if self._samples and now - self._looked_at < EVERY * time_scale():
            return self._looked_at - self._since
        before, self._samples = self._samples, self._look()
        passed, self._looked_at = now - self._looked_at, now
        first = IdleSample({}, True)
        idle = (each.idle_since(before.get(place, first), passed) for place, each in self._samples.items())
        if not self._samples or not all(idle):
            self._since = now
        return now - self._since

    def _look(self) -> dict[str, IdleSample]:
        processes = processes_by_netns()
        return {place: self._sample(processes.get(each.inode, [])) for place, each in self._places.items()}

    def _sample(self, processes: Sequence[Path]) -> IdleSample:
        if not processes or unread_of(processes[0], self._port):
            return IdleSample({}, True)
        threads = dict(each for process in processes for each in threads_of(process))
        wanted = {thread: sum(map(int, spent.split()[:2])) for thread, (_, spent) in threads.items()}
        states = {thread: state for thread, (state, _) in threads.items()}
        runnable = {thread for thread, state in states.items() if state == _RUNNABLE}
        return IdleSample(wanted, _DISK in states.values(), runnable)
