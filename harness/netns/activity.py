"""Uses the kernel's counters to distinguish hung, slow and idle programs.

A program is hung if it neither runs nor waits for a CPU or a disk in several consecutive samples, although it has
unread data. A hung thread is not detected if other threads of the program still read. A program is idle if it has read
all data and hardly runs. Only the `synced` checks of its recipe show that it has processed all changes.
"""

import contextlib
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.eventually import time_scale
from harness.netns.namespace import Namespace, processes_by_netns
from harness.run_delay import RUN_DELAY, ThreadTimes, threads_of

LOOKS = 5  # number of consecutive samples, after the first, in which a program must seem hung

HUNG_EVERY = 1.0
"""Seconds between two samples, before `time_scale` is applied. A program that sleeps between reads may look hung."""

IDLE_EVERY = 0.5  # minimum time between two samples, in seconds before `time_scale` is applied

_HARDLY = 0.1  # the largest share of the time for which an idle program runs or waits for a CPU
_RUNNABLE, _DISK = "R", "D"  # states of a thread: running or waiting for a CPU; waiting for a disk
_LOCAL, _REMOTE, _STATE, _QUEUES = 1, 2, 3, 4  # columns of /proc/net/tcp
_ESTABLISHED = "01"  # unread data of a connection that the server has closed is mostly its TLS close message


@dataclass(frozen=True, slots=True)
class ActivitySample:
    """The state and times of each thread in a netns, and the number of unread bytes of each connection."""

    threads: Mapping[str, ThreadTimes]
    unread: Mapping[str, int] = field(default_factory=dict)

    def hung_since(self, earlier: "ActivitySample") -> bool:
        """Return whether data has stayed unread since `earlier`, and no thread has run or waited to run."""
        unread = any(0 < size <= self.unread.get(each, 0) for each, size in earlier.unread.items())
        wants = self._in_state(_RUNNABLE) or self._in_state(_DISK)
        return bool(self.threads) and not wants and self._times() == earlier._times() and unread

    def idle_since(self, earlier: "ActivitySample", seconds: float) -> bool:
        """Return whether the programs have read all data and have hardly run since `earlier`.

        The kernel counts the time for which a thread waits for a CPU only when the thread runs again.
        """
        if any(each.unread or not each.threads or each._in_state(_DISK) for each in (self, earlier)):
            return False
        if self._in_state(_RUNNABLE) & earlier._in_state(_RUNNABLE):
            return False
        before = earlier._times()
        grown = sum(sum(times) - sum(before.get(each, ())) for each, times in self._times().items())
        return grown <= _HARDLY * seconds * 1e9

    def _in_state(self, wanted: str) -> set[str]:
        return {each for each, times in self.threads.items() if times.state == wanted}

    def _times(self) -> dict[str, tuple[int, ...]]:
        return {each: times[1:] for each, times in self.threads.items()}


class _ActivitySampler:
    def __init__(self, places: Mapping[str, Namespace], port: int) -> None:
        self._places, self._port = places, port
        self._last: dict[str, ActivitySample] = {}

    def _look(self, *, unread: bool) -> dict[str, ActivitySample]:
        """Sample each netns. List its threads only if it has unread data (or has none, if `unread` is false)."""
        found, processes = {}, processes_by_netns()
        for place, namespace in self._places.items():
            here = processes.get(namespace.inode, [])
            waiting = unread_of(here[0], self._port) if here else {}
            looked_at = here if bool(waiting) == unread else []
            found[place] = ActivitySample(dict(each for process in looked_at for each in threads_of(process)), waiting)
        return found


class HangDetector(_ActivitySampler):
    def __init__(self, places: Mapping[str, Namespace], port: int) -> None:
        super().__init__(places, port)
        self._looked_at = 0.0
        self._still: dict[str, int] = {}  # consecutive samples in which a netns was hung

    def hung(self, among: Collection[str]) -> list[str]:
        """Return the names of netns with hung programs. Call this repeatedly. It takes at most one sample a second."""
        now = time.monotonic()
        if now - self._looked_at >= HUNG_EVERY * time_scale():
            before, self._last, self._looked_at = self._last, self._look(unread=True), now
            for place, sample in self._last.items():
                hung = place in before and sample.hung_since(before[place])
                self._still[place] = self._still.get(place, 0) + 1 if hung else 0
        return [place for place in among if self._still.get(place, 0) >= LOOKS]


class IdleDetector(_ActivitySampler):
    def __init__(self, places: Mapping[str, Namespace], port: int) -> None:
        super().__init__(places, port)
        self._looked_at = self._since = time.monotonic()

    def seconds(self) -> float:
        """Return how many seconds all programs have been idle. Call this repeatedly: no other code takes samples."""
        now = time.monotonic()
        if self._last and now - self._looked_at < IDLE_EVERY * time_scale():
            return self._seconds()
        before, self._last = self._last, self._look(unread=False)
        passed, self._looked_at = now - self._looked_at, now
        idle = (place in before and each.idle_since(before[place], passed) for place, each in self._last.items())
        if not self._last or not all(idle):
            self._since = now
        return self._seconds()

    def _seconds(self) -> float:
        """Return how long the programs have been idle, not counting times in which this run's programs got no CPU."""
        return self._looked_at - self._since - RUN_DELAY.lost(self._since, self._looked_at)


def unread_of(process: Path, port: int) -> dict[str, int]:
    """Return the unread bytes of each open connection to a port, keyed by local address, in the netns of a process."""
    found = {}
    with contextlib.suppress(OSError):
        for family in ("tcp", "tcp6"):
            for line in (process / "net" / family).read_text("ascii").splitlines()[1:]:
                columns = line.split()
                if columns[_STATE] == _ESTABLISHED and int(columns[_REMOTE].rpartition(":")[2], 16) == port:
                    found[columns[_LOCAL]] = int(columns[_QUEUES].rpartition(":")[2], 16)
    return {each: size for each, size in found.items() if size}
