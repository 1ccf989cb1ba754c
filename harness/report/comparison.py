"""Compare several conformance reports in a table of features and a table of verdicts that differ."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.judging.results import Outcome, outcome
from harness.model import verdict_basis
from harness.model.escaping import for_code, for_markdown
from harness.model.requirements import Profile
from harness.model.times import whole
from harness.report.outcomes import COLUMNS, SHOWN
from harness.report.reactions import by_kind

Report = Mapping[str, Any]

NOT_RUN = "-"
MARKS = {outcome: NOT_RUN if outcome is Outcome.NOT_RUN else shown.mark for outcome, shown in SHOWN.items()}

MET = MARKS[Outcome.MET]
KEY = ", ".join(f"{MARKS[each]} {SHOWN[each].meaning}" for each in COLUMNS) + "."


_WITH_A_PROXY = {Profile.SERVICE_PROXY, Profile.CLUSTER}


def judged_by(report: Report) -> str:
    """Return the basis of a report's verdicts: packets or decisions. Older trafficdist versions judged only packets."""
    return str(report.get("judges", verdict_basis.PACKETS))


def mode_of(report: Report) -> str:
    profiles = {each["name"].lower() for each in report.get("profiles") or ()}
    return "" if profiles and not profiles & _WITH_A_PROXY else str(report.get("mode") or "")


def title_of(report: Report) -> str:
    """Return the column header for the implementation of a report: project, version, mode, and "(decisions)"."""
    implementation, by = report["implementation"], verdict_basis.mark(judged_by(report))
    parts = (implementation.get("project"), implementation.get("version"), mode_of(report), by)
    return for_markdown(" ".join(str(each) for each in parts if each))


def as_markdown(reports: Sequence[Report], refused: Sequence[str] = ()) -> str:
    """Return Markdown tables of versions and modes, features, reactions to changes, and verdicts that differ.

    The mark in a cell shows the worst outcome. For a single report, the last table lists the requirements that are not
    met. `refused` contains the reason why each report failed verification, or "" if it passed.
    """
    by_id = [{test["id"]: test for test in report["tests"]} for report in reports]
    heads = _heads(reports)
    features = sorted({name for tests in by_id for test in tests.values() for name in test["features"]})
    ids = sorted({name for tests in by_id for name in tests})
    by_feature = [(for_markdown(name), [_feature(tests.values(), name) for tests in by_id]) for name in features]
    by_requirement = [(f"`{for_code(name)}`", [_mark(tests.get(name)) for tests in by_id]) for name in ids]
    ran = [row for row in by_feature if set(row[1]) != {NOT_RUN}]
    if len(reports) == 1:
        about, listed = "Requirements not met", [row for row in by_requirement if row[1][0] not in (MET, NOT_RUN)]
    else:
        about, listed = "Requirements that differ", [row for row in by_requirement if len(set(row[1])) > 1]
    lines = [
        "## Results",
        "",
        *_results(reports),
        "",
        KEY,
        "",
        *key_of_decisions(judged_by(report) for report in reports),
        *_verified(heads, refused),
        "## Features",
        "",
        *table("feature", heads, ran),
        *_reactions(heads, [by_kind(report) for report in reports]),
    ]
    return "\n".join([*lines, "", f"## {about}", "", *(table("requirement", heads, listed) if listed else ["None."])])


def _reactions(heads: Sequence[str], found: Sequence[Mapping[str, tuple[float, float]]]) -> list[str]:
    kinds = sorted({kind for each in found for kind in each})
    if not kinds:
        return []
    columns = [f"{head}: {what}, ms" for head in heads for what in ("p50", "worst")]
    none = (NOT_RUN, NOT_RUN)
    cells = {kind: [map(whole, each[kind]) if kind in each else none for each in found] for kind in kinds}
    rows = [(for_markdown(kind), [cell for both in cells[kind] for cell in both]) for kind in kinds]
    return ["", "## Reactions to changes", "", *table("change", columns, rows)]


def key_of_decisions(judges: Iterable[str]) -> list[str]:
    return [verdict_basis.KEY, ""] if verdict_basis.DECISIONS in judges else []


def _verified(heads: Sequence[str], refused: Sequence[str]) -> list[str]:
    lines = [f"- Not verified: {head} ({for_markdown(why)})." for head, why in zip(heads, refused, strict=False) if why]
    return [*lines, ""] if lines else []


def _heads(reports: Sequence[Report]) -> list[str]:
    titles = [title_of(report) for report in reports]
    times = Counter(titles)
    return [
        f"{_kubernetes(report)} {title}".strip() if times[title] > 1 else title
        for title, report in zip(titles, reports, strict=True)
    ]


def _results(reports: Sequence[Report]) -> list[str]:
    cells: dict[tuple[str, str], dict[str, list[str]]] = {}
    for report in reports:
        row = (title_of({**report, "mode": ""}), _kubernetes(report))
        cells.setdefault(row, {}).setdefault(for_markdown(mode_of(report) or NOT_RUN), []).append(
            counted(report["tests"])
        )
    modes = sorted({mode for row in cells.values() for mode in row})
    rows = [
        (" ".join(filter(None, (f"Kubernetes {row[1]}" if row[1] else "", row[0]))) or "-",
         [", ".join(cells[row].get(mode, [NOT_RUN])) for mode in modes])
        for row in sorted(cells, key=lambda row: (_by_number(row[1]), _by_number(row[0]), row))
    ]  # fmt: skip
    return table("", modes, rows)


def _kubernetes(report: Report) -> str:
    return for_markdown(str(report.get("kubernetesVersion", "")))


def _by_number(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def by_feature(report: Report) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for profile, name in sorted({(each["profile"], name) for each in report["tests"] for name in each["features"]}):
        cell = _feature((each for each in report["tests"] if each["profile"] == profile), name)
        if cell != NOT_RUN:
            found.setdefault(profile, {})[name] = cell
    return found


def _feature(tests: Iterable[Mapping[str, Any]], name: str) -> str:
    return counted(test for test in tests if name in test["features"])


def counted(tests: Iterable[Mapping[str, Any]]) -> str:
    """Return the table cell for these tests: "✓ 12", "✗ 3/12" or "-"."""
    marks = Counter(mark for test in tests if (mark := _mark(test)) != NOT_RUN)
    if not marks:
        return NOT_RUN
    worst = next(mark for mark in MARKS.values() if marks[mark])
    return f"{MET} {marks[MET]}" if worst == MET else f"{worst} {marks[MET]}/{marks.total()}"


def _mark(test: Mapping[str, Any] | None) -> str:
    return NOT_RUN if test is None else MARKS[outcome(test["verdict"], test["level"])]


def table(first: str, heads: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    rule = ["---"] * (len(heads) + 1)
    return [_line([first, *heads]), _line(rule), *(_line([name, *cells]) for name, cells in rows)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
