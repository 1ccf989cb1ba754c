"""Find common causes of failures: mutants whose fault explains several failures.

Each requirement lists the mutants that it kills, and each mutant has a symptom. A mutant is a likely cause if several
requirements that list the mutant fail with this symptom, and almost none of them passes. The result is only a hint.
Causes for which there is no mutant are not found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.judging.results import Result
from harness.judging.verdict import Verdict

FEWEST = 2
"""The minimum number of failures with a common cause."""

_FOR_ONE_MET = 4
"""The number of failures that a mutant must explain for each met requirement that the mutant should fail. A real fault
is seldom identical to the fault of a mutant."""

_SILENT, _REFUSED = "got no answer", "was refused"
"""Failure texts for a client that reached no endpoint. A proxy without rules for the client may cause any of them."""

_MOST_NAMED = 4  # requirements
_MOST_ALIKE = 3  # mutants that explain the same failures


@dataclass(frozen=True, slots=True)
class Cause:
    """Requirements that fail with the symptom of these mutants. `faults` are pairs of mutant name and fault."""

    requirements: tuple[str, ...]
    mutants: tuple[tuple[str, str], ...]

    def to_json(self) -> dict[str, Any]:
        mutants = [{"name": name, "fault": fault} for name, fault in self.mutants]
        return {"requirements": list(self.requirements), "mutants": mutants}

    def __str__(self) -> str:
        named = ", ".join(self.requirements[:_MOST_NAMED])
        more = len(self.requirements) - _MOST_NAMED
        alike = ", or as ".join(f"mutant {name} does: {sentence.rstrip('.')}" for name, sentence in self.mutants)
        return f"{len(self.requirements)} requirements fail as {alike} ({named}{f' and {more} more' * (more > 0)})."


def of(results: Sequence[Result]) -> list[Cause]:
    """Return likely common causes of failures, derived from the installed mutants."""
    if sum(each.verdict is Verdict.FAILED for each in results) < FEWEST:
        return []
    from harness.settings.mutants import mutants  # noqa: PLC0415  mutants import the reference

    return shared(results, {name: (mutant.sentence, mutant.symptom) for name, mutant in mutants().items()})


def shared(results: Sequence[Result], faults: Mapping[str, tuple[str, str]]) -> list[Cause]:
    """Return likely causes, ordered by the number of failures. Each failure is assigned to one cause at most.

    `faults` maps the name of a mutant to its sentence and its symptom, a pattern for the first line of a failure.
    """
    seen = {
        name: found for name, (_, symptom) in faults.items() if len(found := _seen(results, name, symptom)) >= FEWEST
    }
    causes: list[Cause] = []
    while seen:
        most = max(seen.values(), key=len)
        alike = [name for name, found in seen.items() if found == most][:_MOST_ALIKE]
        causes.append(Cause(tuple(sorted(most)), tuple((name, faults[name][0]) for name in alike)))
        rest = {name: found - most for name, found in seen.items()}
        seen = {name: found for name, found in rest.items() if len(found) >= FEWEST}
    return causes


def _seen(results: Sequence[Result], name: str, symptom: str) -> frozenset[str]:
    """Return the requirements that fail with a mutant's symptom, or none if too many requirements that kill it pass."""
    killers = [each for each in results if name in each.requirement.kills]
    met = sum(each.verdict is Verdict.PASSED for each in killers)
    failed = (each for each in killers if each.verdict is Verdict.FAILED)
    found = frozenset(each.requirement.id for each in failed if _is_alike(each.worst.message, symptom))
    return found if len(found) >= _FOR_ONE_MET * met else frozenset()


def _is_alike(message: str, symptom: str) -> bool:
    return any(re.search(symptom, text) for text in (message, message.replace(_REFUSED, _SILENT)))
