"""Generate lifecycles of Services with Hypothesis: node zones, Services, slices, and the steps between states.

Strategies choose among a few values, and generate no strings or large numbers. Hypothesis would also take strings and
large numbers from constants of loaded modules, but the same seed must produce the same scenarios on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

from conformance.generated.lifecycles import (
    CONDITIONS,
    NODES,
    OF,
    PORTS,
    SERVERS,
    Lifecycle,
    Slice,
    SliceEndpoint,
    State,
    choices,
    group_of,
    hints_asked,
    why_impossible,
)

V = TypeVar("V")
Draw = Callable[[st.SearchStrategy[V]], V]
Zones = tuple[tuple[str, str], ...]
"""Pairs of a node name and its zone label, only for nodes whose label is not the default."""

STATES = 4  # maximum number of states in a scenario
BATCH = 32  # number of scenarios generated for one batch; duplicates run only once

_NAMES = ("s0", "s1", "s2")
_PLACES = {"zones": ("a", "b", "c", "elsewhere"), "nodes": (*NODES, "elsewhere")}
_CONDITIONS = ("ready", "ready", "ready", *CONDITIONS)
_MORE = ("type", "external_ips", "ingress", "affinity", "dual")  # fields of optional features


def batch(group: tuple[str, bool], number: int, *, of_seed: int) -> list[Lifecycle]:
    """Return the scenarios of one batch of a group, which share a cluster. The same seed gives the same scenarios."""
    place = f"{of_seed} {group} {number}"
    zones = _generated(zones_of_nodes(), f"{place} zones", 8)[-1] if group[1] else ((),) * STATES
    return list(dict.fromkeys(_generated(lifecycles(group, zones), place, BATCH)))


def _generated(strategy: st.SearchStrategy[V], place: str, count: int) -> list[V]:
    """Return up to `count` values, which depend only on the arguments and the version of Hypothesis."""
    found: list[V] = []

    @seed(int.from_bytes(hashlib.sha256(place.encode()).digest()[:8]))
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def take(value: V) -> None:
        found.append(value)

    take()
    return found


@st.composite
def zones_of_nodes(draw: Draw[Any]) -> tuple[Zones, ...]:
    """Generate the zone labels in each state: at most one node changes or loses its zone, and may get it back later."""
    changed = draw(st.sampled_from(((), (), *NODES)))
    if not changed:
        return ((),) * STATES
    other = draw(st.sampled_from([each for each in ("", "", "a", "b", "c", "z") if each != changed[0]]))
    begin, end = draw(st.sampled_from(((1, STATES), (2, STATES), (1, 2), (2, 3), (0, 2))))
    return tuple(((changed, other),) if begin <= number < end else () for number in range(STATES))


@st.composite
def lifecycles(draw: Draw[Any], group: tuple[str, bool], zones: tuple[Zones, ...]) -> Lifecycle:
    """Generate a scenario of a group. `zones` are the node labels in each state."""
    more = group[0] == "all"
    address = draw(st.sampled_from(choices("address") if more else ("cluster-ip", "node-port")))
    client = draw(st.sampled_from(choices("client")[:2] if address == "cluster-ip" else choices("client")))
    family = draw(st.sampled_from(choices("family"))) if more and address != "node-port" else "IPv4"
    nodes = draw(st.lists(st.sampled_from(NODES), min_size=2, max_size=3, unique=True))
    moved = {node for labels in zones for node, _ in labels} - {*nodes}
    if moved and draw(st.booleans()):
        nodes[-1] = min(moved)
    state = draw(_first(address, more, group[1]))
    states = [replace(state, zones=zones[0])]
    for number in range(1, draw(st.sampled_from((2, 3, 3, STATES)))):
        for _ in range(draw(st.sampled_from((0, 1, 1, 1, 2, 3)))):
            state = draw(draw(st.sampled_from(STEPS))(state, more))
        states.append(replace(state, zones=zones[number]))
    lifecycle = Lifecycle(
        tuple(states), draw(st.sampled_from(choices("protocol"))), family, address, client, tuple(sorted(nodes))
    )
    assume(not why_impossible(lifecycle) and group_of(lifecycle) == group)
    return lifecycle


@st.composite
def _first(draw: Draw[Any], address: str, more: bool, hints: bool) -> State:
    kind = {"node-port": "NodePort", "load-balancer": "LoadBalancer", "external-ip": "NodePort"}.get(address)
    state = State(
        type=kind or draw(st.sampled_from(("ClusterIP", "NodePort"))),
        distribution=draw(st.sampled_from(choices("distribution")[1 if hints else 0 :])),
        internal=draw(st.sampled_from(choices("internal"))),
        affinity=draw(st.sampled_from(choices("affinity"))) if more else "None",
        external_ips=address == "external-ip",
        dual=draw(st.booleans()) if more else False,
    )
    if state.type != "ClusterIP":
        state = replace(state, external=draw(st.sampled_from(choices("external"))))
    slices: tuple[Slice, ...] = ()
    for name in _NAMES[: draw(st.sampled_from((1, 1, 2, 2, 3)))]:
        slices = (*slices, draw(_slices(state, name, hints)))
    return replace(state, slices=slices)


@st.composite
def _slices(draw: Draw[Any], state: State, name: str, hints: bool) -> Slice:
    of = draw(st.sampled_from(("", "", "", *OF[: 3 if state.dual else 2])))
    number = draw(st.sampled_from(range(PORTS)))
    servers = [each for each in range(len(SERVERS)) if each % PORTS == number]
    chosen = draw(st.lists(st.sampled_from(servers), unique=True, max_size=3))
    style = draw(st.sampled_from(("own", "own", "own", "odd", "none") if hints else ("none", "odd", "own")))
    members = [draw(_members(state, server, style)) for server in sorted(chosen)]
    return Slice(name, tuple(members), of)


@st.composite
def _members(draw: Draw[Any], state: State, server: int, style: str) -> SliceEndpoint:
    """Generate an endpoint. `style` selects its hints: those that a controller would write, arbitrary ones, or none."""
    member = SliceEndpoint(server, condition=draw(st.sampled_from(_CONDITIONS)))
    return member if style == "none" else draw(_hinted(state, member, style == "odd"))


@st.composite
def _hinted(draw: Draw[Any], state: State, member: SliceEndpoint, odd: bool) -> SliceEndpoint:
    both: dict[str, tuple[str, ...]] = {"zones": (member.node[0],), "nodes": (member.node,)}
    if odd:
        both = {
            name: tuple(draw(st.lists(st.sampled_from(each), unique=True, max_size=2)))
            for name, each in _PLACES.items()
        }
    return _asked(state, replace(member, zones=both["zones"], nodes=both["nodes"]))


def _asked(state: State, member: SliceEndpoint) -> SliceEndpoint:
    """Remove hints of kinds that the Service does not request."""
    asked = hints_asked(state)
    return replace(
        member, zones=member.zones if "zones" in asked else (), nodes=member.nodes if "nodes" in asked else ()
    )


# Steps. Each strategy generates the next state from the previous state.


@st.composite
def _switch(draw: Draw[Any], state: State, more: bool) -> State:
    name = draw(st.sampled_from(("distribution", "internal", "external", "exists", "type", *(_MORE if more else ()))))
    value = draw(st.sampled_from([each for each in choices(name) if each != getattr(state, name)]))
    if (name, value) == ("type", "LoadBalancer") and not more:
        value = "NodePort"
    after = replace(state, **{name: value})
    if after.type == "ClusterIP":
        after = replace(after, external="Cluster", external_ips=False)
    slices = [each for each in after.slices if after.dual or each.of != OF[2]]
    after = replace(after, slices=tuple(slices))
    return draw(_rehinted(after, more)) if name == "distribution" else after


@st.composite
def _rehinted(draw: Draw[Any], state: State, _: bool) -> State:
    style = draw(st.sampled_from(("own", "own", "odd", "none", "kept")))

    def rehinted(member: SliceEndpoint) -> SliceEndpoint:
        if style == "none":
            return replace(member, zones=(), nodes=())
        new: SliceEndpoint = _asked(state, member) if style == "kept" else draw(_hinted(state, member, style == "odd"))
        return new

    slices = [replace(each, members=tuple(map(rehinted, each.members))) for each in state.slices]
    return replace(state, slices=tuple(slices))


@st.composite
def _rewritten(draw: Draw[Any], state: State, _: bool) -> State:
    name = draw(st.sampled_from(_NAMES))
    new = draw(_slices(state, name, state.distribution is not None))
    return replace(state, slices=(*(each for each in state.slices if each.name != name), new))


@st.composite
def _deleted(draw: Draw[Any], state: State, _: bool) -> State:
    kept = draw(st.sampled_from(state.slices)).name if state.slices else ""
    return replace(state, slices=tuple(each for each in state.slices if each.name != kept))


@st.composite
def _touched(draw: Draw[Any], state: State, _: bool) -> State:
    """Remove an endpoint from a slice, or change the endpoint's condition or hints."""
    found = [(each, member) for each in state.slices for member in each.members]
    if not found:
        return state
    touched, member = draw(st.sampled_from(found))
    how = draw(st.sampled_from(("gone", "condition", "hints", "bare")))
    if how == "gone":
        new: tuple[SliceEndpoint, ...] = ()
    elif how == "condition":
        new = (replace(member, condition=draw(st.sampled_from(tuple(CONDITIONS)))),)
    elif how == "hints":
        new = (draw(_hinted(state, member, True)),)
    else:
        new = (replace(member, zones=(), nodes=()),)
    members = tuple(one for each in touched.members for one in (new if each == member else (each,)))
    return _with(state, replace(touched, members=members))


