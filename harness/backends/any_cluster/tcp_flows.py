"""Recognizes TCP tries that may have met the connection of an earlier one, which nobody answered.

A SYN to an address that its node has no rules for leaves it as it is, and connection tracking remembers that for two
minutes. A later try with the same source port follows it to nowhere, with all SYNs that it repeats, whatever the rules
are by then: no document forbids that, and no proxy is known to forget such connections. Since Linux 5.18 the kernel
begins again at another port every ten seconds, so that a port is used again after a few dozen connections already, and
neighbours of it with it. agnhost does not tell the port of a try without answer.

So who has tried in vain before is not believed when a few more of its tries among others have no answer: another pod of
its node is asked, which has not. A fault of the proxy shows there, too.
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
    """A request in which tries had no answer: when it began and ended, and how many."""

    begin: float
    end: float
    in_vain: int


class TcpFlows(Generic[T]):
    """The tries without answer of each client to each target within the last two minutes. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[T, deque[_Request]] = {}
        self._lock = threading.Lock()

    def note(self, way: T, begin: float, in_vain: int) -> None:
        """Note a request that began at that time, has ended now, and had so many tries without answer."""
        if in_vain:
            with self._lock:
                self._known.setdefault(way, deque()).append(_Request(begin, time.monotonic(), in_vain))

    def earlier(self, way: T, before: float) -> int:
        """Return how many tries had no answer, of those that began before that time and may still be remembered."""
        with self._lock:
            known = self._known.get(way, deque())
            while known and known[0].end < before - FLOW_SECONDS:
                known.popleft()
            return sum(each.in_vain for each in known if each.begin < before)

    def since(self, way: T, begin: float) -> int:
        """Return how many tries had no answer, of those that began at that time or later."""
        with self._lock:
            return sum(each.in_vain for each in self._known.get(way, ()) if each.begin >= begin)

    def doubtful(self, way: T, begin: float, tries: int) -> int:
        """Return how many of so many tries since that time had no answer, if earlier ones can explain all of those.

        They do not explain that none of several had one.
        """
        in_vain = self.since(way, begin)
        return in_vain if in_vain < max(tries, 2) and in_vain <= self.earlier(way, begin) else 0
