"""Recognizes TCP tries that may have reused the connection of an earlier, unanswered one.

A SYN to an address without rules on its node leaves the node unchanged, and connection tracking remembers that for two
minutes. A later try from the same source port goes the same path, with all SYNs that it repeats, whatever the rules are
by then. No document forbids that, and no known proxy forgets such connections. Since Linux 5.18 the kernel restarts the
choice of source ports every ten seconds, so ports near each other are used again after a few dozen connections. agnhost
does not report the port of an unanswered try.

So when a client with earlier unanswered tries gets no answer to a few more, a pod of the same node without such tries
repeats the probe. A fault of the proxy shows there too.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

FLOW_SECONDS = 120.0  # nf_conntrack_tcp_timeout_syn_sent

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Request:
    """The begin and end of a request with unanswered tries, and their number."""

    begin: float
    end: float
    in_vain: int


class TcpFlows(Generic[T]):
    """The unanswered tries of each client to each destination in the last two minutes. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[T, deque[_Request]] = {}
        self._lock = threading.Lock()

    def note(self, path: T, begin: float, in_vain: int) -> None:
        """Record a request that began at that time, has ended now, and had this number of unanswered tries."""
        if in_vain:
            with self._lock:
                self._known.setdefault(path, deque()).append(_Request(begin, time.monotonic(), in_vain))

    def earlier(self, path: T, before: float) -> int:
        """Return the number of unanswered tries that began before that time and may still be tracked."""
        with self._lock:
            known = self._known.get(path, deque())
            while known and known[0].end < before - FLOW_SECONDS:
                known.popleft()
            return sum(each.in_vain for each in known if each.begin < before)

    def since(self, path: T, begin: float) -> int:
        """Return the number of unanswered tries that began at that time or later."""
        with self._lock:
            return sum(each.in_vain for each in self._known.get(path, ()) if each.begin >= begin)

    def doubtful(self, path: T, begin: float, tries: int) -> int:
        """Return the number of unanswered tries since that time if earlier tries can explain all of them, else 0.

        They cannot explain several tries that all lack an answer.
        """
        in_vain = self.since(path, begin)
        return in_vain if in_vain < max(tries, 2) and in_vain <= self.earlier(path, begin) else 0