@st.composite
def _moved(draw: Draw[Any], state: State, _: bool) -> State:
    """Move all endpoints of a slice to a new slice, as a controller does when it repacks them."""
    if not state.slices:
        return state
    moved = draw(st.sampled_from(state.slices))
    free = [each for each in _NAMES if each not in {one.name for one in state.slices}] or [moved.name]
    kept = tuple(each for each in state.slices if each.name != moved.name)
    return replace(state, slices=(*kept, replace(moved, name=free[0])))


@st.composite
def _added(draw: Draw[Any], state: State, _: bool) -> State:
    if not state.slices:
        return state
    chosen = draw(st.sampled_from(state.slices))
    has = {member.server for member in chosen.members}
    number = min(has, default=0) % PORTS
    free = [each for each in range(len(SERVERS)) if each % PORTS == number and each not in has]
    if not free:
        return state
    style = draw(st.sampled_from(("own", "own", "odd", "none") if state.distribution else ("none",)))
    new = draw(_members(state, draw(st.sampled_from(free)), style))
    return _with(state, replace(chosen, members=(*chosen.members, new)))


def _with(state: State, changed: Slice) -> State:
    return replace(state, slices=tuple(changed if each.name == changed.name else each for each in state.slices))


STEPS: tuple[Callable[[State, bool], st.SearchStrategy[State]], ...] = (
    _switch,
    _switch,
    _rehinted,
    _rewritten,
    _deleted,
    _touched,
    _touched,
    _moved,
    _added,
)
