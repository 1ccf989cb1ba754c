"""Counts the lost first packets of client pods, by their kernels' counts of repeated SYNs.

A try without answer repeats its SYN too, for as long as agnhost waits, which may be longer than the harness did. So the
SYNs that such tries can have repeated do not count as lost packets.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from harness.errors import InconclusiveError

NETSTAT = "cat /proc/net/netstat"
FULL_WAIT = 5.0  # seconds that agnhost waits for an answer
IN_VAIN = 4  # the most SYNs that are repeated in that time: one a second (tcp_syn_linear_timeouts, since Linux 6.5)


T = TypeVar("T", bound=Hashable)


@dataclass(slots=True)
class _Known:
    total: int = 0
    since: float = 0.0  # when `total` was read
    in_vain: list[float] = field(default_factory=list)  # the latest ends of tries without answer
    is_old: bool = False  # tries that are not judged may have added to it

    def explained(self, now: float) -> int:
        """Return the most SYNs that tries without answer can have repeated since `total` was read."""
        spans = (min(now, end) - max(self.since, end - FULL_WAIT) for end in self.in_vain)
        return sum(min(IN_VAIN, int(span) + 1) for span in spans if span > 0)

    def read(self, total: int, now: float) -> None:
        """Set a new `total`, and forget the tries that have ended."""
        self.total, self.since, self.is_old = total, now, False
        self.in_vain = [end for end in self.in_vain if end > now]


class RepeatedSyns(Generic[T]):
    """The counts of the clients of one backend. `read` returns /proc/net/netstat of a client's netns."""

    def __init__(self, read: Callable[[T], str]) -> None:
        self._read = read
        self._clients: dict[T, _Known] = {}
        self._lock = threading.Lock()

    def begin(self, client: T, *, alone: bool = True) -> None:
        """Prepare for tries that will be judged: read the count anew unless it is current.

        A client that is not `alone` shares its count with others, so it is always read.
        """
        with self._lock:
            known = self._clients.setdefault(client, _Known())
            if known.in_vain or known.is_old or not alone:
                known.read(repeated_syns(self._read(client)), time.monotonic())

    def may_have_repeated(self, client: T) -> None:
        """Note a long try that is not judged."""
        with self._lock:
            self._clients.setdefault(client, _Known()).is_old = True

    def in_vain(self, client: T, tries: int, *, go_on: bool = False) -> None:
        """Note tries without answer; with `go_on` they were not waited for, and still run in the pod."""
        if tries:
            with self._lock:
                known = self._clients.setdefault(client, _Known())
                known.in_vain += [time.monotonic() + (FULL_WAIT if go_on else 0.0)] * tries

    def lost(self, client: T) -> int:
        """Return the SYNs repeated since the last call that no try without answer explains."""
        with self._lock:
            known = self._clients.setdefault(client, _Known())
            total, now = repeated_syns(self._read(client)), time.monotonic()
            lost = max(0, total - known.total - known.explained(now))
            known.read(total, now)
            return lost


def repeated_syns(netstat: str) -> int:
    """Return TcpExt TCPSynRetrans of /proc/net/netstat. Raises `InconclusiveError` if it is missing."""
    lines = [line.split() for line in netstat.splitlines() if line.startswith("TcpExt:")]
    for names, values in itertools.pairwise(lines):
        if "TCPSynRetrans" in names:
            return int(values[names.index("TCPSynRetrans")])
    raise InconclusiveError("a client pod does not say how many SYNs it repeated: /proc/net/netstat cannot be read")
