"""Show a run on the terminal: its settings, a line for each requirement, and the summary."""

import os
import time
from collections.abc import Mapping
from typing import Any

import pytest

from harness.judging.results import Case, Result
from harness.judging.verdict import SkipReason, Verdict
from harness.model.times import brief
from harness.plugin.display import Display, RunStatus, spoken
from harness.plugin.result_collector import ResultCollector
from harness.report import summary
from harness.report.conformance import certifiable_reasons
from harness.report.environment import suite_version
from harness.report.outcomes import MARKS, PLAIN_MARKS, SHOWN
from harness.report.summary import Line
from harness.run import durations
from harness.run.plan import Plan
from harness.run.run import Run

_QUIET = -2  # pytest's reporter writes only errors
_ENDING = 0.0075  # seconds per case after the last case: measured 3.9 s for 511 cases on two CPUs
_TRUST = 5.0  # seconds; the expected durations count as much as this time measured in this run
_WIDEST = 100
_SHORTEST = 12  # characters of a truncated reason


def hush(config: pytest.Config) -> None:
    """Make pytest's reporter quiet, unless -v was given. Call this before pytest creates the reporter."""
    if config.option.verbose <= 0:
        config.option.verbose = _QUIET
        pytest.TerminalReporter._report_keyboardinterrupt = lambda _: None  # type: ignore[assignment, method-assign]
    if config.option.tbstyle == "auto":
        config.option.tbstyle = "short"


