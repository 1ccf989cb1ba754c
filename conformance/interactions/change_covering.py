"""Choose a small set of live changes that covers each ordered pair of values of each dimension.

The changes of a dimension also cover each value of the other dimensions. The algorithm is greedy and deterministic.
Clients can observe each change, unless it is between equivalent values.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from conformance import oracle
from conformance.interactions import cells, changes, dimensions
from conformance.interactions.changes import ALIKE, VALUES, Change, cell_of
from conformance.interactions.dimensions import DIMENSIONS, Cell

CHOSEN = Path(__file__).with_name("changes.json")

Transition = tuple[str, Any, Any]
"""The name of a dimension, its value before the change, and its value after the change."""

OtherValue = tuple[str, str, Any]
"""The name of the dimension that changes, and the name and value of another dimension."""

_OTHERS = {"cluster-ip", "node-port", "load-balancer", "external-ip"}
_IMPOSSIBLE: tuple[tuple[str, Mapping[str, Iterable[Any]]], ...] = (
    ("1,200 endpoints reveal nothing about a change that 120 do not", {"endpoints": [1200]}),
    ("a load balancer sets only its own addresses", {"changes": ["ingress"], "address": _OTHERS - {"load-balancer"}}),
    (
        "the Service does not determine its external addresses of the other family",
        {"changes": ["stack"], "address": _OTHERS - {"cluster-ip"}},
    ),
    ("no endpoint answers before or after", {"changes": VALUES.keys() - {"endpoints"}, "endpoints": [0]}),
    ("no endpoint answers before or after", {"changes": VALUES.keys() - {"conditions"}, "conditions": ["all start"]}),
    (
        "terminating endpoints are used whatever their hints",
        {"changes": ["hints", "distribution"], "conditions": ["all leave"]},
    ),
    (
        "internalTrafficPolicy and the second cluster IP apply only at the cluster IP",
        {"changes": ["internal", "stack"], "address": _OTHERS - {"cluster-ip"}},
    ),
    ("a cluster IP has no route from outside", {"changes": ["internal", "stack"], "client": ["external"]}),
    ("externalTrafficPolicy applies only to clients outside", {"changes": ["external"], "client": ["pod", "node"]}),
    ("a cluster IP has no route from outside", {"changes": ["external"], "address": ["cluster-ip"]}),
    ("there is only one endpoint, with hints or without", {"changes": ["hints"], "endpoints": [1]}),
    ("all clients keep the same endpoint", {"changes": ["affinity"], "endpoints": [1]}),
)
_SHOWN_BY = ("internal", "external", "address", "client", "endpoints", "conditions", "distribution", "hints")
_REST = ("target", "protocol", "affinity", "family")
_ASSUMED = {"target": "number", "protocol": "TCP", "affinity": "None", "family": "IPv4"}
_NOT_EVERYBODYS = (
    ("family", "IPv6"),
    ("affinity", "ClientIP"),
    ("endpoints", 120),
    ("address", "load-balancer"),
    ("address", "external-ip"),
)
"""Values that require optional features. Where possible, each ordered pair of values is tested without these values."""

_APART = _NOT_EVERYBODYS[:2]
"""Values of features that many proxies lack. Where possible, these values occur only in changes that test them."""

_WEIGHTS = {("endpoints", 3): 6, ("conditions", "ready"): 3, ("target", "number"): 3}


def why_impossible(changing: str, rest: Cell) -> str:
    """Return why clients cannot observe a change of `changing` with the values of `rest`, or "" if they can."""
    return dimensions.first_reason(_IMPOSSIBLE, {**rest, "changes": changing})


def transitions() -> Iterator[Transition]:
    """Yield each ordered pair of values of each dimension."""
    for dimension, values in VALUES.items():
        yield from ((dimension, *pair) for pair in itertools.permutations(values, 2))


def other_values() -> Iterator[OtherValue]:
    """Yield each dimension with each value of each other dimension, including impossible combinations."""
    for dimension in VALUES:
        for name, values in DIMENSIONS.items():
            if name != dimension and (dimension, name) != ("distribution", "hints"):
                yield from ((dimension, name, value) for value in values)


def is_alike(transition: Transition) -> bool:
    """Return whether the two values of a transition are equivalent."""
    dimension, *values = transition
    return any(dimension == name and {*values} == alike for name, alike in ALIKE)


@cache
def of_all() -> tuple[Change, ...]:
    """Return changes that cover all possible combinations, in the order of their names.

    The changes are read from a file, because choosing them takes seconds. `python -m conformance.interactions choose`
    writes the file, and a test compares the file with `chosen`.
    """
    read = json.loads(CHOSEN.read_text(encoding="utf-8"))
    return tuple(Change(name, before, after, tuple(rest.items())) for name, before, after, rest in read)


def as_json(choice: Iterable[Change]) -> str:
    """Return changes in the JSON format of the file `CHOSEN`, one per line."""
    rows = [json.dumps([each.dimension, each.before, each.after, dict(each.rest)]) for each in choice]
    return "[\n" + ",\n".join(rows) + "\n]\n"


def chosen() -> tuple[Change, ...]:
    """Choose changes that cover all possible combinations. The choice is deterministic."""
    used: Counter[tuple[str, Any]] = Counter()
    missing = dict.fromkeys(other_values())
    choice: list[Change] = []

    def choose(transition: Transition, fixed: Cell, without: Collection[tuple[str, Any]] = ()) -> bool:
        values = _completed(transition, fixed, missing, used, without)
        if values is None:
            return False
        choice.append(Change(*transition, tuple(values.items())))
        used.update(values.items())
        used[transition[0], "transition", *transition[1:]] += 1  # type: ignore[index]
        for name, value in values.items():
            missing.pop((transition[0], name, value), None)
        return True

    for transition in transitions():
        _ = choose(transition, {}, _NOT_EVERYBODYS) or choose(transition, {})
    for dimension, name, value in other_values():
        if (dimension, name, value) in missing:
            mine = [each for each in transitions() if each[0] == dimension and not is_alike(each)]
            mine.sort(key=lambda transition: used[transition[0], "transition", *transition[1:]])  # type: ignore[index]
            next((True for each in mine if choose(each, {name: value}, _APART) or choose(each, {name: value})), False)
    return tuple(choice)


def name_of(change: Change) -> str:
    """Return the name of a change, which is also the name of its Service."""
    return f"change-{of_all().index(change)}"


def of(change: Change) -> tuple[Transition, set[OtherValue]]:
    """Return what a change covers: its transition, and the values of the other dimensions."""
    return (change.dimension, change.before, change.after), {
        (change.dimension, name, value) for name, value in change.rest
    }


def _completed(
    transition: Transition,
    fixed: Cell,
    missing: Container[OtherValue],
    used: Counter[Any],
    without: Collection[tuple[str, Any]],
) -> dict[str, Any] | None:
    """Choose other dimensions' values that let clients observe a transition, uncovered if possible, or return None."""
    dimension = transition[0]

    def search(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any] | None:
        if not _is_possible(transition, values) or (names == _REST and not _tells(transition, {**_ASSUMED, **values})):
            return None
        if not names:
            return values
        name, *rest = names
        if name in fixed or name == dimension or (dimension, name) == ("distribution", "hints"):
            return search(values, tuple(rest))
        worth = {
            value: ((dimension, name, value) not in missing, used[name, value] / _WEIGHTS.get((name, value), 1))
            for value in DIMENSIONS[name]
            if (name, value) not in without
        }
        found = (search({**values, name: value}, tuple(rest)) for value in sorted(worth, key=worth.__getitem__))
        return next((each for each in found if each is not None), None)

    return search(dict(fixed), _SHOWN_BY + _REST)


