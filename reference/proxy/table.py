"""The rules of one IP family on one node, as they should be, and what has changed in them.

Entries are put per owner (a service port); changes are the difference between what was taken last and what is wanted
now, so a run of events costs what differs in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator

from reference.proxy.changes import (
    Changes,
    Element,
    EndpointElement,
    HairpinElement,
    IdentityElement,
    MarkElement,
    compare,
    forwarding,
)
from reference.proxy.decision import Family
from reference.proxy.ruleset import (
    NOTHING,
    Backend,
    Entries,
    Frontend,
    MapName,
    Ruleset,
    Stale,
    Target,
    backends_of,
    mark,
    place,
)

__all__ = [
    "Changes", "Element", "EndpointElement", "HairpinElement", "IdentityElement", "MarkElement", "Table", "elements",
    "targets",
]  # fmt: skip


class Table:
    """What the kernel's table of one IP family should hold. Pure: it touches no kernel."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self._entries: dict[Hashable, Entries] = {}
        self._targets: dict[tuple[MapName, Frontend], Target] = {}
        self._owner: dict[Frontend, Hashable] = {}
        self._refused: dict[Frontend, dict[Hashable, None]] = {}
        self._hairpin: Counter[str] = Counter()
        self._touched: dict[tuple[MapName, Frontend], Target | None] = {}
        self._touched_hairpin: dict[str, bool] = {}

    def put(self, owner: Hashable, entries: Entries) -> None:
        """Give `owner` these entries instead of those that it had. A frontend belongs to whoever had it first."""
        before = self._entries.get(owner, NOTHING)
        if entries == NOTHING:
            self._entries.pop(owner, None)
        else:
            self._entries[owner] = entries
        for frontend in before.services:
            if frontend not in entries.services:
                self._release(frontend, owner)
        for frontend in entries.services:
            if frontend not in before.services:
                self._claim(frontend, owner)
            if self._owner[frontend] == owner:
                self._aim(frontend, entries)
        if entries.hairpin != before.hairpin:
            self._count(before.hairpin - entries.hairpin, -1)
            self._count(entries.hairpin - before.hairpin, +1)

    def conflicts(self, owner: Hashable) -> list[Frontend]:
        """The frontends that `owner` wants and another one has."""
        return [each for each in self._entries.get(owner, NOTHING).services if self._owner[each] != owner]

    def frontends(self) -> Iterable[Frontend]:
        """All frontends."""
        return self._owner.keys()

    def backends(self, frontend: Frontend) -> frozenset[Backend] | None:
        """Every backend to which connections to `frontend` may go now; None when it is no frontend at all."""
        if frontend not in self._owner:
            return None
        targets = (self._targets.get((name, frontend)) for name in _MAPS)
        return frozenset(each for target in targets for each in backends_of(target))

    def take_changes(self, most: int = 1 << 20) -> list[Changes]:
        """What has changed since the last call; a new part begins when one has `most` elements.

        Parts do not depend on each other: all that changes for one frontend is in one of them.
        """
        if not self._touched and not self._touched_hairpin:
            return []
        changes = Changes()
        parts = [changes]
        for frontend in dict.fromkeys([frontend for _, frontend in self._touched]):
            if len(changes.first_add) + len(changes.first_delete) >= most:
                changes = Changes()
                parts.append(changes)
            self._compare(changes, frontend)
        for address, present in self._touched_hairpin.items():
            if present and not self._hairpin[address]:
                changes.later_delete.append(HairpinElement(address))
            elif not present and self._hairpin[address]:
                changes.first_add.append(HairpinElement(address))
        self.forget_changes()
        return parts

    def _compare(self, changes: Changes, frontend: Frontend) -> None:
        for key in [(name, frontend) for name in _MAPS]:
            if key not in self._touched:
                continue
            before = self._touched[key]
            compare(changes, *key, before, self._targets.get(key))
            if frontend.protocol == "UDP":
                changes.stale += _stale(frontend, before, self.backends(frontend))

    def forget_changes(self) -> None:
        """Begin anew: what is wanted now is about to be loaded as a whole."""
        self._touched.clear()
        self._touched_hairpin.clear()

    def ruleset(self, pods: tuple[str, ...], own: tuple[str, ...]) -> Ruleset:
        """Everything, as a value."""
        targets: dict[MapName, dict[Frontend, Target]] = {"services": {}, "external": {}}
        for (name, frontend), target in self._targets.items():
            targets[name][frontend] = target
        hairpin = frozenset(address for address, count in self._hairpin.items() if count)
        return Ruleset(self.family, pods, own, targets["services"], targets["external"], hairpin)

    def _claim(self, frontend: Frontend, owner: Hashable) -> None:
        if self._owner.setdefault(frontend, owner) != owner:
            self._refused.setdefault(frontend, {})[owner] = None

    def _release(self, frontend: Frontend, owner: Hashable) -> None:
        waiting = self._refused.get(frontend, {})
        waiting.pop(owner, None)
        if self._owner[frontend] != owner:
            return
        heir = next(iter(waiting), None)
        if heir is None:
            del self._owner[frontend]
            self._refused.pop(frontend, None)
            self._aim(frontend, NOTHING)
        else:
            del waiting[heir]
            self._owner[frontend] = heir
            self._aim(frontend, self._entries[heir])

    def _aim(self, frontend: Frontend, entries: Entries) -> None:
        self._set_target("services", frontend, entries.services.get(frontend))
        self._set_target("external", frontend, entries.external.get(frontend))

    def _set_target(self, name: MapName, frontend: Frontend, wanted: Target | None) -> None:
        key = (name, frontend)
        before = self._targets.get(key)
        after = None if wanted is None else place(before, wanted)
        if after == before:
            return
        self._touched.setdefault(key, before)
        if after is None:
            del self._targets[key]
        else:
            self._targets[key] = after

    def _count(self, addresses: frozenset[str], step: int) -> None:
        for address in addresses:
            self._touched_hairpin.setdefault(address, self._hairpin[address] > 0)
            self._hairpin[address] += step
            if not self._hairpin[address]:
                del self._hairpin[address]


_MAPS: tuple[MapName, ...] = ("services", "external")


def targets(ruleset: Ruleset) -> list[tuple[MapName, Frontend, Target]]:
    """What each frontend of a ruleset leads to, by map."""
    found: list[tuple[MapName, Frontend, Target]] = []
    for name, frontends in zip(_MAPS, (ruleset.services, ruleset.external), strict=True):
        found += [(name, frontend, target) for frontend, target in frontends.items()]
    return found


def elements(ruleset: Ruleset) -> Iterator[Element]:
    """All elements of a ruleset."""
    for name, frontend, target in targets(ruleset):
        yield from forwarding(name, frontend, target)
    for address in sorted(ruleset.hairpin):
        yield HairpinElement(address)
    for name, frontend, target in targets(ruleset):
        yield MarkElement(name, frontend, mark(name, target))


def _stale(frontend: Frontend, before: Target | None, backends: frozenset[Backend] | None) -> list[Stale]:
    """Connections to endpoints that left, or to a frontend that is new: those were never translated."""
    if before is None and backends is not None:
        return [Stale(frontend, (frontend.address, frontend.port))]
    return [Stale(frontend, each) for each in backends_of(before) if each not in (backends or ())]
