"""`trafficdist judge`: derives the verdicts of a run again from its history, without a cluster or a network."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import yaml

from harness.errors import UsageError
from harness.judging.conclusion import Cause
from harness.judging.exit_codes import ExitCode, exit_code
from harness.judging.history import Recorded, read, read_parts
from harness.judging.judge import Judged
from harness.judging.judge import judge as judge_records
from harness.judging.results import CaseResult, Result, situation
from harness.model import strict_yaml
from harness.model.files import is_there, shown
from harness.report.conformance import MOST_BYTES
from harness.report.summary import Line, summary
from harness.run.folder import DEFAULT_PARENT

HISTORIES = ("run.jsonl", "run.jsonl.xz", "run.jsonl.gz")
"""The names of a history in the folder of a run."""

_COLOURS = {"green": "green", "red": "red", "yellow": "yellow"}


def show(run: str, form: str, *, strict: bool = False) -> int:
    """Judge a run, print the results as text, json or yaml, and return the exit code. Raises `UsageError`."""
    found = _judge(place_of(run), strict=strict)
    if form == "text":
        for line in found.lines():
            click.secho(line.text, fg=_COLOURS.get(line.style), bold=line.style == "bold", dim=line.style == "faint")
    elif form == "json":
        click.echo(json.dumps(found.to_json(), indent=1))
    else:
        click.echo(yaml.safe_dump(found.to_json(), sort_keys=False, width=120), nl=False)
    return int(found.code)


@dataclass(frozen=True, slots=True)
class _Found:
    """A run that was judged again, and its differences to the verdicts that the run stated."""

    path: Path
    recorded: Recorded
    judged: Judged
    results: list[Result]
    reported: bool
    differences: list[str]
    strict: bool

    @property
    def code(self) -> ExitCode:
        return ExitCode.DISTRUST if self.differences else self._code_of_verdicts

    @property
    def _code_of_verdicts(self) -> ExitCode:
        told = situation(self.results, strict=self.strict)
        return exit_code(replace(told, distrust=bool(self.judged.distrust)))

    @property
    def causes(self) -> Counter[str]:
        """The number of requirements by the cause of their verdict."""
        return Counter(map(str, self.judged.causes().values()))

    def lines(self) -> Iterator[Line]:
        yield Line(f"{self.path}: {len(self.recorded.records)} records, each as it was written", "bold")
        if not self.recorded.complete:
            yield Line(
                "The run has not come to its end, or a worker of it died: what was written until then is judged.",
                "yellow",
            )
        yield Line(self._counts())
        yield Line("")
        said = self.judged.distrust
        yield from summary(self.results, code=self._code_of_verdicts, report="", reasons=(), distrust=said)
        if not self.differences:
            where = "the history and report.yaml state" if self.reported else "the history states"
            yield Line(f"Each verdict and each message is what {where}, byte for byte.", "green")
            return
        yield Line(f"Not what the run stated (exit code {int(self.code)})", "bold")
        for each in self.differences:
            yield Line(f"  {each}", "red")

    def _counts(self) -> str:
        causes = self.causes
        derived = causes.pop(Cause.OBSERVED, 0)
        stated = "; ".join(f"{number} {name}" for name, number in causes.most_common())
        text = f"{len(self.results)} verdicts: {derived} derived again from observations, {causes.total()} as stated"
        return f"{text} ({stated})" if stated else text

    def to_json(self) -> dict[str, Any]:
        causes = self.judged.causes()
        return {
            "history": str(self.path),
            "sha256": self.recorded.sha256,
            "complete": self.recorded.complete,
            "exitCode": int(self.code),
            "verdicts": dict(Counter(str(result.verdict) for result in self.results)),
            "causes": dict(self.causes),
            "differences": self.differences,
            "tests": [_test(result, causes[result.requirement.id]) for result in self.results],
        }


def _judge(path: Path, *, strict: bool) -> _Found:
    """Judge a history, or the parts of one in a folder. Raises `UsageError`."""
    recorded = read_parts(sorted(path.glob("history-*.jsonl"))) if path.is_dir() else read(path)
    judged = judge_records(recorded.records, path)
    report = path.parent / "report.yaml"
    loaded = None
    if path.name in HISTORIES and report.exists():
        loaded = strict_yaml.read(report, what="report", most=MOST_BYTES)
        _check_digest(path, recorded, loaded)
    found = list(differences(judged, loaded, report))
    return _Found(path, recorded, judged, judged.derived(), loaded is not None, found, strict)


def differences(judged: Judged, report: Any, where: object) -> Iterator[str]:
    """Yield what is derived otherwise than the history states, and than a report states if there is one."""
    results = judged.derived()
    yield from _differences(_told(judged.stated()), _told(results), "the history states")
    if report is not None:
        listed = [each for each in results if not each.left_out]  # the report counts what options left out
        yield from _differences(_reported(report, where), _told(listed), "report.yaml states")


def place_of(run: str) -> Path:
    """Return the history of a run, or the folder with its parts if the run was killed. Raises `UsageError`."""
    path = Path(run)
    if run == "latest" and not is_there(path):
        path = Path(DEFAULT_PARENT) / run
    if not is_there(path):
        raise UsageError(f"{shown(path)}: there is no such folder or file; want the folder of a run, or its run.jsonl")
    if not path.is_dir():
        return path
    found = next((path / name for name in HISTORIES if (path / name).exists()), path / ".parts")
    if (found.is_dir() and not list(found.glob("history-*.jsonl"))) or not found.exists():
        raise UsageError(f"{path}: there is no run.jsonl in it; want the folder of a run, or its run.jsonl")
    return found


def _check_digest(path: Path, recorded: Recorded, report: Any) -> None:
    """Compare the digest of the history with that in the report: a forger of lines can redo only those in the file."""
    try:
        digests = {each["path"]: each["sha256"] for each in report["artifacts"]}
    except (KeyError, TypeError):
        raise UsageError(f"{path.parent / 'report.yaml'}: is not the report of a run: it has no artifacts") from None
    stated = digests.get("run.jsonl")
    if stated != recorded.sha256:
        raise UsageError(
            f"{path}: is not the history that report.yaml beside it was made with: its SHA-256 is {recorded.sha256}, "
            f"and the report says {stated or 'nothing of it'}; one of both was changed after the run"
        )


Told = dict[str, tuple[str, str, str]]
"""Verdict, reason and message by requirement, and by case if it has several."""


def _told(results: Sequence[Result]) -> Told:
    told: Told = {}
    for result in results:
        told[result.requirement.id] = _said(result.worst)
        if result.parametrized:
            told |= {f"{result.requirement.id}[{each.parameters or '-'}]": _said(each) for each in result.cases}
    return told


def _said(case: CaseResult) -> tuple[str, str, str]:
    return str(case.verdict), str(case.reason), case.message


def _reported(report: Any, where: object) -> Told:
    told: Told = {}
    try:
        for test in report["tests"]:
            for name, each in (
                (test["id"], test),
                *((f"{test['id']}[{c['parameters']}]", c) for c in test.get("cases", ())),
            ):
                told[_text(name)] = (
                    _text(each["verdict"]),
                    _text(each.get("reason", "")),
                    _text(each.get("message", "")),
                )
    except (AttributeError, KeyError, TypeError):
        raise UsageError(f"{where}: is not the report of a run: a test in it has no id or verdict") from None
    return told


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _differences(stated: Told, derived: Told, who: str) -> list[str]:
    return [
        f"{name}: {_shown(derived.get(name))} is derived, and {who} {_shown(stated.get(name))}"
        for name in sorted(stated.keys() | derived.keys())
        if stated.get(name) != derived.get(name)
    ]


def _shown(said: tuple[str, str, str] | None) -> str:
    return "nothing" if said is None else ": ".join(filter(None, said))


def _test(result: Result, why: Cause) -> dict[str, Any]:
    return {
        "id": result.requirement.id,
        "verdict": str(result.verdict),
        "outcome": str(result.outcome),
        "reason": str(result.reason),
        "message": result.worst.message,
        "cause": str(why),
    }
