"""Elements of the kernel's maps, and the changes that lead from one target of a frontend to another.

Changes come in two parts, because one packet looks into the maps twice and the two looks may see two generations of the
ruleset:

- first: additions, replacements in place, counts, removed frontends. Atomic, and every index that a packet may have
  drawn a moment ago still has an endpoint;
- later: the endpoints beyond a count that shrank. Nothing draws them any more.

Growing needs no second part: who sees the new count sees the new endpoint, for generations only go forward.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from reference.proxy.ruleset import (
    Backend,
    Frontend,
    MapName,
    Stale,
    Sticky,
    Target,
    backends_of,
    first_index,
    identities,
    mark,
)


class MarkElement(NamedTuple):
    """An element of map `services` or `external`."""

    set_name: MapName
    frontend: Frontend
    mark: int


class EndpointElement(NamedTuple):
    """An element of map `endpoints`; `slot` is an identity where there is session affinity."""

    frontend: Frontend
    slot: int
    backend: Backend

    @property
    def set_name(self) -> str:
        return "endpoints"


class IdentityElement(NamedTuple):
    """An element of map `identities`."""

    frontend: Frontend
    slot: int
    identity: int

    @property
    def set_name(self) -> str:
        return "identities"


class HairpinElement(NamedTuple):
    """An element of set `hairpin`."""

    address: str

    @property
    def set_name(self) -> str:
        return "hairpin"


Element = MarkElement | EndpointElement | IdentityElement | HairpinElement


@dataclass(slots=True)
class Changes:
    """Elements to delete and to add, in two transactions. An element both deleted and added is replaced.

    `stale` are UDP connections that now go to the wrong place.
    """

    first_delete: list[Element] = field(default_factory=list)
    first_add: list[Element] = field(default_factory=list)
    later_delete: list[Element] = field(default_factory=list)
    stale: list[Stale] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.first_delete or self.first_add or self.later_delete)


def forwarding(name: MapName, frontend: Frontend, target: Target | None) -> list[Element]:
    """The elements by which a frontend reaches its backends."""
    first, backends = first_index(name), backends_of(target)
    if not isinstance(target, Sticky):
        return [EndpointElement(frontend, slot, each) for slot, each in enumerate(backends, first)]
    numbers = identities(name, backends)
    return [
        *(EndpointElement(frontend, number, each) for number, each in zip(numbers, backends, strict=True)),
        *(IdentityElement(frontend, slot, number) for slot, number in enumerate(numbers, first)),
    ]


def compare(changes: Changes, name: MapName, frontend: Frontend, before: Target | None, after: Target | None) -> None:
    """Add to `changes` what leads from one target of a frontend in a map to another; None is no target."""
    if isinstance(before, Sticky) or isinstance(after, Sticky):
        _compare_elements(changes, forwarding(name, frontend, before), forwarding(name, frontend, after))
    else:
        _compare_slots(changes, frontend, first_index(name), backends_of(before), backends_of(after))
    _compare_marks(changes, name, frontend, before, after)


def _compare_slots(
    changes: Changes, frontend: Frontend, first: int, old: tuple[Backend, ...], new: tuple[Backend, ...]
) -> None:
    for index in range(max(len(old), len(new))):
        was = old[index] if index < len(old) else None
        now = new[index] if index < len(new) else None
        if was == now:
            continue
        if now is None:
            assert was is not None
            changes.later_delete.append(EndpointElement(frontend, first + index, was))
            continue
        if was is not None:
            changes.first_delete.append(EndpointElement(frontend, first + index, was))
        changes.first_add.append(EndpointElement(frontend, first + index, now))


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
    changes: Changes, name: MapName, frontend: Frontend, before: Target | None, after: Target | None
) -> None:
    was = None if before is None else mark(name, before)
    now = None if after is None else mark(name, after)
    if was == now:
        return
    if was is not None:
        changes.first_delete.append(MarkElement(name, frontend, was))
    if now is not None:
        changes.first_add.append(MarkElement(name, frontend, now))
