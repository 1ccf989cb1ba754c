"""Several conformance reports side by side: which feature works in which of them, and which requirements differ.

Pure: from reports as `report.yaml` has them to a Markdown page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Report = Mapping[str, Any]

PASSED, FAILED, UNCLEAR, NOT_RUN = "✓", "✗", "?", "-"
_MARKS = {"passed": PASSED, "failed": FAILED, "inconclusive": UNCLEAR, "skipped": NOT_RUN}


def title_of(report: Report) -> str:
    """Who was judged: project, version and mode, as a column's head."""
    implementation = report["implementation"]
    parts = (implementation.get("project"), implementation.get("version"), report.get("mode"))
    return " ".join(str(each) for each in parts if each)


def as_markdown(reports: Sequence[Report]) -> str:
    """A table of features, and one of the requirements whose verdicts are not the same in all reports.

    A feature's cell counts the requirements that need it: "✓ 12" when all that ran are met, "✗ 3/12" when only three
    of twelve are, "? 3/12" when some could not be told, and "-" when none ran.
    """
    by_id = [{test["id"]: test for test in report["tests"]} for report in reports]
    heads = [title_of(report) for report in reports]
    features = sorted({name for tests in by_id for test in tests.values() for name in test["features"]})
    ids = sorted({name for tests in by_id for name in tests})
    by_feature = [(name, [_feature(tests.values(), name) for tests in by_id]) for name in features]
    by_requirement = [(f"`{name}`", [_verdict(tests.get(name)) for tests in by_id]) for name in ids]
    ran = [row for row in by_feature if set(row[1]) != {NOT_RUN}]
    differ = [row for row in by_requirement if len(set(row[1])) > 1]
    lines = ["## Features", "", *_table("feature", heads, ran), "", "## Requirements that differ", ""]
    return "\n".join([*lines, *(_table("requirement", heads, differ) if differ else ["None."])])


def _feature(tests: Iterable[Mapping[str, Any]], name: str) -> str:
    verdicts = [test["verdict"] for test in tests if name in test["features"] and test["verdict"] != "skipped"]
    passed = verdicts.count("passed")
    if not verdicts:
        return NOT_RUN
    if passed == len(verdicts):
        return f"{PASSED} {passed}"
    return f"{FAILED if 'failed' in verdicts else UNCLEAR} {passed}/{len(verdicts)}"


def _verdict(test: Mapping[str, Any] | None) -> str:
    return NOT_RUN if test is None else _MARKS.get(test["verdict"], UNCLEAR)


def _table(first: str, heads: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    rule = ["---"] * (len(heads) + 1)
    return [_line([first, *heads]), _line(rule), *(_line([name, *cells]) for name, cells in rows)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
