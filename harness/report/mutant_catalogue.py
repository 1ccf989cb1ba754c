"""Write mutants and benign variants, with the requirements that kill them, as JSON, YAML, Markdown or a table."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import NothingSelectedError, UsageError
from harness.model.requirements import Requirement
from harness.report.listed import ListedRow, as_json, as_lines, as_yaml, markdown_row
from harness.settings.mutants import Mutant, benign_variants, mutants
from harness.settings.parsing import unknown_name


@dataclass(frozen=True, slots=True)
class Listed:
    """A mutant, and the ids of the requirements that declare to kill it. There are none for a benign variant."""

    mutant: Mutant
    killed_by: tuple[str, ...]

    @property
    def benign(self) -> bool:
        return self.mutant.name in benign_variants()


def of(requirements: Sequence[Requirement], patterns: Sequence[str], *, only_killed: bool = False) -> list[Listed]:
    """Return all mutants, or those that match a pattern. `only_killed` omits mutants that no requirement kills.

    Raises `UsageError` for a pattern without a match, and `NothingSelectedError` if the result is empty.
    """
    every = mutants()
    for pattern in patterns:
        if not fnmatch.filter(every, pattern):
            raise UsageError(f"{unknown_name(pattern, list(every), 'mutant')}; `trafficdist list --mutants` shows all")
    chosen = [name for name in every if not patterns or any(fnmatch.fnmatchcase(name, each) for each in patterns)]
    found = [Listed(every[name], tuple(each.id for each in requirements if name in each.kills)) for name in chosen]
    if only_killed:
        found = [each for each in found if each.killed_by]
    if not found:
        raise NothingSelectedError("no mutant is killed by such a requirement")
    return found


def write(listed: Sequence[Listed], form: str, *, width: int = 0) -> str:
    """Return the mutants as json, yaml, md or table. `width` is 0 if there is no terminal."""
    match form:
        case "json":
            return as_json({"mutants": [_values(each) for each in listed]})
        case "yaml":
            return as_yaml({"mutants": [_values(each) for each in listed]})
        case "md":
            return _as_markdown(listed)
    return as_lines([_row(each) for each in listed], width=width)


def _row(listed: Listed) -> ListedRow:
    killers = f"Killed by: {', '.join(listed.killed_by)}" if listed.killed_by else ""
    return ListedRow(
        listed.mutant.name,
        "benign" if listed.benign else "mutant",
        tuple(filter(None, (listed.mutant.sentence, killers))),
    )


def _values(listed: Listed) -> dict[str, Any]:
    return {
        "name": listed.mutant.name,
        "benign": listed.benign,
        "sentence": listed.mutant.sentence,
        **({"provenance": listed.mutant.provenance} if listed.mutant.provenance else {}),
        "killedBy": list(listed.killed_by),
    }


def _as_markdown(listed: Sequence[Listed]) -> str:
    lines = ["# Mutants", "", "| name | what it does | seen at | killed by |", "|---|---|---|---|"]
    for each in listed:
        killers = "nobody: it is right" if each.benign else ", ".join(f"`{one}`" for one in each.killed_by)
        lines.append(markdown_row((f"`{each.mutant.name}`", each.mutant.sentence, each.mutant.provenance, killers)))
    return "\n".join(lines)
