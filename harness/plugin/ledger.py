"""Collects the results of all tests in the controller; at the end it writes the reports and sets the exit code."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DistrustError
from harness.judging.exit_codes import ExitCode, Situation, exit_code
from harness.judging.results import Case, CaseResult, Result, situation
from harness.judging.verdict import SkipReason, Verdict
from harness.plugin import judging
from harness.plugin.recorder import PROPERTY
from harness.report import rerun
from harness.report.writer import write_reports
from harness.run import durations
from harness.run.plan import Plan
from harness.run.run import Run

_END_SECONDS = 5.0


class Ledger:
    """The part of the plugin that collects results. `results` may be called at any time."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._cases: dict[str, CaseResult] = {}
        self._through: set[str] = set()  # node ids of cases whose teardown was seen
        self._other_failures = 0
        self._stopped = ""
        self._broke_off = False  # it could not go on, for a reason that is known
        self.exit_code: ExitCode | None = None
        self.report: Path | None = None  # once it is written

    def results(self) -> list[Result]:
        """Return one result a requirement, by id. A planned case that did not run is inconclusive or skipped."""
        plan = self._run.known_plan() or Plan()
        found: dict[str, list[CaseResult]] = {requirement_id: [] for requirement_id in plan.requirements}
        for case in plan.cases:
            found[case.requirement].append(self._result_of(case))
        return [Result(plan.requirements[each], tuple(found[each])) for each in sorted(found) if found[each]]

    def result(self, requirement_id: str) -> Result:
        """Return the present result of one planned requirement."""
        plan = self._run.known_plan() or Plan()
        cases = tuple(self._result_of(case) for case in plan.cases_of(requirement_id))
        return Result(plan.requirements[requirement_id], cases)

    def _result_of(self, case: Case) -> CaseResult:
        result = self._cases.get(case.nodeid)
        if result is None or (case.nodeid not in self._through and result.verdict == Verdict.PASSED):
            result = CaseResult(case.nodeid, case.requirement, case.parameters)
            self._explain_absence(result, case.reason, case.thing)
        return result

    def _explain_absence(self, result: CaseResult, reason: str, thing: str) -> None:
        if reason:
            result.verdict, result.reason, result.message = Verdict.SKIPPED, reason, thing
            return
        result.never_began = True
        if self._run.settings.fail_fast and not self._run.interrupted and not self._run.distrust:
            result.verdict, result.reason = Verdict.SKIPPED, SkipReason.DESELECTED
            result.message = "not run: --fail-fast stopped the run before it"
        else:
            result.verdict = Verdict.INCONCLUSIVE
            result.message = result.explanation = f"not run: {self._stopped or 'the run ended before it'}"

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep the session, which --fail-fast ends."""
        self._session = session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record one phase of one test."""
        self._run.retries += str(report.outcome) == "rerun"  # pytest-rerunfailures
        payload = dict(report.user_properties).get(PROPERTY)
        if isinstance(payload, dict):
            self._record(dict(payload))
        elif report.failed and (case := self._planned().get(report.nodeid)) is not None:
            self._crashed(case, str(report.longrepr))
        else:
            self._other_failures += report.failed
        if self._run.settings.fail_fast and report.failed:
            self._end_if_decided()

    def _end_if_decided(self) -> None:
        """End the session once its exit code cannot be 0 any more. pytest's own limit counts warnings too."""
        begun = [self.result(each) for each in {case.requirement for case in self._cases.values()}]
        found = situation(begun, strict=self._run.settings.warnings_as_errors)
        if not (found.failed or found.inconclusive or self._other_failures):
            return
        workers = self._session.config.pluginmanager.getplugin("dsession")
        if workers is None:
            self._session.shouldfail = "--fail-fast"
        else:
            workers.shouldstop = "--fail-fast"

    def _record(self, payload: dict[str, Any]) -> None:
        distrust = payload.pop("distrust")
        if distrust:
            self._distrust(distrust)
        if payload.pop("phase") == "teardown":
            self._through.add(payload["nodeid"])
        self._take_in(CaseResult(**payload))

    def _take_in(self, result: CaseResult) -> None:
        known = self._cases.setdefault(result.nodeid, result)
        if known is not result:
            known.worsen(result)

    def _planned(self) -> dict[str, Case]:
        plan = self._run.known_plan() or Plan()
        return {case.nodeid: case for case in plan.cases}

    def _crashed(self, case: Case, message: str) -> None:
        result = CaseResult(case.nodeid, case.requirement, case.parameters, verdict=Verdict.INCONCLUSIVE)
        result.message = result.explanation = message
        judging.end_with(result, rerun.again(self._run.settings, case, arguments=self._run.arguments))
        self._take_in(result)

    def _distrust(self, why: str) -> None:
        if why not in self._run.distrust:
            self._run.distrust.append(why)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Distrust a suite that cannot be collected whole."""
        if report.failed:
            self._distrust(f"{report.nodeid or 'the suite'} could not be collected")

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Tell Ctrl-C from pytest's own ways to stop, which use the same exception."""
        self._stopped = str(excinfo.value)
        by_hand = type(excinfo.value) in (KeyboardInterrupt, pytest.exit.Exception)
        if by_hand or "keyboard-interrupt" in self._stopped:  # the latter is xdist's text for a worker
            self._run.interrupt()
            self._stopped = "the run was interrupted"
            self._run.interrupt_workers()

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
        """Tell in one line, in place of a traceback, if it is known why the run cannot go on."""
        told = judging.why_broken_off(excinfo.value)
        if told:
            self._distrust(told)
            self._broke_off = True
        return bool(told)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """End the run if a worker has ended itself because it could not go on; it has said why."""
        if error and error != "keyboard-interrupt" and _ended_itself(node.gateway):
            self._distrust(f"worker {node.gateway.id} could not go on")
            self._session.config.pluginmanager.getplugin("dsession").shouldstop = self._run.distrust[-1]

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None]:
        """Write all reports, whatever became of the clean-up, then set the exit code."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  it keeps nobody from the report
            self._distrust(judging.why_broken_off(error) or judging.sentence(error))
        if session.config.stash.get(FINISHED, False):
            return
        session.config.stash[FINISHED] = True
        self.finish(int(exitstatus))
        assert self.exit_code is not None
        session.exitstatus = self.exit_code

    def finish(self, pytest_status: int) -> None:
        """Write the reports, then compute the exit code: a report that could not be written changes it."""
        plan = self._run.known_plan()
        if plan is not None and plan.error:
            self._run.usage_error = plan.error
        if self._run.usage_error or pytest_status == ExitCode.USAGE:
            self._run.folder.abandon()
            self.exit_code = ExitCode.USAGE
            return
        results = self.results()
        durations.remember(self._run.settings, self._run.suite, results)
        try:
            self._write(results)
            self._run.folder.finish()
        except (DistrustError, OSError) as error:
            self._distrust(judging.why_broken_off(error) or str(error))
            self._run.folder.keep_parts()
        self.exit_code = exit_code(self._situation(pytest_status, results))
        self._run.when_decided(self.exit_code)

    def _write(self, results: list[Result]) -> None:
        """Write the reports, again if a signal came meanwhile: it was said that the run was not interrupted."""
        while not self._run.sealed:
            said = self._run.interrupted
            self.report = write_reports(self._run, results)
            self._run.sealed = self._run.interrupted == said

    def _situation(self, pytest_status: int, results: list[Result]) -> Situation:
        told = situation(results, strict=self._run.settings.warnings_as_errors)
        return replace(
            told,
            pytest_status=ExitCode.PASSED if self._broke_off else pytest_status,
            interrupted=self._run.interrupted,
            distrust=bool(self._run.distrust),
            failed=told.failed or self._other_failures > 0,
        )


def _ended_itself(gateway: Any) -> bool:
    """Return whether a worker whose pipe is closed ended because it could not go on: see `Recorder`."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return bool(gateway._io.popen.wait(_END_SECONDS) == ExitCode.DISTRUST)
    return False


FINISHED = pytest.StashKey[bool]()
