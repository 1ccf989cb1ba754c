"""Format requirements, or mutants with the requirements that kill them, as JSON or as a table."""

import fnmatch
import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import NothingSelectedError, UsageError
from harness.judging.results import requirement_to_json
from harness.model.evidence_text import as_table
from harness.model.requirements import Profile, Requirement
from harness.report.environment import catalogue_digest, name_and_version
from harness.settings.parsing import unknown_name

_WIDEST = 100
_INDENT = "    "

Row = tuple[str, str, tuple[str, ...]]  # name, a short qualifier such as the level, and sentences


def as_json(requirements: Sequence[Requirement], *, of: Sequence[Requirement], suite: Path) -> str:
    """Return requirements as JSON. `of` is the whole catalogue of the suite in the folder `suite`."""
    return _json(
        {
            "suite": {**name_and_version(suite), "catalogueDigest": catalogue_digest(of)},
            "requirements": [_values(each) for each in requirements],
        }
    )


def as_text(requirements: Sequence[Requirement], *, width: int) -> str:
    """Return requirements as a table, grouped by profile on a terminal. A width of 0 means no terminal."""
    if not width:
        return as_lines([_row(each) for each in requirements], width=0)
    rows = {profile: [_row(each) for each in requirements if each.profile == profile] for profile in Profile}
    sections = [f"{name}: {len(mine)}\n\n{as_lines(mine, width=width)}" for name, mine in rows.items() if mine]
    return "\n\n".join(sections)


def mutants(
    requirements: Sequence[Requirement], patterns: Sequence[str], *, only_killed: bool, form: str, width: int
) -> str:
    """Return the mutants and benign variants that match the patterns, as JSON or a table. Raises `UsageError`."""
    from harness.settings import mutants as known  # noqa: PLC0415  mutants import the reference

    every, benign = known.mutants(), known.benign_variants()
    for pattern in patterns:
        if not fnmatch.filter(every, pattern):
            raise UsageError(f"{unknown_name(pattern, list(every), 'mutant')}; `trafficdist list --mutants` shows all")
    chosen = [name for name in every if not patterns or any(fnmatch.fnmatchcase(name, each) for each in patterns)]
    killers = {name: [each.id for each in requirements if name in each.kills] for name in chosen}
    found = [every[name] for name in chosen if killers[name] or not only_killed]
    if not found:
        raise NothingSelectedError("the selected requirements detect none of these mutants")
    if form == "json":
        listed = [
            {
                "name": each.name,
                "benign": each.name in benign,
                "sentence": each.sentence,
                **({"provenance": each.provenance} if each.provenance else {}),
                "killedBy": killers[each.name],
            }
            for each in found
        ]
        return _json({"mutants": listed})
    rows: list[Row] = []
    for each in found:
        killed = (f"Killed by: {', '.join(killers[each.name])}",) if killers[each.name] else ()
        rows.append((each.name, "benign" if each.name in benign else "mutant", (each.sentence, *killed)))
    return as_lines(rows, width=width)


def as_lines(rows: Sequence[Row], *, width: int) -> str:
    """Return the rows for a terminal with `width` columns. A width of 0 means one line per row."""
    if not width:
        return as_table([(name, word, " ".join(sentences)) for name, word, sentences in rows])
    lines = []
    for name, word, (first, *others) in rows:
        lines.append(name)
        for text in (f"{word}  {first}", *others):
            lines += textwrap.wrap(
                text,
                max(min(width, _WIDEST), 2 * len(_INDENT)),
                initial_indent=_INDENT,
                subsequent_indent=_INDENT,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines)


def _row(requirement: Requirement) -> Row:
    return requirement.id, f"{requirement.level:<6}", (requirement.sentence,)


def _values(requirement: Requirement) -> dict[str, Any]:
    row = requirement_to_json(requirement)
    row["core"] = requirement.core
    row["features"] = [feature.name for feature in requirement.features]
    row["mustIf"] = requirement.must_if.name if requirement.must_if else ""
    return {key: value for key, value in row.items() if value != ""}


def _json(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)
