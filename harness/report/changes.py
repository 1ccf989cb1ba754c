"""Find verdicts that changed between two nightly runs, and write an issue for each requirement with a change."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from harness.model.escaping import for_code, for_line, for_markdown
from harness.model.requirements import Profile
from harness.run.plan import not_selected

Report = Mapping[str, Any]

MOST_ISSUES = 10
"""If more requirements change, they probably have a common cause, so a single issue reports all changes."""

MOST_ROWS = 150
"""The maximum number of rows in a table. GitHub allows 65,536 characters in an issue."""

ABSENT = "absent"

_MANY = "Verdicts changed: many requirements"


@dataclass(frozen=True, slots=True, order=True)
class VerdictChange:
    """One changed verdict. `before` is "absent" for a new requirement, and `after` is "absent" for a removed one."""

    requirement: str
    where: str
    before: str
    after: str
    message: str = ""
    versions: str = ""  # changes of the versions of Kubernetes and the suite
    level: str = "MUST"


@dataclass(frozen=True, slots=True)
class NightlyIssue:
    """An issue about one requirement or about many. All issues about the same requirement have the same title."""

    title: str
    body: str


def changes(old: Mapping[str, Report], new: Mapping[str, Report]) -> list[VerdictChange]:
    """Return the changes from `old` to `new`, sorted by requirement and folder. Skip folders without an old report."""
    return sorted(
        change for where, report in new.items() if where in old for change in _changes(where, old[where], report)
    )


def _changes(where: str, old: Report, new: Report) -> Iterator[VerdictChange]:
    before = {test["id"]: test["verdict"] for test in old["tests"]}
    versions = _versions(old, new)
    for test in _missing(old, new, left_out=False):
        yield VerdictChange(test["id"], where, test["verdict"], ABSENT, "", versions, test["level"])
    for test in new["tests"]:
        was, verdict = before.get(test["id"], ABSENT), test["verdict"]
        if was != verdict and not (was == ABSENT and (_left_out(test, old) or verdict in {"passed", "skipped"})):
            yield VerdictChange(test["id"], where, was, verdict, test.get("message", ""), versions, test["level"])


def _missing(report: Report, other: Report, *, left_out: bool) -> list[Mapping[str, Any]]:
    """Return the tests that `other` lacks and that options of its run may (if `left_out`) or cannot have excluded."""
    listed = {test["id"] for test in other["tests"]}
    return [each for each in report["tests"] if each["id"] not in listed and _left_out(each, other) is left_out]


def _left_out(test: Mapping[str, Any], report: Report) -> bool:
    """Return whether options of a run may have excluded this test, which its report does not list."""
    run, profile = report.get("run", {}), test.get("profile", "").lower()
    of_profiles: Mapping[str, str] = {not_selected(each): each for each in Profile}
    return "quick" in run or any(of_profiles.get(reason, profile) == profile for reason in run.get("deselected", ()))


def _versions(old: Report, new: Report) -> str:
    pairs = (("Kubernetes", _kubernetes(old), _kubernetes(new)), ("suite", _suite(old), _suite(new)))
    return ", ".join(f"{name} {was} → {now}" for name, was, now in pairs if was != now)


def _kubernetes(report: Report) -> str:
    return str(report.get("kubernetesVersion", "unknown"))


def _suite(report: Report) -> str:
    suite = report.get("suite", {})
    return " ".join(filter(None, [suite.get("version", ""), suite.get("revision", "")[:10]])) or "unknown"


def new_ones(old: Mapping[str, Report], new: Mapping[str, Report]) -> list[str]:
    both = [(old[where], report) for where, report in new.items() if where in old]
    return sorted({test["id"] for before, now in both for test in _missing(now, before, left_out=False)})


def not_compared(old: Mapping[str, Report], new: Mapping[str, Report]) -> int:
    """Return the number of requirements in one report that options of the other run may have excluded."""
    both = [(old[where], new[where]) for where in old.keys() & new.keys()]
    pairs = [*both, *((now, before) for before, now in both)]
    return len({test["id"] for one, other in pairs for test in _missing(one, other, left_out=True)})


def as_markdown(
    found: Sequence[VerdictChange], news: Sequence[str] = (), refused: Sequence[tuple[str, str]] = ()
) -> str:
    """Return Markdown with all changes, new requirements, and refused reports with their reasons."""
    blocks = [_table(found) if found else "No verdict changed."]
    if news:
        more = f" and {len(news) - MOST_ROWS} more" if len(news) > MOST_ROWS else ""
        blocks.append(f"New: {', '.join(f'`{for_code(each)}`' for each in news[:MOST_ROWS])}{more}.")
    if refused:
        blocks.append(
            "\n".join(
                f"- Not verified: {for_markdown(where)} ({for_markdown(why)})." for where, why in refused[:MOST_ROWS]
            )
        )
    return "\n\n".join(blocks)


def _table(found: Sequence[VerdictChange]) -> str:
    rows = [f"| `{for_code(each.requirement)}` {_row(each)}" for each in found[:MOST_ROWS]]
    more = [f"\n… and {len(found) - MOST_ROWS} more."] if len(found) > MOST_ROWS else []
    return "\n".join(["| requirement | where | before | now | |", "|---|---|---|---|---|", *rows, *more])


def issues(found: Sequence[VerdictChange]) -> list[NightlyIssue]:
    by_requirement = [list(group) for _, group in groupby(sorted(found), key=lambda each: each.requirement)]
    if len(by_requirement) > MOST_ISSUES:
        return [NightlyIssue(_MANY, f"{len(by_requirement)} requirements.\n\n{as_markdown(found)}")]
    head = ["| where | before | now | |", "|---|---|---|---|"]
    return [
        NightlyIssue(f"Verdict changed: {for_line(group[0].requirement)}", "\n".join([*head, *map(_row, group)]))
        for group in by_requirement
    ]


def _row(change: VerdictChange) -> str:
    message = textwrap.shorten(change.message, 120, placeholder=" …")
    level = "" if change.level == "MUST" else change.level
    said = for_markdown(" · ".join(filter(None, [level, message, change.versions])))
    return f"| {for_markdown(change.where)} | {change.before} | {change.after} | {said} |"
