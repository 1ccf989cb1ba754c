"""How many first packets of client pods were lost: their kernels count the SYNs that they repeat.

A try that nobody answers repeats its SYN too, for as long as agnhost waits, which may be longer than we did. So what
such tries can have repeated is not held against anybody.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from harness.errors import InconclusiveError

NETSTAT = "cat /proc/net/netstat"
FULL_WAIT = 5.0  # seconds that agnhost waits for an answer
IN_VAIN = 4  # SYNs that are repeated in that time at most: each second (tcp_syn_linear_timeouts, since Linux 6.5)


T = TypeVar("T", bound=Hashable)


@dataclass(slots=True)
class _Known:
    total: int = 0
    in_vain: int = 0  # tries without answer, of the last seconds
    last: float = 0.0  # when the last of them was

    def forget(self) -> None:
        """Tries in vain that have ended repeat nothing any more; all that they did is in `total`."""
        if time.monotonic() - self.last > FULL_WAIT:
            self.in_vain = 0


class RepeatedSyns(Generic[T]):
    """Counts of the clients of one backend. `read` gives what /proc/net/netstat says where a client is."""

    def __init__(self, read: Callable[[T], str]) -> None:
        self._read = read
        self._clients: dict[T, _Known] = {}
        self._lock = threading.Lock()

    def begin(self, client: T, *, alone: bool = True) -> None:
        """What earlier tries in vain have repeated is over, or still known, when new ones begin.

        A client that is not alone has a count to which others add at any time.
        """
        with self._lock:
            known = self._clients.setdefault(client, _Known())
            if known.in_vain or not alone:
                known.total = repeated_syns(self._read(client))
                known.forget()

    def in_vain(self, client: T, tries: int) -> None:
        """Note that so many tries were not answered."""
        if tries:
            with self._lock:
                known = self._clients.setdefault(client, _Known())
                known.in_vain, known.last = known.in_vain + tries, time.monotonic()

    def lost(self, client: T) -> int:
        """SYNs that were repeated since this was last asked, and that no try in vain explains."""
        with self._lock:
            known = self._clients.setdefault(client, _Known())
            before, known.total = known.total, repeated_syns(self._read(client))
            lost = max(0, known.total - before - IN_VAIN * known.in_vain)
            known.forget()
            return lost


def repeated_syns(netstat: str) -> int:
    """TcpExt TCPSynRetrans of /proc/net/netstat. Raises `InconclusiveError` when it is not there."""
    lines = [line.split() for line in netstat.splitlines() if line.startswith("TcpExt:")]
    for names, values in itertools.pairwise(lines):
        if "TCPSynRetrans" in names:
            return int(values[names.index("TCPSynRetrans")])
    raise InconclusiveError("a client pod does not say how many SYNs it repeated: /proc/net/netstat cannot be read")
