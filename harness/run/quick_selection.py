"""Choose the requirements that find the most mutants in half a minute. The choice does not depend on the machine."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError
from harness.model.requirements import Requirement
from harness.run.workers import Machine, count_workers, predicted, usual
from harness.settings.settings import Settings

BUDGET = 30.0  # the maximum predicted time of a quick run on two CPUs, in seconds after its workers start
TWO_CPUS = Machine(2, 8 * 1024**3)
_LEAST = 0.01  # the minimum seconds of a requirement, because the tables have two decimals


@dataclass(frozen=True, slots=True)
class QuickSelection:
    """The `ids` chosen among `of` requirements, the number of mutants that they find, and the predicted `seconds`."""

    ids: tuple[str, ...]
    of: int
    mutants: int
    of_mutants: int
    seconds: float

    def __str__(self) -> str:
        return f"{len(self.ids)} of {self.of} requirements, known to find {self.mutants} of {self.of_mutants} mutants"

    def reported(self) -> dict[str, Any]:
        return {
            "requirements": len(self.ids),
            "of": self.of,
            "mutants": self.mutants,
            "ofMutants": self.of_mutants,
            "expectedSeconds": round(self.seconds, 1),
        }


def choose(asked: Iterable[Requirement], seconds: Mapping[str, float], settings: Settings) -> QuickSelection:
    """Choose among the requirements of a run. Raises `UsageError` if none of them finds a mutant in time."""
    kills = {each.id: frozenset(each.kills) for each in asked}
    unknown = usual(seconds)
    takes = {each: max(_LEAST, seconds.get(each, unknown)) for each in kills}
    workers = count_workers(settings, takes, TWO_CPUS)
    chosen = _cover(kills, takes, workers)
    if kills and not chosen:
        raise UsageError(f"--quick: none of {len(kills)} requirements detects a mutant and ends within {BUDGET:g} s")
    found = {mutant for each in chosen for mutant in kills[each]}
    every = {mutant for mine in kills.values() for mutant in mine}
    expected = _expected(workers, chosen) if chosen else 0.0
    return QuickSelection(tuple(sorted(chosen)), len(kills), len(found), len(every), expected)


def _cover(kills: Mapping[str, frozenset[str]], takes: Mapping[str, float], workers: int) -> dict[str, float]:
    """Choose requirements greedily by new mutants per second, for up to `BUDGET` s. Return durations by id."""
    chosen: dict[str, float] = {}
    new = dict(kills)  # by candidate id, the mutants that no chosen requirement finds
    while new := {each: mutants for each, mutants in new.items() if mutants}:
        best = max(new, key=lambda each: (len(new[each]) / takes[each], each))
        found = new.pop(best)
        if _expected(workers, {**chosen, best: takes[best]}) <= BUDGET:
            chosen[best] = takes[best]
            new = {each: mutants - found for each, mutants in new.items()}
    return chosen


def _expected(workers: int, seconds: Mapping[str, float]) -> float:
    return predicted(workers, seconds, TWO_CPUS.cpus)
