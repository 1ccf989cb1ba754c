"""Compute a small set of cells that covers every pair of values of two dimensions, and the important triples.

The algorithm is greedy and deterministic. Each cell begins with a combination that is not covered yet. `RowBuilder`
chooses the values of the other dimensions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from conformance.interactions.dimensions import BOUND, DIMENSIONS, Cell, why_impossible
from trafficdist import RowBuilder

_WEIGHTS = {("affinity", "None"): 6, ("endpoints", 3): 4, ("endpoints", 12): 4, ("conditions", "ready"): 3}
"""Weights for tie-breaking between values. Values that reveal more faults or cost less have larger weights."""

Combination = frozenset[tuple[str, Any]]
"""Values of two or three dimensions, as pairs of a dimension's name and its value."""


WAYS = {"address", "client", "internal", "external", "family", "protocol", "affinity"}
"""All triples of these dimensions are covered, and all triples of two of them with hints or conditions."""

MUTE = {("endpoints", 0), ("conditions", "all start")}
"""Values with which no endpoint answers, which hides the effect of the other values of the cell."""


def combinations() -> Iterator[Combination]:
    """Yield all pairs of values and all important triples, including impossible combinations."""
    names = list(DIMENSIONS)
    triples = (each for each in itertools.combinations(names, 3) if _asked(each))
    for chosen in itertools.chain(itertools.combinations(names, 2), triples):
        for values in itertools.product(*(DIMENSIONS[name] for name in chosen)):
            yield frozenset(zip(chosen, values, strict=True))


def _asked(names: Sequence[str]) -> bool:
    """Return whether triples of these dimensions must be covered: as in `WAYS`, or `distribution` with a policy."""
    if "distribution" in names and {"internal", "external"} & {*names}:
        return True
    return len(WAYS & {*names}) >= 2 and {*names} <= WAYS | {"hints", "conditions"}


def shows(cell: Cell, combination: Combination) -> bool:
    """Return whether a complete or partial cell covers this combination of its values.

    If no endpoint can answer, only the values that prevent answers have a visible effect. With a `Local` policy, hints
    have no visible effect.
    """
    mute = MUTE & cell.items()
    if mute and not mute & combination:
        return False
    side = "external" if cell.get("client") == "external" else "internal" if cell.get("address") == "cluster-ip" else ""
    hinted = any(name == "hints" for name, _ in combination)
    return not (hinted and cell.get(side) == "Local" and (side, "Local") not in combination)


def can_be(values: Mapping[str, Any]) -> bool:
    """Return whether any possible cell has these values."""
    return _can_be(frozenset((name, value) for name, value in values.items() if name in BOUND))


@cache
def _can_be(values: frozenset[tuple[str, Any]]) -> bool:
    cell = dict(values)
    if why_impossible(cell):
        return False
    free = next((name for name in BOUND if name not in cell), None)
    return free is None or any(_can_be(values | {(free, each)}) for each in DIMENSIONS[free])


@cache
def possible() -> frozenset[Combination]:
    """Return the combinations that occur in at least one possible cell."""
    return frozenset(each for each in combinations() if can_be(dict(each)))


def of(cell: Cell) -> set[Combination]:
    """Return the pairs and important triples that a cell covers."""
    pairs = itertools.combinations(cell.items(), 2)
    triples = (each for each in itertools.combinations(cell.items(), 3) if _asked([name for name, _ in each]))
    found = map(frozenset, itertools.chain(pairs, triples))
    return {each for each in found if shows(cell, each)}


@cache
def cells() -> tuple[Cell, ...]:
    """Return cells that cover all possible combinations. The result is deterministic."""
    missing = dict.fromkeys(each for each in combinations() if each in possible())

    def gain(cell: Cell, name: str, value: Any) -> int:
        new = (name, value)
        pairs = (frozenset((new, each)) for each in cell.items())
        triples = (frozenset((new, *each)) for each in itertools.combinations(cell.items(), 2))
        grown = {**cell, name: value}
        return sum(each in missing and shows(grown, each) for each in itertools.chain(pairs, triples))

    rows = RowBuilder(gain, _WEIGHTS)
    chosen: list[Cell] = []
    while missing:
        seed = next(iter(missing))
        chosen.append(rows.build(dict(seed), [(name, partial(_fitting, name, seed)) for name in DIMENSIONS]))
        for each in of(chosen[-1]):
            missing.pop(each, None)
    return tuple(chosen)


def _fitting(name: str, seed: Combination, cell: Cell) -> list[Any]:
    """Return the values of a dimension with which a cell is possible and covers `seed`."""
    grown = [(value, {**cell, name: value}) for value in DIMENSIONS[name]]
    return [value for value, each in grown if can_be(each) and shows(each, seed)]
