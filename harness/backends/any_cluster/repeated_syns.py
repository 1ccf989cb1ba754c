"""Counts the lost SYNs of client pods, from the kernel's counts of retransmitted SYNs. SYNs that an unanswered attempt
may have retransmitted do not count. The SYNs of a pending request with a single attempt do not count either, because
the attempt may remain unanswered. A request is pending until the pod responds, even if the harness stops waiting.
"""

import itertools
import threading
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from harness.backends.any_cluster.pods import ClientPod
from harness.errors import InconclusiveError
from harness.probes.probe import REPEATED_SYN

NETSTAT = "cat /proc/net/netstat"
FULL_WAIT = 5.0  # seconds that agnhost waits for an answer
REPEATED = (1, 2, 3, 4, 5, 7, 11, 19, 35, 67)
"""The seconds after the first SYN at which SYNs can be repeated (tcp_syn_linear_timeouts, since Linux 6.5). The
list extends beyond agnhost's timeout, because a client on a busy machine gives up late.
"""


@dataclass(eq=False, slots=True)
class PendingRequest:
    """A request to a client. `unanswered` is the number of its attempts that are or may remain unanswered."""

    begin: float
    unanswered: int
    end: float = inf

    def explains(self, since: float, now: float) -> int:
        """Return the maximum number of SYNs that the request may have retransmitted from `since` to `now`."""
        until = min(now, self.end)
        span = until - max(since, self.begin)
        if span <= 0 or (self.end == inf and now - self.begin < REPEATED_SYN):
            return 0
        return min(self.unanswered * bisect_right(REPEATED, until - self.begin), int(span) + 1)


@dataclass(slots=True)
class _SynCount:
    total: int = 0
    since: float = 0.0  # when `total` was read
    sent: list[PendingRequest] = field(default_factory=list)  # recent requests with unanswered or pending attempts

    def read(self, total: int, since: float) -> None:
        self.total, self.since = total, since
        self.sent = [each for each in self.sent if each.end > since]


class RepeatedSyns:
    """Counts retransmitted SYNs of one backend's clients. `read` returns /proc/net/netstat of a client's netns."""

    def __init__(self, read: Callable[[ClientPod], str]) -> None:
        self._read = read
        self._clients: defaultdict[ClientPod, _SynCount] = defaultdict(_SynCount)
        self._reading, self._lock = threading.Lock(), threading.Lock()

    def begin(self, client: ClientPod, *, alone: bool = True) -> None:
        """Read a client's count unless the last value is current. `alone` is false if other clients share the count."""
        with self._reading:
            with self._lock:
                known = self._clients[client]
                is_current = alone and not known.sent
            if not is_current:
                since, total = time.monotonic(), repeated_syns(self._read(client))
                with self._lock:
                    known.read(total, since)

    def sent(self, client: ClientPod, tries: int) -> PendingRequest:
        """Record a request that starts now, with this number of sequential attempts."""
        sent = PendingRequest(time.monotonic(), int(tries == 1))  # several attempts go only to an address that answered
        with self._lock:
            self._clients[client].sent.append(sent)
        return sent

    def ended(self, client: ClientPod, sent: PendingRequest, unanswered: int, *, goes_on: float = 0.0) -> None:
        """Record how many attempts were unanswered, and for how many more seconds (`goes_on`) the pod may send SYNs."""
        with self._lock:
            sent.unanswered, sent.end = unanswered, time.monotonic() + goes_on
            if not unanswered or sent.end - sent.begin < REPEATED_SYN:
                self._clients[client].sent.remove(sent)

    def lost(self, client: ClientPod) -> int:
        """Return how many SYNs were retransmitted since the last reading, except those of unanswered attempts."""
        with self._reading:
            since, total, now = time.monotonic(), repeated_syns(self._read(client)), time.monotonic()
            with self._lock:
                known = self._clients[client]
                explained = sum(each.explains(known.since, now) for each in known.sent)
                lost = max(0, total - known.total - explained)
                known.read(total, since)
                return lost


def repeated_syns(netstat: str) -> int:
    """Return the counter TCPSynRetrans from /proc/net/netstat. Raises `InconclusiveError` if it is missing."""
    lines = [line.split() for line in netstat.splitlines() if line.startswith("TcpExt:")]
    for names, values in itertools.pairwise(lines):
        if "TCPSynRetrans" in names:
            return int(values[names.index("TCPSynRetrans")])
    raise InconclusiveError("a client pod does not report retransmitted SYNs: /proc/net/netstat cannot be read")
