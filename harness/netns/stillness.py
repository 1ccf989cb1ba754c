"""Tells programs that hang from slow ones, by what the kernel knows of them.

Who is slow runs, or waits for a processor or a disk. Who neither runs nor wants to, look after look, while bytes that
were sent to it lie unread, will not read them by itself. A thread that hangs beside others that read is not found so.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.eventually import time_scale
from harness.netns.inhabitants import by_netns
from harness.netns.namespace import Namespace

LOOKS = 5
"""The number of looks in a row, after the first, at which a program that hangs has neither run nor wanted to."""

EVERY = 1.0
"""Seconds, before the time scale, between two looks, at least.

A right program of one thread that sleeps between two reads, or waits for an answer, looks the same for as long: with
looks every 0.2 s one that gathers changes for 1.5 s was said to hang.
"""

_WANTS = "RD"  # states of a thread that runs or waits for a processor, and that waits for a disk
_LOCAL, _REMOTE, _STATE, _QUEUES = 1, 2, 3, 4  # columns of /proc/net/tcp
_ESTABLISHED = "01"  # what lies in one that the server has closed is mostly its farewell, in a pool of connections


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen of all programs of a netns: by thread what it has run; unread bytes by connection."""

    ran: Mapping[str, str]
    unread: Mapping[str, int]
    wants: bool = False

    def stays(self, earlier: Sight) -> bool:
        """Return whether nothing has run since, nothing wants to, and what was unread then is so still."""
        unread = any(0 < size <= self.unread.get(each, 0) for each, size in earlier.unread.items())
        return bool(self.ran) and not self.wants and self.ran == earlier.ran and unread


class Stillness:
    """The programs of some places, each a netns, which read from a server at a TCP port."""

    def __init__(self, places: Mapping[str, Namespace], port: int) -> None:
        self._places, self._port = places, port
        self._looked_at = 0.0
        self._last: dict[str, Sight] = {}
        self._still: dict[str, int] = {}  # how often in a row

    def hang(self, among: Collection[str]) -> list[str]:
        """Return in which places programs hang; looks at most once a second, so it is to be asked again and again."""
        now = time.monotonic()
        if now - self._looked_at >= EVERY * time_scale():
            self._looked_at = now
            for place, sight in self._look():
                stays = place in self._last and sight.stays(self._last[place])
                self._still[place] = self._still.get(place, 0) + 1 if stays else 0
                self._last[place] = sight
        return [place for place in among if self._still.get(place, 0) >= LOOKS]

    def _look(self) -> Iterator[tuple[str, Sight]]:
        processes = by_netns()
        for place, namespace in self._places.items():
            found = processes.get(namespace.inode, [])
            unread = unread_of(found[0], self._port) if found else {}
            threads = dict(each for process in found for each in threads_of(process)) if unread else {}
            wants = any(state in _WANTS for state, _ in threads.values())
            yield place, Sight({each: ran for each, (_, ran) in threads.items()}, unread, wants)


def threads_of(process: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the threads of a process: the number, the state, and what it has run and waited. One that ends is left out.

    Without `CONFIG_SCHED_INFO` there are none.
    """
    with contextlib.suppress(OSError):
        for thread in (process / "task").iterdir():
            state = (thread / "stat").read_text("ascii", errors="replace").rpartition(")")[2].split()[0]
            yield thread.name, (state, (thread / "schedstat").read_text("ascii"))


def unread_of(process: Path, port: int) -> dict[str, int]:
    """Return how many bytes lie unread in open connections to a port, in the netns of a process, by own address."""
    found = {}
    with contextlib.suppress(OSError):
        for family in ("tcp", "tcp6"):
            for line in (process / "net" / family).read_text("ascii").splitlines()[1:]:
                columns = line.split()
                if columns[_STATE] == _ESTABLISHED and int(columns[_REMOTE].rpartition(":")[2], 16) == port:
                    found[columns[_LOCAL]] = int(columns[_QUEUES].rpartition(":")[2], 16)
    return {each: size for each, size in found.items() if size}
