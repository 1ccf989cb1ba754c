"""Derive the verdicts of a run again from its history, without a cluster or network, for `trafficdist judge`.

`trafficdist verify` and the page of a run also use this module.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import yaml

from harness.errors import UsageError
from harness.judging.conclusion import Cause
from harness.judging.exit_codes import ExitCode, exit_code
from harness.judging.history import Recorded, read, read_parts
from harness.judging.judge import Judged, judge
from harness.judging.results import Result, situation
from harness.model.files import is_there, shown
from harness.report.conformance import read_report, test_values
from harness.report.summary import Line, summary
from harness.run.folder import DEFAULT_PARENT

HISTORIES = ("run.jsonl", "run.jsonl.xz")
"""The possible names of the history file in a run's folder."""

_COLOURS = {"green": "green", "red": "red", "yellow": "yellow"}


def history_in(folder: Path) -> Path | None:
    """Return the history file in a run's folder, or None."""
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


def derive(history: Path) -> tuple[Recorded, Judged]:
    """Read a history, or the parts in a folder, and derive the results. Raises `UsageError`."""
    recorded = read_parts(history.glob("history-*.jsonl")) if history.is_dir() else read(history)
    return recorded, judge(recorded.records, history)


def differences(judged: Judged, report: Mapping[str, Any] | None) -> Iterator[str]:
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
    """Judge a run again, print the results as text, JSON or YAML, and return the exit code. Raises `UsageError`."""
    found = _judge(place_of(run), strict=strict)
    if form == "text":
        for line in found.lines():
            click.secho(line.text, fg=_COLOURS.get(line.style), bold=line.style == "bold", dim=line.style == "faint")
    elif form == "json":
        click.echo(json.dumps(found.to_json(), indent=1))
    else:
        click.echo(yaml.safe_dump(found.to_json(), sort_keys=False, width=120), nl=False)
    return int(found.code)


def _judge(path: Path, *, strict: bool) -> _Found:
    recorded, judged = derive(path)
    report = None
    if path.name in HISTORIES and (path.parent / "report.yaml").exists():
        report = read_report(str(path.parent))
        _check_digest(path, recorded, report)
    return _Found(path, recorded, judged, report is not None, list(differences(judged, report)), strict)


def _check_digest(path: Path, recorded: Recorded, report: Mapping[str, Any]) -> None:
    """Compare the digest of the history with the report, because digests in the history alone could be forged."""
    stated = {each["path"]: each["sha256"] for each in report["artifacts"]}.get(HISTORIES[0])
    if stated != recorded.sha256:
        raise UsageError(
            f"{path}: report.yaml in the same folder belongs to another history: the SHA-256 here is "
            f"{recorded.sha256}, and the report has {stated or 'none'}; one of the files was changed after the run"
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """A run that was judged again, with the differences from the recorded verdicts."""

    path: Path
    recorded: Recorded
    judged: Judged
    reported: bool
    differences: list[str]
    strict: bool

    @property
    def code(self) -> ExitCode:
        return ExitCode.DISTRUST if self.differences else self._code_of_verdicts

    @property
    def _code_of_verdicts(self) -> ExitCode:
        told = situation(self.judged.derived(), strict=self.strict)
        return exit_code(replace(told, distrust=bool(self.judged.distrust)))

    @property
    def causes(self) -> Counter[str]:
        """The number of requirements by the cause of their verdict."""
        return Counter(map(str, self.judged.causes().values()))

    def lines(self) -> Iterator[Line]:
        yield Line(f"{self.path}: {len(self.recorded.records)} records, all unchanged since they were written", "bold")
        if not self.recorded.complete:
            yield Line("The run did not end, or a worker was killed: only the recorded part is judged.", "yellow")
        yield Line(self._counts())
        yield Line("")
        distrust, results = self.judged.distrust, self.judged.derived()
        yield from summary(results, code=self._code_of_verdicts, report="", reasons=(), distrust=distrust)
        if not self.differences:
            where = "the history and report.yaml" if self.reported else "the history"
            yield Line(f"Each verdict and each message is the same in {where}, byte for byte.", "green")
            return
        yield Line(f"Differences to what the run stated (exit code {int(self.code)})", "bold")
        for each in self.differences:
            yield Line(f"  {each}", "red")

    def _counts(self) -> str:
        causes = self.causes
        derived = causes.pop(Cause.OBSERVED, 0)
        stated = "; ".join(f"{number} {name}" for name, number in causes.most_common())
        number = len(self.judged.derived())
        text = f"{number} verdicts: {derived} derived again from observations, {causes.total()} as stated"
        return f"{text} ({stated})" if stated else text

    def to_json(self) -> dict[str, Any]:
        results, causes = self.judged.derived(), self.judged.causes()
        return {
            "history": str(self.path),
            "sha256": self.recorded.sha256,
            "complete": self.recorded.complete,
            "exitCode": int(self.code),
            "verdicts": dict(Counter(str(result.verdict) for result in results)),
            "causes": dict(self.causes),
            "differences": self.differences,
            "tests": [_test(result, causes[result.requirement.id]) for result in results],
        }


def _test(result: Result, why: Cause) -> dict[str, Any]:
    return {
        "id": result.requirement.id,
        "verdict": str(result.verdict),
        "outcome": str(result.outcome),
        "reason": str(result.reason),
        "message": result.worst.message,
        "cause": str(why),
    }
