"""How many first packets of client pods were lost: their kernels count the SYNs that they repeat.

A try that nobody answers repeats its SYN too, for as long as agnhost waits, which may be longer than we did. So what
such tries can have repeated is not held against anybody.
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
IN_VAIN = 4  # SYNs that are repeated in that time at most: each second (tcp_syn_linear_timeouts, since Linux 6.5)


T = TypeVar("T", bound=Hashable)


@dataclass(slots=True)
class _Known:
    total: int = 0
    since: float = 0.0  # when `total` was read
    in_vain: list[float] = field(default_factory=list)  # when tries without answer end at the latest
    is_old: bool = False  # others than those that are judged may have added to it

    def explained(self, now: float) -> int:
        """How many SYNs tries in vain can have repeated since `total` was read, at most: one a second each."""
        spans = (min(now, end) - max(self.since, end - FULL_WAIT) for end in self.in_vain)
        return sum(min(IN_VAIN, int(span) + 1) for span in spans if span > 0)

    def read(self, total: int, now: float) -> None:
        """What earlier tries have repeated is in `total`; those that have ended repeat nothing any more."""
        self.total, self.since, self.is_old = total, now, False
        self.in_vain = [end for end in self.in_vain if end > now]


class RepeatedSyns(Generic[T]):
    """Counts of the clients of one backend. `read` gives what /proc/net/netstat says where a client is."""

    def __init__(self, read: Callable[[T], str]) -> None:
        self._read = read
        self._clients: dict[T, _Known] = {}
        self._lock = threading.Lock()

    def begin(self, client: T, *, alone: bool = True) -> None:
        """What was repeated before is over, or still known, when tries begin that will be judged.

        A client that is not alone has a count to which others add at any time.
        """
        with self._lock:
            known = self._clients.setdefault(client, _Known())
            if known.in_vain or known.is_old or not alone:
                known.read(repeated_syns(self._read(client)), time.monotonic())

    def may_have_repeated(self, client: T) -> None:
        """Note that there was a try that took long, and that is not judged."""
        with self._lock:
            self._clients.setdefault(client, _Known()).is_old = True

    def in_vain(self, client: T, tries: int, *, go_on: bool = False) -> None:
        """Note that so many tries were not answered, or not waited for: those `go_on` in the pod."""
        if tries:
            with self._lock:
                known = self._clients.setdefault(client, _Known())
                known.in_vain += [time.monotonic() + (FULL_WAIT if go_on else 0.0)] * tries

    def lost(self, client: T) -> int:
        """SYNs that were repeated since this was last asked, and that no try in vain explains."""
        with self._lock:
            known = self._clients.setdefault(client, _Known())
            total, now = repeated_syns(self._read(client)), time.monotonic()
            lost = max(0, total - known.total - known.explained(now))
            known.read(total, now)
            return lost


def repeated_syns(netstat: str) -> int:
    """TcpExt TCPSynRetrans of /proc/net/netstat. Raises `InconclusiveError` when it is not there."""
    lines = [line.split() for line in netstat.splitlines() if line.startswith("TcpExt:")]
    for names, values in itertools.pairwise(lines):
        if "TCPSynRetrans" in names:
            return int(values[names.index("TCPSynRetrans")])
    raise InconclusiveError("a client pod does not say how many SYNs it repeated: /proc/net/netstat cannot be read")
