"""Shrink a failing scenario: run all smaller candidates concurrently, and repeat with the smallest one that fails.

Hypothesis would run the candidates one by one, and each takes a second or more. Scenarios are independent, so running
all candidates together takes as long as running one. So a short time limit is enough.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from conformance.generated.lifecycles import (
    LIFECYCLE_FIELDS,
    Lifecycle,
    Slice,
    State,
    choices,
    switches,
    unusual,
    why_impossible,
)

Fails = Callable[[Sequence[Lifecycle]], Collection[Lifecycle]]
"""A function that runs scenarios and returns the failing ones."""


def shrunk(lifecycle: Lifecycle, fails: Fails, goes_on: Callable[[], bool]) -> Lifecycle:
    """Return the smallest failing scenario that is found while `goes_on` returns True."""
    while goes_on():
        fewer = (each for each in _smaller(lifecycle) if size(each) < size(lifecycle) and not why_impossible(each))
        smaller = sorted(dict.fromkeys(fewer), key=size)
        found = fails(smaller) if smaller else ()
        if not found:
            return lifecycle
        lifecycle = min(found, key=size)
    return lifecycle


def size(lifecycle: Lifecycle) -> tuple[int, int]:
    """Return the size of a scenario, which estimates how hard it is to read."""
    members = [member for state in lifecycle.states for each in state.slices for member in each.members]
    odd = len(unusual(lifecycle)) + sum(len(unusual(each)) for each in lifecycle.states)
    slices = sum(len(each.slices) for each in lifecycle.states)
    said = sum(len(each.zones) + len(each.nodes) + (each.condition != "ready") for each in members)
    zones = sum(len(each.zones) for each in lifecycle.states)
    parts = len(lifecycle.states) * 8 + slices * 3 + len(members) * 3 + len(lifecycle.nodes)
    return parts + zones + said, odd + _steps(lifecycle)


def _steps(lifecycle: Lifecycle) -> int:
    """Return the number of changed fields and slices between successive states."""
    return sum(
        sum(getattr(before, name) != getattr(after, name) for name in switches())
        + len({*before.slices} ^ {*after.slices})
        for before, after in itertools.pairwise(lifecycle.states)
    )


def _smaller(lifecycle: Lifecycle) -> Iterator[Lifecycle]:
    states = lifecycle.states
    for number in range(len(states)):
        if len(states) > 1:
            yield replace(lifecycle, states=(*states[:number], *states[number + 1 :]))
        yield replace(lifecycle, states=states[number:])
        yield replace(lifecycle, states=states[: number + 1])
    for node in lifecycle.nodes:
        yield replace(lifecycle, nodes=tuple(each for each in lifecycle.nodes if each != node) or lifecycle.nodes)
    for name in LIFECYCLE_FIELDS:
        yield replace(lifecycle, **{name: choices(name)[0]})
    for name in switches():
        for value in choices(name):
            yield replace(lifecycle, states=tuple(replace(each, **{name: value}) for each in states))
    for key in dict.fromkeys((one.name, one.of) for state in states for one in state.slices):
        yield _with_slices(lifecycle, partial(_unless, key))
    servers = {member.server for state in states for one in state.slices for member in one.members}
    for server in sorted(servers):
        yield _with_slices(lifecycle, partial(_without, server))
        yield _with_slices(lifecycle, partial(_plain, server, {"zones": (), "nodes": ()}))
        yield _with_slices(lifecycle, partial(_plain, server, {"condition": "ready"}))
    yield from _in_one_state(lifecycle)


def _in_one_state(lifecycle: Lifecycle) -> Iterator[Lifecycle]:
    """Yield copies of a scenario in which one state differs less from the previous state."""
    for number in range(1, len(lifecycle.states)):
        before, state = lifecycle.states[number - 1 : number + 1]
        closer = [replace(state, **{name: getattr(before, name)}) for name in switches()]
        closer.append(replace(state, slices=before.slices))
        mine = {(each.name, each.of): each for each in state.slices}
        for old in before.slices:
            kept = {**mine, (old.name, old.of): old}
            closer.append(replace(state, slices=tuple(kept.values())))
        for each in closer:
            yield replace(lifecycle, states=(*lifecycle.states[:number], each, *lifecycle.states[number + 1 :]))


def _with_slices(lifecycle: Lifecycle, change: Callable[[Slice], Slice | None]) -> Lifecycle:
    def changed(state: State) -> State:
        return replace(state, slices=tuple(new for each in state.slices if (new := change(each)) is not None))

    return replace(lifecycle, states=tuple(map(changed, lifecycle.states)))


def _unless(key: tuple[str, str], each: Slice) -> Slice | None:
    return None if (each.name, each.of) == key else each


def _without(server: int, each: Slice) -> Slice:
    return replace(each, members=tuple(member for member in each.members if member.server != server))


def _plain(server: int, values: Mapping[str, Any], each: Slice) -> Slice:
    members = (replace(member, **values) if member.server == server else member for member in each.members)
    return replace(each, members=tuple(members))
