"""The desired rules of one IP family on one node, and their changes since the last call of `take_changes`."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from reference.proxy.changes import Changes, Element, HairpinElement, MarkElement, RangesElement, compare, forwarding
from reference.proxy.decision import Family
from reference.proxy.ruleset import (
    NOTHING,
    Endpoint,
    MapName,
    PortEntries,
    RuleAction,
    Ruleset,
    ServiceAddress,
    SourceRanges,
    StaleUdp,
    endpoints_of,
    mark,
    place,
)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Table:
    """The desired content of the kernel's table of one IP family. This class does not access the kernel."""

    def __init__(self, family: Family, place: Callable[[RuleAction | None, RuleAction], RuleAction] = place) -> None:
        self.family = family
        self._place = place
        self._entries: dict[Hashable, PortEntries] = {}
        self._actions: dict[tuple[MapName, ServiceAddress], RuleAction] = {}
        self._owner: dict[ServiceAddress, Hashable] = {}
        self._refused: dict[ServiceAddress, dict[Hashable, None]] = {}
        self._hairpin: Counter[str] = Counter()
        self._touched: dict[tuple[MapName, ServiceAddress], RuleAction | None] = {}
        self._touched_hairpin: dict[str, bool] = {}
        self._ranges: dict[ServiceAddress, SourceRanges] = {}
        self._touched_ranges: dict[ServiceAddress, SourceRanges | None] = {}

    def put(self, owner: Hashable, entries: PortEntries) -> None:
        """Replace the entries of `owner` (a service port). The first owner that claims a service address keeps it."""
        before = self._entries.get(owner, NOTHING)
        if entries == NOTHING:
            self._entries.pop(owner, None)
        else:
            self._entries[owner] = entries
        for service in before.services:
            if service not in entries.services:
                self._release(service, owner)
        for service in entries.services:
            if service not in before.services and self._owner.setdefault(service, owner) != owner:
                self._refused.setdefault(service, {})[owner] = None
            if self._owner[service] == owner:
                self._set_actions(service, entries)
        if entries.hairpin != before.hairpin:
            self._count(before.hairpin - entries.hairpin, -1)
            self._count(entries.hairpin - before.hairpin, +1)

    def conflicts(self, owner: Hashable) -> list[ServiceAddress]:
        """Return the service addresses that `owner` claims but another owner has."""
        return [each for each in self._entries.get(owner, NOTHING).services if self._owner[each] != owner]

    def services(self) -> Iterable[ServiceAddress]:
        return self._owner.keys()

    def endpoints(self, service: ServiceAddress) -> frozenset[Endpoint] | None:
        """Return all endpoints that may receive connections to `service`, or None if no owner has this address."""
        if service not in self._owner:
            return None
        actions = (self._actions.get((name, service)) for name in _MAPS)
        return frozenset(each for action in actions for each in endpoints_of(action))

    def take_changes(self, most: int = 1 << 20) -> list[Changes]:
        """Return the changes since the last call, split into independent parts of about `most` elements or fewer.

        All changes of one service address, except its source ranges, are in one part.
        """
        if not self._touched and not self._touched_hairpin and not self._touched_ranges:
            return []
        changes = Changes()
        parts = [changes]
        self._compare_ranges(changes)
        for service in dict.fromkeys([service for _, service in self._touched]):
            if len(changes.first_add) + len(changes.first_delete) >= most:
                changes = Changes()
                parts.append(changes)
            self._compare(changes, service)
        for address, present in self._touched_hairpin.items():
            if present and not self._hairpin[address]:
                changes.later_delete.append(HairpinElement(address))
            elif not present and self._hairpin[address]:
                changes.first_add.append(HairpinElement(address))
        self.forget_changes()
        return parts

    def _compare(self, changes: Changes, service: ServiceAddress) -> None:
        for key in [(name, service) for name in _MAPS]:
            if key not in self._touched:
                continue
            before = self._touched[key]
            compare(changes, *key, before, self._actions.get(key))
            if service.protocol == "UDP":
                changes.stale += _stale(service, before, self.endpoints(service))

    def _compare_ranges(self, changes: Changes) -> None:
        for service, before in self._touched_ranges.items():
            after = self._ranges.get(service)
            if before == after:
                continue
            if before is not None:
                changes.first_delete.append(RangesElement(service, before))
            if after is not None:
                changes.first_add.append(RangesElement(service, after))

    def forget_changes(self) -> None:
        """Discard the recorded changes, before the whole table is loaded."""
        self._touched.clear()
        self._touched_hairpin.clear()
        self._touched_ranges.clear()

    def ruleset(self, pods: tuple[str, ...], own: tuple[str, ...]) -> Ruleset:
        actions: dict[MapName, dict[ServiceAddress, RuleAction]] = {"services": {}, "external": {}}
        for (name, service), action in self._actions.items():
            actions[name][service] = action
        hairpin = frozenset(address for address, count in self._hairpin.items() if count)
        return Ruleset(self.family, pods, own, actions["services"], actions["external"], hairpin, dict(self._ranges))

    def _release(self, service: ServiceAddress, owner: Hashable) -> None:
        waiting = self._refused.get(service, {})
        waiting.pop(owner, None)
        if self._owner[service] != owner:
            return
        successor = next(iter(waiting), None)
        if successor is None:
            del self._owner[service]
            self._refused.pop(service, None)
            self._set_actions(service, NOTHING)
        else:
            del waiting[successor]
            self._owner[service] = successor
            self._set_actions(service, self._entries[successor])

    def _set_actions(self, service: ServiceAddress, entries: PortEntries) -> None:
        self._set_action("services", service, entries.services.get(service))
        self._set_action("external", service, entries.external.get(service))
        _replace(self._ranges, service, entries.ranges.get(service), self._touched_ranges)

    def _set_action(self, name: MapName, service: ServiceAddress, wanted: RuleAction | None) -> None:
        key = (name, service)
        after = None if wanted is None else self._place(self._actions.get(key), wanted)
        _replace(self._actions, key, after, self._touched)

    def _count(self, addresses: frozenset[str], step: int) -> None:
        for address in addresses:
            self._touched_hairpin.setdefault(address, self._hairpin[address] > 0)
            self._hairpin[address] += step
            if not self._hairpin[address]:
                del self._hairpin[address]


