"""Chooses the requirements of a quick run: those that find most mutants in half a minute.

A vendor who saves a file wants to know the likeliest mistakes at once. Each requirement names mutants that it finds,
and its duration is estimated. The one that finds most new mutants per second comes first, as long as time is left.
Measured durations are not used, so the same requirements run on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from harness.errors import UsageError
from harness.model.requirements import Requirement
from harness.run.machine import Machine
from harness.run.workers import count_workers, predicted, usual
from harness.settings.settings import Settings

BUDGET = 30.0
"""Seconds that a quick run may take on two processors, as `predicted`, from the start of its workers on."""

TWO_PROCESSORS = Machine(2, 8 * 1024**3)

_LEAST = 0.01  # seconds of a requirement: estimates have two decimals


@dataclass(frozen=True, slots=True)
class Quick:
    """The ids of a quick run, of how many, the number of mutants that they name, and that all name; in `seconds`."""

    ids: tuple[str, ...]
    of: int
    mutants: int
    of_mutants: int
    seconds: float

    def __str__(self) -> str:
        return f"{len(self.ids)} of {self.of} requirements, known to find {self.mutants} of {self.of_mutants} mutants"

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for the controller."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Quick:
        """Read the values of `to_json`."""
        return cls(**{**values, "ids": tuple(values["ids"])})

    def reported(self) -> dict[str, Any]:
        """Return what a report says of the choice."""
        return {
            "requirements": len(self.ids),
            "of": self.of,
            "mutants": self.mutants,
            "ofMutants": self.of_mutants,
            "expectedSeconds": round(self.seconds, 1),
        }


def choose(asked: Iterable[Requirement], seconds: Mapping[str, float], settings: Settings) -> Quick:
    """Return the choice among what a run would ask; a requirement without known seconds takes the median.

    Raises `UsageError` if nothing can be chosen, though something is asked.
    """
    kills = {each.id: frozenset(each.kills) for each in asked}
    unknown = usual(seconds)
    takes = {each: max(_LEAST, seconds.get(each, unknown)) for each in kills}
    workers = count_workers(settings, takes, TWO_PROCESSORS).number
    chosen = _cover(kills, takes, workers)
    if kills and not chosen:
        raise UsageError(f"--quick: none of {len(kills)} requirements names a mutant and ends within {BUDGET:g} s")
    found = {mutant for each in chosen for mutant in kills[each]}
    every = {mutant for mine in kills.values() for mutant in mine}
    expected = _expected(workers, chosen) if chosen else 0.0
    return Quick(tuple(sorted(chosen)), len(kills), len(found), len(every), expected)


def _cover(kills: Mapping[str, frozenset[str]], takes: Mapping[str, float], workers: int) -> dict[str, float]:
    """Return seconds by id of what finds most new mutants a second, in this order, as far as they fit."""
    chosen: dict[str, float] = {}
    new = dict(kills)  # candidates by id, with the mutants that no chosen one finds
    while new := {each: mutants for each, mutants in new.items() if mutants}:
        best = max(new, key=lambda each: (len(new[each]) / takes[each], each))
        found = new.pop(best)
        if _expected(workers, {**chosen, best: takes[best]}) <= BUDGET:
            chosen[best] = takes[best]
            new = {each: mutants - found for each, mutants in new.items()}
    return chosen


def _expected(workers: int, seconds: Mapping[str, float]) -> float:
    return predicted(workers, seconds, TWO_PROCESSORS.processors)
