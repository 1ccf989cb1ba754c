"""Writes to the kernel: the rules of both IP families, and deletions of stale UDP connections.

The sockets are made in the constructor, in the netns of the thread that calls it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from reference.proxy.conntrack import Allowed, Conntrack
from reference.proxy.decision import Family
from reference.proxy.metrics import Metrics
from reference.proxy.netlink import KernelError, NftSocket
from reference.proxy.nftables import KernelTable
from reference.proxy.objects import family_of
from reference.proxy.ruleset import Ruleset, Stale
from reference.proxy.state import FAMILIES, State

ROUNDS = ((0.01, False), (0.1, True))
"""UDP connections to an endpoint that left are forgotten at once, but for those to which an answer may be on its way:
they are looked at again after so many seconds, and in the end forgotten whatever may be on its way."""

TOGETHER = 0.01
"""Seconds by which a later round may wait for others: together they look through the connections once."""


class Kernel:
    """The kernel's side of one proxy's state. Methods raise `KernelError` or `OSError`."""

    def __init__(
        self,
        state: State,
        pod_cidrs: Sequence[str],
        metrics: Metrics,
        kernel_table: Callable[[NftSocket, Family], KernelTable],
    ) -> None:
        self._state = state
        self._pod_cidrs = tuple(pod_cidrs)
        self._metrics = metrics
        self._nft = NftSocket()
        self._conntrack = Conntrack()
        self._kernel = {family: kernel_table(self._nft, family) for family in FAMILIES}
        self._later: list[tuple[float, bool, float, Family, list[Stale]]] = []
        self._left: dict[tuple[Family, Stale], float] = {}

    def write(self, *, anew: bool) -> None:
        """Bring both families up to date: by what has changed, or `anew`."""
        for family, kernel in self._kernel.items():
            begin = time.perf_counter()
            try:
                self._load(family, kernel) if anew else self._apply(family, kernel)
            except (KernelError, OSError):
                self._metrics.failures[family] += 1
                raise
            self._metrics.durations[family].observe(time.perf_counter() - begin)
            self._metrics.last_synced[family] = time.time()
        if anew:
            self._conntrack.forget_all_but({family: self._udp(family) for family in FAMILIES})

    def delete(self) -> None:
        """Take all rules away."""
        for table in self._kernel.values():
            table.delete()

    def close(self) -> None:
        """Close the sockets. Rules stay."""
        self._conntrack.close()
        self._nft.close()

    def rulesets(self) -> list[Ruleset]:
        """The rules as they should be, by IP family."""
        return [self._state.ruleset(family, self._pods(family)) for family in FAMILIES]

    def patience(self) -> float | None:
        """Seconds until `forget_later` has something to do; None while there is nothing."""
        return max(0.0, self._later[0][0] + TOGETHER - time.monotonic()) if self._later else None

    def forget_later(self, now: float) -> None:
        """The later rounds that are due, together."""
        due: dict[tuple[Family, bool], list[Stale]] = defaultdict(list)
        if self._later and self._later[0][0] + TOGETHER > now:
            return
        while self._later and self._later[0][0] <= now:
            _, awaited, left, family, every = heappop(self._later)
            stale = [each for each in every if self._left.get((family, each)) == left]  # else it has left once more
            due[family, awaited] += stale
            if awaited:
                for each in stale:
                    del self._left[family, each]
        for (family, awaited), stale in due.items():
            self._conntrack.forget(family, stale, self._state.tables[family].endpoints, awaited=awaited)

    def _load(self, family: Family, kernel: KernelTable) -> None:
        table = self._state.tables[family]
        table.forget_changes()
        ruleset = self._state.ruleset(family, self._pods(family))
        kernel.load(ruleset)

    def _udp(self, family: Family) -> Allowed:
        """Return the endpoints of each service address of UDP."""
        table = self._state.tables[family]
        return {each: table.endpoints(each) for each in table.services() if each.protocol == "UDP"}

    def _apply(self, family: Family, kernel: KernelTable) -> None:
        table = self._state.tables[family]
        for changes in table.take_changes(kernel.most_elements):
            if changes:
                kernel.apply(changes)
            if stale := list(dict.fromkeys(changes.stale)):  # both maps of a service may say the same
                self._forget(family, stale)

    def _forget(self, family: Family, stale: list[Stale]) -> None:
        """The first round, and the time of the later ones."""
        self._conntrack.forget(family, stale, self._state.tables[family].endpoints, awaited=False)
        left = time.monotonic()
        self._left.update(dict.fromkeys(((family, each) for each in stale), left))
        for seconds, awaited in ROUNDS:
            heappush(self._later, (left + seconds, awaited, left, family, stale))

    def _pods(self, family: Family) -> tuple[str, ...]:
        return tuple(each for each in self._pod_cidrs if family_of(each) == family)