def _replace(values: dict[_Key, _Value], key: _Key, wanted: _Value | None, touched: dict[_Key, _Value | None]) -> None:
    """Set a value, or delete it if `wanted` is None. `touched` records the value before its first change."""
    before = values.get(key)
    if wanted == before:
        return
    touched.setdefault(key, before)
    if wanted is None:
        del values[key]
    else:
        values[key] = wanted


_MAPS: tuple[MapName, ...] = ("services", "external")


def actions(ruleset: Ruleset) -> list[tuple[MapName, ServiceAddress, RuleAction]]:
    found: list[tuple[MapName, ServiceAddress, RuleAction]] = []
    for name, services in zip(_MAPS, (ruleset.services, ruleset.external), strict=True):
        found += [(name, service, action) for service, action in services.items()]
    return found


def elements(ruleset: Ruleset) -> Iterator[Element]:
    for name, service, action in actions(ruleset):
        yield from forwarding(name, service, action)
    for address in sorted(ruleset.hairpin):
        yield HairpinElement(address)
    yield from (RangesElement(service, ranges) for service, ranges in ruleset.ranges.items())
    for name, service, action in actions(ruleset):
        yield MarkElement(name, service, mark(name, action))


def _stale(service: ServiceAddress, before: RuleAction | None, endpoints: frozenset[Endpoint] | None) -> list[StaleUdp]:
    """Return UDP connections to removed endpoints, or untranslated connections to a new service address."""
    if before is None and endpoints is not None:
        return [StaleUdp(service, (service.address, service.port))]
    return [StaleUdp(service, each) for each in endpoints_of(before) if each not in (endpoints or ())]
