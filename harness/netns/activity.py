"""Distinguish hung, slow and idle programs by the kernel's counters.

A slow program runs, or waits for a processor or a disk. A program is hung if it does none of these in several
consecutive samples while data that was sent to it stays unread. A hung thread is not detected if other threads read.

A program is idle if it has read all data that was sent to it, hardly runs, and waits neither for a processor nor for a
disk. A timer may still wake the program, so the program's `synced` check decides whether it is done.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from harness.eventually import time_scale
from harness.netns.namespace import Namespace, processes_by_netns

LOOKS = 5
"""The number of consecutive samples, after the first sample, that must show a program as hung."""

HUNG_EVERY = 1.0
"""The minimum time between two samples, in seconds before the time scale.

A correct single-threaded program looks hung while it sleeps between two reads: with samples every 0.2 s, a program that
batches changes for 1.5 s was reported as hung.
"""

IDLE_EVERY = 0.5
"""The minimum time between two samples, in seconds before the time scale."""

_HARDLY = 0.1  # the largest share of the time for which an idle program runs or waits for a processor
_RUNNABLE, _DISK = "R", "D"  # states of a thread: running or waiting for a processor; waiting for a disk
_LOCAL, _REMOTE, _STATE, _QUEUES = 1, 2, 3, 4  # columns of /proc/net/tcp
_ESTABLISHED = "01"  # unread data of a connection that the server has closed is mostly its TLS close message


@dataclass(frozen=True, slots=True)
class HungSample:
    """A sample of all programs of a netns: the run time by thread, and unread bytes by connection."""

    ran: Mapping[str, str]
    unread: Mapping[str, int]
    wants: bool = False

    def hung_since(self, earlier: HungSample) -> bool:
        """Return whether no thread has run or become runnable since that sample, and the same data is still unread."""
        unread = any(0 < size <= self.unread.get(each, 0) for each, size in earlier.unread.items())
        return bool(self.ran) and not self.wants and self.ran == earlier.ran and unread


class HungWatch:
    """Watches the programs in some netns, which read from a server at a TCP port."""

    def __init__(self, places: Mapping[str, Namespace], port: int) -> None:
        self._places, self._port = places, port
        self._looked_at = 0.0
        self._last: dict[str, HungSample] = {}
        self._still: dict[str, int] = {}  # consecutive samples in which a netns was hung

    def hung(self, among: Collection[str]) -> list[str]:
        """Return the names of netns whose programs are hung. Call repeatedly: it samples at most once a second."""
        now = time.monotonic()
        if now - self._looked_at >= HUNG_EVERY * time_scale():
            self._looked_at = now
            for place, sample in self._look():
                hung = place in self._last and sample.hung_since(self._last[place])
                self._still[place] = self._still.get(place, 0) + 1 if hung else 0
                self._last[place] = sample
        return [place for place in among if self._still.get(place, 0) >= LOOKS]

    def _look(self) -> Iterator[tuple[str, HungSample]]:
        for place, processes in _programs_in(self._places):
            unread = unread_of(processes[0], self._port) if processes else {}
            threads = _threads(processes) if unread else {}
            wants = any(state in (_RUNNABLE, _DISK) for state, _ in threads.values())
            yield place, HungSample({each: ran for each, (_, ran) in threads.items()}, unread, wants)


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
        if self._samples and now - self._looked_at < IDLE_EVERY * time_scale():
            return self._looked_at - self._since
        before, self._samples = self._samples, self._look()
        passed, self._looked_at = now - self._looked_at, now
        first = IdleSample({}, True)
        idle = (each.idle_since(before.get(place, first), passed) for place, each in self._samples.items())
        if not self._samples or not all(idle):
            self._since = now
        return now - self._since

    def _look(self) -> dict[str, IdleSample]:
        return {place: self._sample(processes) for place, processes in _programs_in(self._places)}

    def _sample(self, processes: Sequence[Path]) -> IdleSample:
        if not processes or unread_of(processes[0], self._port):
            return IdleSample({}, True)
        threads = _threads(processes)
        wanted = {thread: sum(map(int, spent.split()[:2])) for thread, (_, spent) in threads.items()}
        states = {thread: state for thread, (state, _) in threads.items()}
        runnable = {thread for thread, state in states.items() if state == _RUNNABLE}
        return IdleSample(wanted, _DISK in states.values(), runnable)


def _programs_in(places: Mapping[str, Namespace]) -> Iterator[tuple[str, Sequence[Path]]]:
    processes = processes_by_netns()
    return ((place, processes.get(namespace.inode, [])) for place, namespace in places.items())


def _threads(processes: Sequence[Path]) -> dict[str, tuple[str, str]]:
    return dict(each for process in processes for each in threads_of(process))


def threads_of(process: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the number, state and scheduler statistics of each thread of a process; skip threads that exit meanwhile.

    Yields nothing on a kernel without `CONFIG_SCHED_INFO`.
    """
    with contextlib.suppress(OSError):
        for thread in (process / "task").iterdir():
            state = (thread / "stat").read_text("ascii", errors="replace").rpartition(")")[2].split()[0]
            yield thread.name, (state, (thread / "schedstat").read_text("ascii"))


def unread_of(process: Path, port: int) -> dict[str, int]:
    """Return the unread bytes of open connections to a port, in the netns of a process, by local address."""
    found = {}
    with contextlib.suppress(OSError):
        for family in ("tcp", "tcp6"):
            for line in (process / "net" / family).read_text("ascii").splitlines()[1:]:
                columns = line.split()
                if columns[_STATE] == _ESTABLISHED and int(columns[_REMOTE].rpartition(":")[2], 16) == port:
                    found[columns[_LOCAL]] = int(columns[_QUEUES].rpartition(":")[2], 16)
    return {each: size for each, size in found.items() if size}
