"""Writes all output of a run, the conformance report last, since it holds digests of all but the page."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from harness.errors import DistrustError, UsageError
from harness.judging.history import merge, read_parts
from harness.judging.judge import Judged, closing, judge
from harness.judging.results import CaseResult, Result
from harness.judging.verdict import Verdict
from harness.model import needs
from harness.model.garbage_collection import gc_paused
from harness.model.needs import Needs
from harness.model.privacy import private, private_values
from harness.report import allure, conformance, junit, reactions
from harness.report.page import again, page
from harness.run.folder import PAGE
from harness.run.run import Run


@gc_paused()
def write_reports(run: Run, results: Sequence[Result]) -> Path:
    """Write history, JUnit, Allure, the page and the report. Returns the report's path.

    Raises `DistrustError` for the first that cannot be written.
    """
    duration = time.monotonic() - run.started_at
    about = private_values(conformance.describe(run, results, duration))
    judged = _merge_history(run, results, about)
    numbers = reactions.by_case(judged)
    run.folder.write("junit.xml", junit.as_xml(results, start=run.start, duration=duration))
    allure.write(run.folder, results, run.settings, about["environment"], numbers)
    if (table := _needs(results)) and not run.target:
        run.folder.write(needs.FILE, needs.as_yaml(table))
    built = conformance.build(about, results, run.folder.artifacts(), reactions.listed(numbers))
    report = private_values(built)
    text = conformance.as_yaml(report)
    shown = [_private(each) for each in results]
    run.folder.write(PAGE, page.as_html(report, shown, judged.stories, numbers, again.evidence_in(run.folder.path)))
    return run.folder.write("report.yaml", text)


def _private(result: Result) -> Result:
    """Return a result whose texts have no secrets: the page escapes and compresses them before it is written."""
    return replace(result, cases=tuple(map(_private_case, result.cases)))


def _private_case(case: CaseResult) -> CaseResult:
    return replace(
        case,
        parameters=private(case.parameters),
        message=private(case.message),
        explanation=private(case.explanation),
        rerun=private(case.rerun),
    )


def _needs(results: Sequence[Result]) -> dict[str, Needs]:
    """Return the needs of each requirement that passed, over all its cases."""
    met = [each for each in results if each.verdict is Verdict.PASSED]
    return {
        each.requirement.id: reduce(or_, (Needs.from_json(case.needs) for case in each.cases), Needs()) for each in met
    }


def _merge_history(run: Run, results: Sequence[Result], about: Mapping[str, Any]) -> Judged:
    """Merge the histories of the run's processes, and judge them. Raises `DistrustError` if one is not valid."""
    whole = run.folder.parts / "run.jsonl"
    try:
        run.close_history()
        parts = read_parts(sorted(run.folder.parts.glob("history-*.jsonl")))
        seen = judge(parts.records, run.folder.parts)
        facts = {"interrupted": run.interrupted, "distrust": list(run.distrust), "report": about}
        merge(parts, whole, closing(results, seen, facts))
        whole.replace(run.folder.path / "run.jsonl")
        return seen
    except (OSError, UsageError) as error:
        raise DistrustError(f"the history of the run: {error}") from error
