"""The elements of the kernel's maps, and the changes that replace one action of a service address with another.

Changes have two parts, because each packet causes two lookups, which may use two generations of the ruleset.
`first_delete` and `first_add` are applied atomically, so that every index that a packet selected before still has an
endpoint. `later_delete` contains the endpoints that packets no longer select after their count is reduced. An increased
count needs no second part: a packet that reads the new count also finds the new endpoint.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from reference.proxy.ruleset import (
    Endpoint,
    MapName,
    RuleAction,
    ServiceAddress,
    SourceRanges,
    StaleUdp,
    StickyEndpoints,
    endpoints_of,
    first_index,
    identities,
    mark,
)


class MarkElement(NamedTuple):
    name: MapName
    service: ServiceAddress
    mark: int


class EndpointElement(NamedTuple):
    """An element of the map `endpoints`. `slot` is an index, or with session affinity an identity (see `ruleset`)."""

    service: ServiceAddress
    slot: int
    endpoint: Endpoint


class IdentityElement(NamedTuple):
    service: ServiceAddress
    slot: int
    identity: int


class HairpinElement(NamedTuple):
    address: str


class RangesElement(NamedTuple):
    service: ServiceAddress
    ranges: SourceRanges


Element = MarkElement | EndpointElement | IdentityElement | HairpinElement | RangesElement


@dataclass(slots=True)
class Changes:
    """Elements to delete and to add, in two transactions. An element that is deleted and added is replaced.

    `stale` lists UDP connections whose current endpoint is no longer allowed.
    """

    first_delete: list[Element] = field(default_factory=list)
    first_add: list[Element] = field(default_factory=list)
    later_delete: list[Element] = field(default_factory=list)
    stale: list[StaleUdp] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.first_delete or self.first_add or self.later_delete)


def forwarding(name: MapName, service: ServiceAddress, action: RuleAction | None) -> list[Element]:
    """Return the elements of `endpoints` and `identities` for the action of `service` in the map `name`."""
    first, endpoints = first_index(name), endpoints_of(action)
    if not isinstance(action, StickyEndpoints):
        return [EndpointElement(service, slot, each) for slot, each in enumerate(endpoints, first)]
    numbers = identities(name, endpoints)
    return [
        *(EndpointElement(service, number, each) for number, each in zip(numbers, endpoints, strict=True)),
        *(IdentityElement(service, slot, number) for slot, number in enumerate(numbers, first)),
    ]


def compare(
    changes: Changes, name: MapName, service: ServiceAddress, before: RuleAction | None, after: RuleAction | None
) -> None:
    """Add to `changes` the elements that differ between two actions of a service address in one map."""
    if isinstance(before, StickyEndpoints) or isinstance(after, StickyEndpoints):
        _compare_elements(changes, forwarding(name, service, before), forwarding(name, service, after))
    else:
        _compare_slots(changes, service, first_index(name), endpoints_of(before), endpoints_of(after))
    _compare_marks(changes, name, service, before, after)


def _compare_slots(
    changes: Changes, service: ServiceAddress, first: int, old: tuple[Endpoint, ...], new: tuple[Endpoint, ...]
) -> None:
    for index in range(max(len(old), len(new))):
        was = old[index] if index < len(old) else None
        now = new[index] if index < len(new) else None
        if was == now:
            continue
        if now is None:
            assert was is not None
            changes.later_delete.append(EndpointElement(service, first + index, was))
            continue
        if was is not None:
            changes.first_delete.append(EndpointElement(service, first + index, was))
        changes.first_add.append(EndpointElement(service, first + index, now))


def _compare_elements(changes: Changes, before: list[Element], after: list[Element]) -> None:
    old, new = ({(*each[:-1], type(each)): each for each in elements} for elements in (before, after))
    for key, element in new.items():
        was = old.get(key)
        if was != element:
            changes.first_add.append(element)
            if was is not None:
                changes.first_delete.append(was)
    changes.later_delete += [element for key, element in old.items() if key not in new]


def _compare_marks(
    changes: Changes, name: MapName, service: ServiceAddress, before: RuleAction | None, after: RuleAction | None
) -> None:
    was = None if before is None else mark(name, before)
    now = None if after is None else mark(name, after)
    if was == now:
        return
    if was is not None:
        changes.first_delete.append(MarkElement(name, service, was))
    if now is not None:
        changes.first_add.append(MarkElement(name, service, now))
