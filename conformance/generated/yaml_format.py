"""Read and write scenarios as short YAML, which omits default values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from conformance.generated.lifecycles import (
    CONDITIONS,
    LIFECYCLE_FIELDS,
    NODES,
    OF,
    SERVERS,
    Lifecycle,
    Slice,
    SliceEndpoint,
    State,
    choices,
    switches,
    unusual,
    why_impossible,
)
from trafficdist import UsageError, strict_yaml

MOST_SCENARIOS = 200
_MOST = 20  # maximum number of states in a scenario, and of items in each list of a state
_PLACES = ("zones", "nodes")
_NAME = re.compile("[a-z0-9]{1,10}")
_PLACE = r"[a-z0-9.-]{1,63}"
_MEMBER = re.compile(
    r"(?P<node>[a-z0-9]{1,9})\.(?P<server>[0-9])"
    rf"(?: zones=(?P<zones>{_PLACE}(?:,{_PLACE}){{0,9}}))?(?: nodes=(?P<nodes>{_PLACE}(?:,{_PLACE}){{0,9}}))?"
    rf"(?: (?P<condition>{'|'.join(CONDITIONS)}))?"
)
_WORDS = (type(None), bool, str)


def as_yaml(lifecycles: Iterable[Lifecycle]) -> str:
    """Return scenarios as YAML that `read` can parse."""
    return yaml.safe_dump([plain(each) for each in lifecycles], sort_keys=False, default_flow_style=None, width=118)


def plain(lifecycle: Lifecycle) -> dict[str, Any]:
    """Return a scenario as a dict of plain values. Fields with default values are omitted."""
    return {**unusual(lifecycle), "nodes": list(lifecycle.nodes), "states": [_state(each) for each in lifecycle.states]}


def _state(state: State) -> dict[str, Any]:
    zones = {"zones": dict(state.zones)} if state.zones else {}
    slices = {f"{each.name} {each.of}".strip(): list(map(_member, each.members)) for each in state.slices}
    return {**unusual(state), **zones, "slices": slices}


def _member(member: SliceEndpoint) -> str:
    words = [f"{member.node}.{member.server}"]
    words += [f"{name}={','.join(places)}" for name in _PLACES if (places := getattr(member, name))]
    return " ".join([*words, *([] if member.condition == "ready" else [member.condition])])


def read(path: str) -> list[Lifecycle]:
    """Read scenarios from a file. Raises `UsageError` with the error, its position and the allowed values."""
    loaded = strict_yaml.read(path, what="file of scenarios")
    if not isinstance(loaded, list) or not 0 < len(loaded) <= MOST_SCENARIOS:
        raise UsageError(
            f"file of scenarios {path}: expected a list of 1 to {MOST_SCENARIOS} scenarios, as --generate prints them"
        )
    return [
        _ScenarioReader(f"file of scenarios {path}, scenario {number}").lifecycle(each)
        for number, each in enumerate(loaded, 1)
    ]


class _ScenarioReader:
    """Reads the values of one scenario. Each error includes `where`, the position of the scenario."""

    def __init__(self, where: str) -> None:
        self._where = where

    def lifecycle(self, value: Any) -> Lifecycle:
        given = self._mapping(value, (*LIFECYCLE_FIELDS, "nodes", "states"), "a scenario")
        states = self._list(given.get("states"), "states", _MOST)
        named = {name: self._choice(name, given[name]) for name in LIFECYCLE_FIELDS if name in given}
        if "nodes" in given:
            named["nodes"] = self._some("nodes", given["nodes"], NODES)
        lifecycle = Lifecycle(tuple(self._state(each) for each in states), **named)
        if not lifecycle.states or not lifecycle.nodes:
            raise self._wrong("expected at least one state and one node")
        if why := why_impossible(lifecycle):
            raise self._wrong(f"this scenario has no defined outcome: {why}")
        return lifecycle

    def _state(self, value: Any) -> State:
        given = self._mapping(value, (*switches(), "slices", "zones"), "a state")
        named = {name: self._choice(name, given[name]) for name in switches() if name in given}
        zones = self._mapping(given.get("zones") or {}, NODES, "zones")
        labels = tuple(sorted((node, self._word("zones", zone)) for node, zone in zones.items()))
        written = given.get("slices") or {}
        if not isinstance(written, dict) or len(written) > _MOST:
            raise self._wrong(f"slices: expected a mapping with at most {_MOST} entries")
        slices = tuple(self._slice(name, members) for name, members in written.items())
        return State(**named, slices=slices, zones=labels)

    def _slice(self, key: Any, members: Any) -> Slice:
        name, _, of = str(key).partition(" ")
        if not _NAME.fullmatch(name) or of not in OF:
            form = "at most ten lower-case letters and digits, optionally with 'another port' or 'the other family'"
            raise self._wrong(f"slice {str(key)[:40]!r}: expected {form}")
        return Slice(name, tuple(map(self._member, self._list(members, f"slice {key}", _MOST))), of)

    def _member(self, value: Any) -> SliceEndpoint:
        found = _MEMBER.fullmatch(str(value))
        if not found or int(found["server"]) >= len(SERVERS) or SERVERS[int(found["server"])] != found["node"]:
            servers = ", ".join(f"{node}.{number}" for number, node in enumerate(SERVERS))
            rest = f"zones=a,b, nodes=a1,b2 and one of {', '.join(CONDITIONS)}"
            raise self._wrong(f"endpoint {str(value)[:60]!r}: expected one of {servers}, optionally followed by {rest}")
        places = {name: tuple(found[name].split(",")) if found[name] else () for name in _PLACES}
        return SliceEndpoint(int(found["server"]), **places, condition=found["condition"] or "ready")

    def _mapping(self, value: Any, allowed: Iterable[str], what: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(f"{what}: expected a mapping, not {type(value).__name__}")
        if unknown := [str(each)[:40] for each in value if each not in allowed]:
            raise self._wrong(f"{what} has {unknown[0]!r}; allowed: {', '.join(allowed)}")
        return value

    def _list(self, value: Any, name: str, most: int) -> list[Any]:
        if not isinstance(value, list) or len(value) > most:
            raise self._wrong(f"{name}: expected a list with at most {most} items")
        return value

    def _choice(self, name: str, value: Any) -> Any:
        if (
            not isinstance(value, _WORDS)
            or value not in choices(name)
            or isinstance(value, bool) is not isinstance(choices(name)[0], bool)
        ):
            raise self._wrong(f"{name}: {str(value)[:40]!r} is not one of {', '.join(map(str, choices(name)))}")
        return value

    def _some(self, name: str, value: Any, allowed: Iterable[str]) -> tuple[str, ...]:
        found = self._list(value, name, 10)
        for each in found:
            if each not in allowed:
                raise self._wrong(f"{name}: {str(each)[:40]!r} is not one of {', '.join(allowed)}")
        return tuple(dict.fromkeys(found))

    def _word(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or len(value) > 63:
            raise self._wrong(f"{name}: {str(value)[:40]!r} is not a string of at most 63 characters")
        return value

    def _wrong(self, why: str) -> UsageError:
        return UsageError(f"{self._where}: {why}")
