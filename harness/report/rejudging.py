"""Derive the verdicts of a run again from its history, for `trafficdist judge`, `verify` and the page of a run."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from harness.errors import UsageError
from harness.judging.conclusion import VerdictCause
from harness.judging.exit_codes import ExitCode, exit_code
from harness.judging.history import RecordedHistory, read, read_parts
from harness.judging.judge import JudgedRun, judge
from harness.judging.results import Result, situation
from harness.model.files import is_there, shown
from harness.report.conformance import read_report, test_values
from harness.report.summary import Line, summary
from harness.run.folder import DEFAULT_PARENT

HISTORIES = ("run.jsonl", "run.jsonl.xz")  # possible names of the history file in a run's folder

_COLOURS = {"green": "green", "red": "red", "yellow": "yellow"}


def history_in(folder: Path) -> Path | None:
    return next((each for name in HISTORIES if (each := folder / name).exists()), None)


def place_of(run: str) -> Path:
    """Return the path of a run's history, or the folder with its parts if the run was killed. Raises `UsageError`."""
    path = Path(run)
    if run == "latest" and not is_there(path):
        path = Path(DEFAULT_PARENT) / run
    if not is_there(path):
        raise UsageError(f"{shown(path)}: no such folder or file; expected the folder of a run, or its run.jsonl")
    if not path.is_dir():
        return path
    found = history_in(path) or path / ".parts"
    if (found.is_dir() and not list(found.glob("history-*.jsonl"))) or not found.exists():
        raise UsageError(f"{path}: has no run.jsonl; expected the folder of a run, or its run.jsonl")
    return found


def derive(history: Path) -> tuple[RecordedHistory, JudgedRun]:
    """Read a history file, or a folder with a history of each worker, and derive the results. Raises `UsageError`."""
    recorded = read_parts(history.glob("history-*.jsonl")) if history.is_dir() else read(history)
    return recorded, judge(recorded.records, history)


def differences(judged: JudgedRun, report: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield each derived verdict or message that differs from the history, or from the report if it exists."""
    results = judged.derived()
    yield from _differences(_verdicts(judged.stated()), _verdicts(results), "the history states")
    if report is not None:
        listed = _verdicts(each for each in results if not each.left_out)  # a report only counts other requirements
        yield from _differences(_verdicts_in(report["tests"]), listed, "report.yaml states")


Verdicts = Mapping[str, tuple[str, str, str]]
"""The verdict, reason and message of each requirement, and of each case if the requirement has several."""


def _verdicts(results: Iterable[Result]) -> Verdicts:
    return _verdicts_in(test_values(each) for each in results)


def _verdicts_in(tests: Iterable[Mapping[str, Any]]) -> Verdicts:
    found = {}
    for test in tests:
        cases = {f"{test['id']}[{case['parameters']}]": case for case in test.get("cases", ())}
        for name, each in {test["id"]: test, **cases}.items():
            found[name] = (each["verdict"], each.get("reason", ""), each.get("message", ""))
    return found


def _differences(stated: Verdicts, derived: Verdicts, who: str) -> list[str]:
    def text(verdict: tuple[str, str, str] | None) -> str:
        return "nothing" if verdict is None else ": ".join(filter(None, verdict))

    return [
        f"{name}: {text(derived.get(name))} is derived, and {who} {text(stated.get(name))}"
        for name in sorted(stated.keys() | derived.keys())
        if stated.get(name) != derived.get(name)
    ]


def show(run: str, form: str, *, strict: bool = False) -> int:
    """Judge a run again, print the results as text or JSON, and return the exit code. Raises `UsageError`."""
    path, report = place_of(run), None
    recorded, judged = derive(path)
    if path.name in HISTORIES and (path.parent / "report.yaml").exists():
        report = read_report(str(path.parent))
        _check_digest(path, recorded, report)
    found = list(differences(judged, report))
    derived = situation(judged.derived(), strict=strict)
    of_verdicts = exit_code(replace(derived, distrust=bool(judged.distrust)))
    code = ExitCode.DISTRUST if found else of_verdicts
    if form == "json":
        facts = {"history": str(path), "sha256": recorded.sha256, "complete": recorded.complete, "exitCode": int(code)}
        click.echo(json.dumps({**facts, **_as_json(judged, found)}, indent=1))
        return int(code)
    where = "the history" if report is None else "the history and report.yaml"
    lines = [
        Line(f"{path}: {len(recorded.records)} records, all unchanged since they were written", "bold"),
        *([] if recorded.complete else [Line(_INCOMPLETE, "yellow")]),
        Line(_counts(judged)),
        Line(""),
        *summary(judged.derived(), code=of_verdicts, report="", reasons=(), distrust=judged.distrust),
        Line(f"Differences from what the run stated (exit code {int(code)})", "bold")
        if found
        else Line(f"Each verdict and each message is the same in {where}, byte for byte.", "green"),
        *(Line(f"  {each}", "red") for each in found),
    ]
    for line in lines:
        click.secho(line.text, fg=_COLOURS.get(line.style), bold=line.style == "bold", dim=line.style == "faint")
    return int(code)


_INCOMPLETE = "The run did not end, or a worker was killed: only the recorded part is judged."


def _check_digest(path: Path, recorded: RecordedHistory, report: Mapping[str, Any]) -> None:
    """Compare the digest of the history with the report, because digests in the history alone could be forged."""
    stated = {each["path"]: each["sha256"] for each in report["artifacts"]}.get(HISTORIES[0])
    if stated != recorded.sha256:
        raise UsageError(
            f"{path}: report.yaml in the same folder belongs to another history: the SHA-256 of the history "
            f"is {recorded.sha256}, but the report states {stated or 'none'}; a file was changed after the run"
        )


def _counts(judged: JudgedRun) -> str:
    causes = Counter(map(str, judged.causes().values()))
    derived = causes.pop(VerdictCause.OBSERVED, 0)
    stated = "; ".join(f"{number} {name}" for name, number in causes.most_common())
    text = f"{derived + causes.total()} verdicts: {derived} derived again from observations, {causes.total()} as stated"
    return f"{text} ({stated})" if stated else text


def _as_json(judged: JudgedRun, found: Sequence[str]) -> dict[str, Any]:
    results, causes = judged.derived(), judged.causes()
    return {
        "verdicts": dict(Counter(str(result.verdict) for result in results)),
        "causes": dict(Counter(map(str, causes.values()))),
        "differences": found,
        "tests": [
            {
                "id": each.requirement.id,
                "verdict": str(each.verdict),
                "outcome": str(each.outcome),
                "reason": str(each.reason),
                "message": each.worst.message,
                "cause": str(causes[each.requirement.id]),
            }
            for each in results
        ],
    }