def _is_possible(transition: Transition, values: Cell) -> bool:
    dimension, *pair = transition
    many = changes.MANY in {*pair, values.get("endpoints")}
    if why_impossible(dimension, values) or (many and values.get("target", "name") != "name"):
        return False
    return not any(dimensions.why_impossible(_judged(dimension, value, values)) for value in pair)


def _judged(dimension: str, value: Any, rest: Cell) -> Cell:
    """Return the cell in which `dimension` has `value`, without a target port for 0 or 1 endpoints.

    The grid requires named target ports for many endpoints, and does not allow them for 0 or 1 endpoints. So a change
    between these numbers of endpoints is possible only without the target port.
    """
    cell = cell_of(dimension, value, rest)
    few = dimension == "endpoints" and value in {0, 1}
    return {name: each for name, each in cell.items() if not (few and name == "target")}


def _tells(transition: Transition, values: Mapping[str, Any]) -> bool:
    """Return whether both readings of the KEPs define the same outcome, and clients can observe the change."""
    dimension, *pair = transition
    many = changes.MANY in {*pair, values.get("endpoints")}
    rest = {**values, **({"target": "name"} if many else {})}
    rest.pop(dimension, None)
    change = Change(*transition, tuple(rest.items()))
    asked = [(cell, front) for cell in change.cells for front in change.fronts if changes.given(cell, front)]
    for cell, front in asked:
        for node in cells.ASKED_FROM:
            at = {**cell, "address": front.address}
            outcome = cells.outcome(at, node)
            if isinstance(outcome, oracle.UndefinedOutcome) or outcome != cells.outcome(at, node, reading="released"):
                return False
    if is_alike(transition):
        return any(changes.told(cell, front, node) for cell, front in asked for node in cells.ASKED_FROM)
    return changes.shows(change)


def group_of(change: Change) -> tuple[str, bool]:
    """Return the group of a change (from its dimension and required features), and whether hints affect it."""
    first, second = change.cells
    hints = any(map(cells.follows_hints, change.cells)) or change.dimension in {"hints", "distribution"}
    outward = {"load-balancer", "external-ip"}
    if first["family"] == "IPv6" or change.dimension == "stack":
        return "ipv6", hints
    if "ClientIP" in {first["affinity"], second["affinity"]}:
        return "affinity", hints
    if change.has_many:
        return "many endpoints", hints
    if outward & {first["address"], second["address"]}:
        return "addresses", hints
    return "core", hints
