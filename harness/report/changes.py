"""What changed between two nights: which requirement has another verdict now, where, and in which issue to say so.

Pure: from reports as `report.yaml` has them, by the name of the place where each was made, to changes and Markdown.
Only verdicts count. A requirement that is new and met is no change, one that is new and not met is.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

Report = Mapping[str, Any]

MOST_ISSUES = 10
"""When more requirements than that changed, something broke as a whole, and one issue says so."""

MOST_ROWS = 150
"""So many rows a table has; GitHub takes 65,536 characters for an issue."""

_MANY = "Verdicts changed: many requirements"


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """One verdict that is not what it was; `before` is "absent" for a requirement that is new."""

    requirement: str
    where: str
    before: str
    after: str
    message: str = ""
    versions: str = ""  # what else is not as it was: Kubernetes, the suite


@dataclass(frozen=True, slots=True)
class Issue:
    """What to open for a change; the same change has the same title every night."""

    title: str
    body: str


def changes(old: Mapping[str, Report], new: Mapping[str, Report]) -> list[Change]:
    """The changes from `old` to `new`, by requirement and place; a place without an old report has none."""
    return sorted(
        change for where, report in new.items() if where in old for change in _changes(where, old[where], report)
    )


def _changes(where: str, old: Report, new: Report) -> Iterator[Change]:
    before = {test["id"]: test["verdict"] for test in old["tests"]}
    versions = _versions(old, new)
    for test in new["tests"]:
        was, verdict = before.get(test["id"], "absent"), test["verdict"]
        if was != verdict and not (was == "absent" and verdict in {"passed", "skipped"}):
            yield Change(test["id"], where, was, verdict, test.get("message", ""), versions)


def _versions(old: Report, new: Report) -> str:
    pairs = (("Kubernetes", _kubernetes(old), _kubernetes(new)), ("suite", _suite(old), _suite(new)))
    return ", ".join(f"{name} {was} → {now}" for name, was, now in pairs if was != now)


def _kubernetes(report: Report) -> str:
    return str(report.get("kubernetesVersion", "unknown"))


def _suite(report: Report) -> str:
    suite = report.get("suite", {})
    return " ".join(filter(None, [suite.get("version", ""), suite.get("revision", "")[:10]])) or "unknown"


def as_markdown(found: Sequence[Change]) -> str:
    """One table of all changes."""
    if not found:
        return "No verdict changed."
    rows = [f"| `{each.requirement}` {_row(each)}" for each in found[:MOST_ROWS]]
    more = [f"\n… and {len(found) - MOST_ROWS} more."] if len(found) > MOST_ROWS else []
    return "\n".join(["| requirement | where | before | now | |", "|---|---|---|---|---|", *rows, *more])


def issues(found: Sequence[Change]) -> list[Issue]:
    """One issue for each requirement that changed; a single one for all when they are more than `MOST_ISSUES`."""
    by_requirement = [list(group) for _, group in groupby(sorted(found), key=lambda each: each.requirement)]
    if len(by_requirement) > MOST_ISSUES:
        return [Issue(_MANY, f"{len(by_requirement)} requirements.\n\n{as_markdown(found)}")]
    return [Issue(f"Verdict changed: {group[0].requirement}", _body(group)) for group in by_requirement]


def _body(group: Sequence[Change]) -> str:
    return "\n".join(["| where | before | now | |", "|---|---|---|---|", *map(_row, group)])


def _row(change: Change) -> str:
    message = textwrap.shorten(change.message, 120, placeholder=" …")
    said = " · ".join(filter(None, [message, change.versions])).replace("|", "\\|")
    return f"| {change.where} | {change.before} | {change.after} | {said} |"
