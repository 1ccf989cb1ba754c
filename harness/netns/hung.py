"""Distinguish hung programs from slow programs by the kernel's counters.

A slow program runs, or waits for a processor or a disk. A program is hung if it does none of these in several
consecutive samples while data that was sent to it stays unread. A hung thread is not detected if other threads read.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.eventually import time_scale
from harness.netns.namespace import Namespace, processes_by_netns

LOOKS = 5
"""The number of consecutive samples, after the first sample, that must show a program as hung."""

EVERY = 1.0
"""The minimum time between two samples, in seconds before the time scale.

A correct single-threaded program looks hung while it sleeps between two reads: with samples every 0.2 s, a program that
batches changes for 1.5 s was reported as hung.
"""

_WANTS = "RD"  # states of a thread that runs or waits for a processor, and that waits for a disk
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
        if now - self._looked_at >= EVERY * time_scale():
            self._looked_at = now
            for place, sample in self._look():
                hung = place in self._last and sample.hung_since(self._last[place])
                self._still[place] = self._still.get(place, 0) + 1 if hung else 0
                self._last[place] = sample
        return [place for place in among if self._still.get(place, 0) >= LOOKS]

    def _look(self) -> Iterator[tuple[str, HungSample]]:
        processes = processes_by_netns()
        for place, namespace in self._places.items():
            found = processes.get(namespace.inode, [])
            unread = unread_of(found[0], self._port) if found else {}
            threads = dict(each for process in found for each in threads_of(process)) if unread else {}
            wants = any(state in _WANTS for state, _ in threads.values())
            yield place, HungSample({each: ran for each, (_, ran) in threads.items()}, unread, wants)


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