class RunProgress:
    def __init__(self, run: Run, ledger: ResultCollector, config: pytest.Config) -> None:
        self._run = run
        self._ledger = ledger
        self._config = config
        self._ours = config.option.verbose == _QUIET
        self._display: Display | None = None
        self._cases: dict[str, Case] = {}
        self._eta: Eta | None = None
        self._shown: set[str] = set()
        self._open: dict[str, int] = {}
        self._noted = False
        self._headed = False
        self._began = time.monotonic()

    def _header(self) -> list[Line]:
        plan = self._run.known_plan()
        return summary.header(
            self._run.settings,
            version=self._run.decorate("the version of the suite", suite_version, "unknown"),
            reasons=certifiable_reasons(self._run, Plan()),
            folder=_short(str(self._run.folder.path)),
            workers=self._run.workers,
            quick=str(plan.quick) if plan and plan.quick else "",
            expected=self._expected(),
        )

    def _expected(self) -> str:
        """Return the number of requirements and the estimated duration, or "" before collection."""
        chosen = {case.requirement for case in self._planned().values() if case.to_run}
        return f"{len(chosen)}, {spoken(self._eta.left(time.monotonic()))}" if chosen and self._eta is not None else ""

    def pytest_report_header(self) -> list[str]:
        """With -v, return the settings as lines of pytest's header."""
        return [line.text for line in self._header() if line.text]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal is None:
            return
        self._display = Display(terminal, self.status)
        if self._ours:
            reporter: Any = self._config.pluginmanager.getplugin("terminaldistreporter")
            if reporter is not None:  # without xdist's messages about the start of workers
                reporter.ensure_show_status = reporter.rewrite = lambda *_, **__: None
            self._config.add_cleanup(self._display.stop)
            self._display.start()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Without -v, show the settings after collection, when the names in the options have been checked."""
        self._show_header()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """Without -v, show the settings here in a run with workers, because only the workers collect the tests."""
        self._show_header()

    def _show_header(self) -> None:
        plan = self._run.known_plan()
        if self._ours and not self._headed and plan is not None and not plan.error:
            self._headed = True
            for line in self._header():
                self._write(line)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> tuple[str, str, str | tuple[str, dict[str, bool]]] | None:
        """Without -v, hide pytest's letters and list of failures. With -v, count warnings and notes separately."""
        if not isinstance(report, pytest.TestReport):
            return None
        case = self._planned().get(report.nodeid)
        if self._ours:
            return ("requirement", "", "") if case else None
        if case is None or report.passed:
            return None
        result = self._ledger.result(case.requirement)
        mine = next(each for each in result.cases if each.nodeid == report.nodeid)
        word = SHOWN[result.outcome_of(mine)].pytest
        return (word, word[0], (word.upper(), {"yellow": True})) if word else None

    def _planned(self) -> dict[str, Case]:
        if not self._cases and (plan := self._run.known_plan()) is not None:
            self._cases = {case.nodeid: case for case in plan.cases}
            for case in plan.cases:
                self._open[case.requirement] = self._open.get(case.requirement, 0) + case.begins
            expected = durations.by_case(plan)
            at_once = int(getattr(self._config.option, "numprocesses", None) or 1)
            self._eta = Eta(expected, at_once=at_once, ending=_ENDING * len(expected))
        return self._cases

    def status(self) -> RunStatus:
        cases, now = self._planned(), time.monotonic()
        wanted = {case.requirement for case in cases.values() if case.to_run}
        if self._eta is None or not wanted:
            what = "starting workers and collecting tests" if self._run.distributed else "collecting"
            return RunStatus(f"{'ending' if self._run.interrupted else what}, {now - self._began:.0f} s")
        running = sorted(self._eta.running.copy().items(), key=lambda each: each[1])
        known = [(cases[nodeid], now - since) for nodeid, since in running if nodeid in cases]
        named = [(f"{c.requirement}[{c.parameters}]" if c.parameters else c.requirement, took) for c, took in known]
        return RunStatus("", len(wanted & self._shown), len(wanted), self._eta.left(now), named)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if nodeid in self._planned() and self._eta is not None:
            self._eta.begin(nodeid, time.monotonic())

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Show a requirement when its last case has ended."""
        case = self._planned().get(nodeid)
        if case is None or self._eta is None:
            return
        self._eta.end(nodeid, time.monotonic())
        self._open[case.requirement] -= 1
        if self._open[case.requirement] > 0 or case.requirement in self._shown:
            return
        self._shown.add(case.requirement)
        result = self._ledger.result(case.requirement)
        if self._ours and result.reason not in (SkipReason.DESELECTED, SkipReason.UNSUPPORTED):
            self._show(result)

    def _show(self, result: Result) -> None:
        known = {} if self._noted else self._run.known_environment()
        for fact, note in summary.NOTES_ON_HINTS.items():
            if known.get(fact) is False:
                self._noted = True
                self._write(Line(f"Note: {note}", "yellow"))
        if self._display is not None:
            self._write(Line(_line(result, self._display), SHOWN[result.outcome].style))

    def _write(self, line: Line) -> None:
        if self._display is not None:
            self._display.write(line)

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self) -> None:
        if self._display is not None:
            self._display.stop()
        code = self._ledger.exit_code
        if code is None or self._run.usage_error:
            return
        for line in summary.summary(
            self._ledger.results(),
            code=code,
            report=_short(str(self._ledger.report or "")),
            reasons=certifiable_reasons(self._run, self._run.known_plan() or Plan()),
            distrust=self._run.distrust,
            missing=self._run.missing,
            found=self._ledger.causes,
        ):
            self._write(line)


class Eta:
    """Estimates how long a run still takes. `ending` is the expected time after the last case, in seconds."""

    def __init__(self, expected: Mapping[str, float], *, at_once: int, ending: float = 0.0) -> None:
        self._ending = ending
        self._todo = dict(expected)  # cases that have not ended
        self._at_once = max(1, at_once)
        self._took = 0.0
        self._expected = 0.0  # seconds of cases that have ended
        self.running: dict[str, float] = {}  # start times of running cases

    def begin(self, nodeid: str, now: float) -> None:
        self.running[nodeid] = now

    def end(self, nodeid: str, now: float) -> None:
        since = self.running.pop(nodeid, now)
        if (expected := self._todo.pop(nodeid, None)) is not None:
            self._expected += expected
            self._took += now - since

    def left(self, now: float) -> float:
        """Return the estimated seconds left: the expected duration of unfinished cases, scaled by the pace so far."""
        running, todo = self.running.copy(), self._todo.copy()  # other threads change the two mappings
        late = {each: now - since for each, since in running.items() if now - since > todo.get(each, 0.0)}
        took = _TRUST + self._took + sum(late.values())
        times = took / (_TRUST + self._expected + sum(todo.get(each, 0.0) for each in late))
        rest = {each: max(0.0, s * times - (now - running.get(each, now))) for each, s in todo.items()}
        return self._ending + max(sum(rest.values()) / self._at_once, *(rest.get(each, 0.0) for each in running), 0.0)


def _line(result: Result, display: Display) -> str:
    """Return the line of a requirement. On a terminal a long reason is truncated, but an id is always complete."""
    marks = MARKS if display.can_write("".join(MARKS.values())) else PLAIN_MARKS
    text = f"  {marks[result.outcome]} {result.requirement.id}"
    width = min(display.width, _WIDEST)
    if result.verdict != Verdict.SKIPPED:
        duration = f"{brief(result.duration)} s"
        return f"{text:<{width - len(duration) - 2}}  {duration}"
    reason = f"{result.reason}: {result.worst.message}"
    room = max(width - len(text) - 2, _SHORTEST)
    if display.redraws and len(reason) > room:
        reason = reason[: room - 1] + ("…" if marks is MARKS else ".")
    return f"{text}  {reason}"


def _short(path: str) -> str:
    if not path:
        return ""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else f"./{relative}"
