"""Recognizes TCP attempts that may have reused the connection of an earlier, unanswered attempt.

A SYN to an address without rules on its node leaves the node untranslated, and conntrack keeps that flow for two
minutes. A later attempt from the same source port takes the same path with all SYNs that it repeats, whatever the rules
are by then. No document forbids that, and no known proxy deletes such connections. Since Linux 5.18 the kernel restarts
the choice of source ports every ten seconds, so nearby ports are used again after a few dozen connections. agnhost does
not report the port of an unanswered attempt.

So when a client with earlier unanswered attempts receives no answer to a few more, a pod of the same node without such
attempts repeats the probe. If the proxy is at fault, the repeated probe fails too.
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
    """The start and end of a request with unanswered attempts, and the number of these attempts."""

    begin: float
    end: float
    in_vain: int


class TcpFlows(Generic[T]):
    """The unanswered attempts of each client to each destination in the last two minutes. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[T, deque[_Request]] = {}
        self._lock = threading.Lock()

    def note(self, path: T, begin: float, in_vain: int) -> None:
        """Record a request that began at `begin`, has ended now, and had this number of unanswered attempts."""
        if in_vain:
            with self._lock:
                self._known.setdefault(path, deque()).append(_Request(begin, time.monotonic(), in_vain))

    def earlier(self, path: T, before: float) -> int:
        """Return the number of unanswered attempts that began before that time and may still be tracked."""
        with self._lock:
            known = self._known.get(path, deque())
            while known and known[0].end < before - FLOW_SECONDS:
                known.popleft()
            return sum(each.in_vain for each in known if each.begin < before)

    def since(self, path: T, begin: float) -> int:
        """Return the number of unanswered attempts that began at that time or later."""
        with self._lock:
            return sum(each.in_vain for each in self._known.get(path, ()) if each.begin >= begin)

    def doubtful(self, path: T, begin: float, tries: int) -> int:
        """Return the number of unanswered attempts since that time if earlier attempts can explain all of them, else 0.

        Earlier attempts cannot explain several attempts that are all unanswered.
        """
        in_vain = self.since(path, begin)
        return in_vain if in_vain < max(tries, 2) and in_vain <= self.earlier(path, begin) else 0
