"""What a person sees while a run goes on: what is in force, a line for each requirement, and the summary.

pytest's own reporter is told to be quiet, and stays the one that writes, so that capture, colour and NO_COLOR work as
everywhere in pytest. With -v it speaks as always, and only header and summary are ours.
"""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from harness.plan import Plan
from harness.plugin.ledger import Ledger
from harness.plugin.recorder import PROPERTY
from harness.report import summary
from harness.report.conformance import certifiable_reasons
from harness.report.environment import suite_version
from harness.report.results import Result
from harness.report.summary import Line, Style
from harness.run import Run
from harness.verdict import SkipReason, Verdict

_QUIET = -2  # pytest's reporter writes nothing of its own, except errors
_WIDEST = 100
_MARKUP: dict[Style, dict[str, bool]] = {
    "": {},
    "bold": {"bold": True},
    "green": {"green": True},
    "red": {"red": True},
    "yellow": {"yellow": True},
    "faint": {"light": True},
}


def hush(config: pytest.Config) -> None:
    """Tell pytest's reporter to be quiet, unless somebody asked it to speak. Called before it exists."""
    if config.option.verbose <= 0:
        config.option.verbose = _QUIET
    if config.option.tbstyle == "auto":
        config.option.tbstyle = "short"


class Progress:
    """The part of the plugin that writes to the terminal."""

    def __init__(self, run: Run, ledger: Ledger, config: pytest.Config) -> None:
        self._run = run
        self._ledger = ledger
        self._config = config
        self._ours = config.option.verbose == _QUIET
        self._document = ""
        self._shown: set[str] = set()
        self._open: dict[str, int] = {}
        self._status = ""
        self._noted = False
        self._began = time.monotonic()

    @property
    def _terminal(self) -> Any:
        return self._config.pluginmanager.getplugin("terminalreporter")

    def _write(self, line: Line) -> None:
        terminal = self._terminal
        if terminal is not None:
            terminal.write_line(line.text, **_MARKUP[line.style])

    def _header(self) -> list[Line]:
        return summary.header(
            self._run.settings,
            version=suite_version(),
            reasons=certifiable_reasons(self._run, Plan()),
            folder=_short(str(self._run.folder.path)),
        )

    def pytest_report_header(self) -> list[str]:
        """With -v: what is in force, in pytest's own header."""
        return [line.text for line in self._header() if line.text]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Without -v: what is in force, first of all."""
        if self._ours:
            _silence_xdist(self._config)
            for line in self._header():
                self._write(line)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
        """Keep pytest's letters, and its own list of failures, to tests that are not about a requirement."""
        if not isinstance(report, pytest.TestReport):
            return None
        if self._ours and (PROPERTY in dict(report.user_properties) or self._is_planned(report.nodeid)):
            return "requirement", "", ""
        return None

    def _is_planned(self, nodeid: str) -> bool:
        plan = self._run.known_plan()
        return plan is not None and any(case.nodeid == nodeid for case in plan.cases)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Show a requirement when its last case is through."""
        if self._ours:
            plan = self._run.known_plan() or Plan()
            self._finished(plan, next((case.requirement for case in plan.cases if case.nodeid == nodeid), ""))

    def _finished(self, plan: Plan, requirement_id: str) -> None:
        if not requirement_id:
            return
        self._open.setdefault(requirement_id, sum(case.begins for case in plan.cases_of(requirement_id)))
        self._open[requirement_id] -= 1
        if self._open[requirement_id] > 0 or requirement_id in self._shown:
            return
        self._shown.add(requirement_id)
        result = next((each for each in self._ledger.results() if each.requirement.id == requirement_id), None)
        if result is not None and result.reason not in (SkipReason.DESELECTED, SkipReason.UNSUPPORTED):
            self._show(result)
        self._show_status(plan)

    def _show(self, result: Result) -> None:
        self._wipe_status()
        if not self._noted and self._run.known_environment().get("hintsChangeSomething") is False:
            self._noted = True
            self._write(Line(f"Note: {summary.HINTS_CHANGE_NOTHING}", "yellow"))
        document, name = result.requirement.document, result.requirement.slug
        if self._run.distributed:
            name = result.requirement.id  # requirements of several documents end in between
        elif document != self._document:
            self._write(Line(document, "bold"))
        self._document = document
        self._write(Line(self._line(result, name), summary.STYLES[result.verdict]))

    def _line(self, result: Result, name: str) -> str:
        marks = summary.MARKS if _can_write(self._terminal, "".join(summary.MARKS.values())) else summary.PLAIN_MARKS
        width = min(self._terminal._tw.fullwidth, _WIDEST) if self._terminal else _WIDEST
        text = f"  {marks[result.verdict]} {name}"
        if result.verdict == Verdict.SKIPPED:
            text += f"  {result.reason}: {result.worst.message}"
        duration = f"{result.duration:.2f} s"
        room = width - len(duration) - 2
        if len(text) > room:
            text = text[: room - 1] + ("…" if marks is summary.MARKS else ".")
        return f"{text:<{room}} {duration}"

    def _show_status(self, plan: Plan) -> None:
        """On a terminal only: how far we are, and about how long it still takes."""
        if self._terminal is None or not self._terminal.isatty:
            return
        wanted = {case.requirement for case in plan.cases if case.to_run}
        done, total = len(wanted & self._shown), len(wanted)
        if not done or done == total:
            return
        left = (time.monotonic() - self._began) / done * (total - done)
        filled = "#" * (20 * done // total)
        self._status = f"  [{filled:<20}] {done} of {total}, about {left:.0f} s left"
        self._terminal.write(self._status, flush=True)

    def _wipe_status(self) -> None:
        if self._status:
            self._terminal.write("\r" + " " * len(self._status) + "\r")
            self._status = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self) -> None:
        """The end: counts, what is not met, what did not run, where the report is."""
        self._wipe_status()
        if self._run.usage_error and self._run.distributed:  # otherwise pytest says it itself
            self._write(Line(f"ERROR: {self._run.usage_error}", "red"))
        code = self._ledger.exit_code
        if code is None or self._run.usage_error:
            return
        for line in summary.summary(
            self._ledger.results(),
            code=code,
            report=_short(str(self._ledger.report or "")),
            reasons=certifiable_reasons(self._run, self._run.known_plan() or Plan()),
            distrust=self._run.distrust,
        ):
            self._write(line)


def _silence_xdist(config: pytest.Config) -> None:
    """xdist tells on a terminal how its workers come up; our header has said what matters."""
    reporter = config.pluginmanager.getplugin("terminaldistreporter")
    if reporter is not None:
        reporter.ensure_show_status = reporter.rewrite = lambda *_, **__: None


def _can_write(terminal: Any, text: str) -> bool:
    encoding = getattr(getattr(terminal, "_tw", None), "_file", None)
    try:
        text.encode(getattr(encoding, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _short(path: str) -> str:
    """A path as a person would write it here; "" stays."""
    if not path:
        return ""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else f"./{relative}"
