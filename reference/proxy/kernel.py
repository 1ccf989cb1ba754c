"""Writes the rules of both IP families to the kernel, and deletes stale UDP connections."""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence

from reference.proxy import flows
from reference.proxy.conntrack import Allowed, Conntrack
from reference.proxy.decision import Family
from reference.proxy.metrics import Metrics
from reference.proxy.netlink import KernelError, NftSocket
from reference.proxy.nftables import KernelTable
from reference.proxy.objects import family_of
from reference.proxy.ruleset import Ruleset, StaleUdp
from reference.proxy.state import FAMILIES, State

SECOND_CHECK = 0.1
"""The time in seconds between the two deletions of UDP connections to an endpoint that has left its Service.

The first deletion keeps connections that await a reply. The second one also deletes these, and connections that are
older than their Service, which have no tag, because no rule translated them. One dump finds all these connections.
"""

BATCH = 0.01
"""The maximum additional delay of a second deletion, in seconds. The delay lets one search cover several deletions."""


class KernelWriter:
    """The constructor opens sockets in the calling thread's netns. The methods raise `KernelError` or `OSError`."""

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
        self._later: deque[tuple[float, Family, list[StaleUdp]]] = deque()
        self._left: dict[tuple[Family, StaleUdp], float] = {}
        self._older: dict[Family, set[int]] = {family: set() for family in FAMILIES}

    def write(self, *, reload: bool) -> None:
        """Update the kernel's tables of both IP families: write only changes, or all rules if `reload` is true."""
        for family, kernel in self._kernel.items():
            begin = time.perf_counter()
            try:
                if reload:
                    self._state.tables[family].forget_changes()
                    kernel.load(self._state.ruleset(family, self._pods(family)))
                else:
                    self._apply(family, kernel)
            except (KernelError, OSError):
                self._metrics.failures[family] += 1
                raise
            self._metrics.durations[family].observe(time.perf_counter() - begin)
            self._metrics.last_synced[family] = time.time()
        if reload:
            self._forget_wrong()

    def delete(self) -> None:
        for table in self._kernel.values():
            table.delete()

    def close(self) -> None:
        """Close the sockets. The rules stay in the kernel."""
        self._conntrack.close()
        self._nft.close()

    def rulesets(self) -> list[Ruleset]:
        return [self._state.ruleset(family, self._pods(family)) for family in FAMILIES]

    def patience(self) -> float | None:
        """Return the time in seconds until `forget_later` has work to do, or None if no work is scheduled."""
        return max(0.0, self._later[0][0] + SECOND_CHECK + BATCH - time.monotonic()) if self._later else None

    def forget_later(self, now: float) -> None:
        """Delete stale UDP connections for the second time (see SECOND_CHECK), if this is due at the time `now`."""
        if not self._later or self._later[0][0] + SECOND_CHECK + BATCH > now:
            return
        due: dict[Family, list[StaleUdp]] = defaultdict(list)
        while self._later and self._later[0][0] + SECOND_CHECK <= now:
            left, family, every = self._later.popleft()
            for each in every:
                if self._left.get((family, each)) == left:  # otherwise the endpoint came back and left again
                    del self._left[family, each]
                    due[family].append(each)
        for family, stale in due.items():
            self._forget(family, stale, awaited=True)

    def _apply(self, family: Family, kernel: KernelTable) -> None:
        table = self._state.tables[family]
        for changes in table.take_changes(kernel.most_elements):
            if changes:
                kernel.apply(changes)
            if stale := list(dict.fromkeys(changes.stale)):  # both maps of a Service may contain the same endpoint
                self._forget(family, stale, awaited=False)
                left = time.monotonic()
                self._left.update(dict.fromkeys(((family, each) for each in stale), left))
                self._later.append((left, family, stale))

    def _forget(self, family: Family, stale: list[StaleUdp], *, awaited: bool) -> None:
        """Delete the connections `stale`. With `awaited`, also delete their tags and connections that await a reply."""
        if not awaited and not self._conntrack.entries():
            return
        endpoints, kernel, older = self._state.tables[family].endpoints, self._kernel[family], self._older[family]
        tags = {each: flows.tag(family, *each) for each in stale if not each.untranslated}
        recorded = {each for each, tag in tags.items() if kernel.has_tag(tag)}
        found = [each for each, tag in tags.items() if each in recorded or tag in older]
        if awaited:
            found += [each for each in stale if each.untranslated]
        self._conntrack.forget(family, found, endpoints, awaited=awaited)
        if awaited:
            gone = {each for each in tags if each.endpoint not in (endpoints(each.service) or ())}
            older.difference_update(tags[each] for each in gone)
            kernel.forget_tags({tags[each] for each in recorded & gone})

    def _forget_wrong(self) -> None:
        """Check all UDP connections after a reload, because the new table contains no tags yet."""
        self._older = {family: set() for family in FAMILIES}
        allowed: dict[Family, Allowed] = {
            family: {each: table.endpoints(each) for each in table.services() if each.protocol == "UDP"}
            for family, table in self._state.tables.items()
        }
        for family, flow in self._conntrack.forget_all_but(allowed):
            self._older[family].add(flow.tag)

    def _pods(self, family: Family) -> tuple[str, ...]:
        return tuple(each for each in self._pod_cidrs if family_of(each) == family)
