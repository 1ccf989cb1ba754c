"""Write all output of a run. The conformance report comes last, because it contains digests of the other files."""

import time
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from harness.errors import DistrustError
from harness.judging.history import RecordedHistory, merge
from harness.judging.judge import JudgedRun, closing
from harness.judging.results import Result
from harness.judging.verdict import Verdict
from harness.model import needs
from harness.model.garbage_collection import gc_paused
from harness.model.needs import Needs
from harness.model.privacy import private_values
from harness.report import allure, causes, conformance, junit, reactions
from harness.report.causes import CommonCause
from harness.report.page import page, rewrite
from harness.run.folder import PAGE
from harness.run.run import Run


@gc_paused()
def write_reports(
    run: Run,
    results: Sequence[Result],
    judged: JudgedRun,
    recorded: RecordedHistory,
    about: Mapping[str, Any] | None = None,
) -> tuple[Path, list[CommonCause]]:
    """Write all reports. Return the path of report.yaml, and the causes. Raises `DistrustError`."""
    about = private_values(about or conformance.describe(run, results, time.monotonic() - run.started_at))
    _merge_history(run, results, judged, recorded, about)
    numbers, found = reactions.by_case(judged), causes.of(results)
    run.folder.write("junit.xml", junit.as_xml(results, about["run"], found))
    run.decorate(
        "allure-results",
        lambda: allure.write(run.folder, results, run.settings, about["environment"], numbers, found=found),
        None,
    )
    if (table := _needs(results)) and not run.target:
        run.folder.write(needs.FILE, needs.as_yaml(table))
    report = private_values(conformance.build(about, results, found, reactions.listed(numbers)))
    evidence = rewrite.evidence_in(run.folder.path)
    run.decorate(
        PAGE,
        lambda: run.folder.write(PAGE, page.as_html(report, results, judged, numbers, found=found, read=evidence)),
        None,
    )
    text = conformance.as_yaml({**report, "artifacts": run.folder.artifacts()})
    return run.folder.write("report.yaml", text), found


def _needs(results: Sequence[Result]) -> dict[str, Needs]:
    met = [each for each in results if each.verdict is Verdict.PASSED]
    return {
        each.requirement.id: reduce(or_, (Needs.from_json(case.needs) for case in each.cases), Needs()) for each in met
    }


def _merge_history(
    run: Run, results: Sequence[Result], judged: JudgedRun, recorded: RecordedHistory, about: Mapping[str, Any]
) -> None:
    whole = run.folder.parts / "run.jsonl"
    facts: dict[str, Any] = {"interrupted": run.interrupted, "distrust": list(run.distrust), "report": about}
    if run.settings.shard:
        facts["shard"] = {**run.to_json(), "folder": "", "target": dict.fromkeys(run.target)}  # for merging
    try:
        merge(recorded, whole, closing(results, judged, facts), steps="shard" in facts)
        whole.replace(run.folder.path / "run.jsonl")
    except OSError as error:
        raise DistrustError(f"cannot write the history of the run: {error}") from error
