"""Read the results of all tests from the history during a run. After the tests, write reports and set the exit code."""

import contextlib
import signal
import subprocess
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DistrustError, UsageError
from harness.judging.exit_codes import ExitCode, ExitConditions, exit_code
from harness.judging.history import HistoryParts
from harness.judging.judge import Judge, JudgedRun
from harness.judging.results import Case, CaseResult, Result, situation
from harness.judging.verdict import SkipReason, Verdict
from harness.model.privacy import private
from harness.plugin import judging
from harness.plugin.recorder import DISTRUST, MISSING
from harness.report import rerun
from harness.report.causes import CommonCause
from harness.report.writer import write_reports
from harness.run.plan import Plan
from harness.run.run import Run

_END_SECONDS = 5.0


class ResultCollector:
    """Collects the results of all tests. `results` may be called at any time."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._parts = HistoryParts()
        self._judge = Judge()
        self._crashed: dict[str, CaseResult] = {}  # by node id
        self._other_failures = 0
        self._stopped = ""
        self._broke_off = False  # whether the run could not continue, for a known reason
        self.exit_code: ExitCode | None = None
        self.report: Path | None = None  # set when the report has been written
        self.causes: Sequence[CommonCause] | None = None  # likewise

    def results(self) -> list[Result]:
        """Return one result per requirement, sorted by id. A case that did not run is inconclusive or skipped."""
        plan, judged = self._plan, self._judged()
        found: dict[str, list[CaseResult]] = {requirement_id: [] for requirement_id in plan.requirements}
        for case in plan.cases:
            found[case.requirement].append(self._result_of(case, judged))
        return [Result(plan.requirements[each], tuple(found[each])) for each in sorted(found) if found[each]]

    def result(self, requirement_id: str) -> Result:
        plan, judged = self._plan, self._judged()
        cases = tuple(self._result_of(case, judged) for case in plan.cases_of(requirement_id))
        return Result(plan.requirements[requirement_id], cases)

    @property
    def _plan(self) -> Plan:
        return self._run.known_plan() or Plan()

    def _judged(self) -> JudgedRun:
        try:
            for record in self._parts.new(self._run.folder.histories()):
                self._judge.read(record, f"worker {record['worker']}")
        except UsageError as error:
            self._distrust(f"the history of the run: {error}")
        return self._judge.judged

    def _result_of(self, case: Case, judged: JudgedRun) -> CaseResult:
        """Return the result of a case. A passed case counts only after its teardown has ended."""
        key = (case.requirement, private(case.parameters))
        known = replace(judged.case(key), nodeid=case.nodeid) if key in judged.cases else None
        if known is None or (known.verdict == Verdict.PASSED and key not in judged.seconds):
            return judged.completed(key, self._crashed.get(case.nodeid) or self._absent(case))
        if crashed := self._crashed.get(case.nodeid):
            known.worsen(crashed)
        return known

    def _absent(self, case: Case) -> CaseResult:
        result = CaseResult(case.nodeid, case.requirement, private(case.parameters))
        if case.reason:
            result.verdict, result.reason, result.message = Verdict.SKIPPED, case.reason, case.thing
            return result
        result.never_began = True
        if self._run.settings.fail_fast and not self._run.interrupted and not self._run.distrust:
            result.verdict, result.reason = Verdict.SKIPPED, SkipReason.DESELECTED
            result.message = "not run: --fail-fast stopped the run earlier"
        else:
            result.verdict = Verdict.INCONCLUSIVE
            result.message = result.explanation = f"not run: {self._stopped or 'the run ended before it'}"
        return result

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record what the history lacks: faults of instruments, crashes, and failed tests without a requirement."""
        self._run.retries += str(report.outcome) == "rerun"  # pytest-rerunfailures
        if distrust := dict(report.user_properties).get(DISTRUST):
            self._distrust(str(distrust))
        lacks = [str(value) for name, value in report.user_properties if name == MISSING]
        self._run.missing += [each for each in lacks if each not in self._run.missing]
        case = next((case for case in self._plan.cases if case.nodeid == report.nodeid), None)
        if case is None:
            self._other_failures += report.failed
        elif report.when not in judging.PHASES and report.failed:  # xdist's report about a crashed worker
            self._note_crash(case, f"{report.longrepr}{self._how_it_ended(getattr(report, 'node', None))}")
        if self._run.settings.fail_fast and report.failed:
            self._end_if_decided()

    def _end_if_decided(self) -> None:
        """End the session once its exit code can no longer be 0. pytest's --maxfail would also count warnings."""
        begun = [each for each in self.results() if not all(case.never_began for case in each.cases)]
        found = situation(begun, strict=self._run.settings.warnings_as_errors)
        if not (found.failed or found.inconclusive or self._other_failures):
            return
        workers = self._session.config.pluginmanager.getplugin("dsession")
        if workers is None:
            self._session.shouldfail = "--fail-fast"
        else:
            workers.shouldstop = "--fail-fast"

    def _note_crash(self, case: Case, message: str) -> None:
        result = CaseResult(case.nodeid, case.requirement, private(case.parameters), verdict=Verdict.INCONCLUSIVE)
        result.message = result.explanation = private(message)
        judging.end_with(result, private(rerun.again(self._run.settings, case, arguments=self._run.arguments)))
        self._crashed[case.nodeid] = result

    def _how_it_ended(self, node: Any) -> str:
        """Return how a worker ended, if this is known: its last message, or the signal that killed it."""
        if node is None:
            return ""
        said = self._run.folder.parts_named(f"lost-{node.gateway.id}")
        with contextlib.suppress(subprocess.TimeoutExpired, AttributeError, ValueError):
            code = node.gateway._io.popen.wait(_END_SECONDS)
            said = said or ([f"it was ended by {signal.Signals(-code).name}"] if code < 0 else [])
        return f": {said[0]}" if said else ""

    def _distrust(self, why: str) -> None:
        if why not in self._run.distrust:
            self._run.distrust.append(why)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._distrust(f"{report.nodeid or 'the suite'} could not be collected")

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Distinguish Ctrl-C from pytest's own stops, which use the same exception."""
        self._stopped = str(excinfo.value)
        by_hand = type(excinfo.value) in (KeyboardInterrupt, pytest.exit.Exception)
        if by_hand or "keyboard-interrupt" in self._stopped:  # xdist uses the second text for a worker
            self._run.interrupt()
            self._stopped = "the run was interrupted"
            self._run.interrupt_workers()

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
        """Suppress the traceback of an internal error if its reason is known. The summary states the reason."""
        reason = judging.why_it_stopped(excinfo.value)
        if reason:
            self._distrust(reason)
            self._broke_off = True
        return bool(reason)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """End the run if a worker exited because it could not continue. The worker has already printed the reason."""
        if error and error != "keyboard-interrupt" and _ended_itself(node.gateway):
            self._distrust(f"worker {node.gateway.id} could not continue")
            self._session.config.pluginmanager.getplugin("dsession").shouldstop = self._run.distrust[-1]

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None]:
        """Write all reports even if the cleanup failed, then set the exit code."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  a failed cleanup must not prevent the report
            self._distrust(judging.why_it_stopped(error) or judging.sentence(error))
        if session.config.stash.get(FINISHED, False):
            return
        session.config.stash[FINISHED] = True
        self.finish(int(exitstatus))
        assert self.exit_code is not None
        session.exitstatus = self.exit_code

    def finish(self, pytest_status: int) -> None:
        """Write the reports, then compute the exit code, which depends on write errors."""
        plan = self._run.known_plan()
        if plan is not None and plan.error:
            self._run.usage_error = plan.error
        if self._run.usage_error or pytest_status == ExitCode.USAGE:
            self._run.folder.abandon()
            self.exit_code = ExitCode.USAGE
            return
        with contextlib.suppress(OSError, UsageError):  # a full disk: the history has no end record
            self._run.close_history()
        results = self.results()
        try:
            self._write(results)
            self._run.folder.finish()
        except (DistrustError, OSError) as error:
            self._distrust(judging.why_it_stopped(error) or str(error))
            self._run.folder.let_go()
        self.exit_code = exit_code(self._situation(pytest_status, results))
        self._run.when_decided(self.exit_code)

    def _write(self, results: list[Result]) -> None:
        """Write the reports. Write them again if a signal arrives meanwhile, because they state "not interrupted"."""
        while not self._run.sealed:
            said = self._run.interrupted
            self.report, self.causes = write_reports(self._run, results, self._judged(), self._parts.recorded())
            self._run.sealed = self._run.interrupted == said

    def _situation(self, pytest_status: int, results: list[Result]) -> ExitConditions:
        told = situation(results, strict=self._run.settings.warnings_as_errors)
        return replace(
            told,
            pytest_status=ExitCode.PASSED if self._broke_off else pytest_status,
            interrupted=self._run.interrupted,
            distrust=bool(self._run.distrust),
            failed=told.failed or self._other_failures > 0,
        )


def _ended_itself(gateway: Any) -> bool:
    """Return whether a disconnected worker exited because it could not continue (see `Recorder`)."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return bool(gateway._io.popen.wait(_END_SECONDS) == ExitCode.DISTRUST)
    return False


FINISHED = pytest.StashKey[bool]()
