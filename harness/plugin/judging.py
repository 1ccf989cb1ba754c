"""Derive the verdict on a test from pytest's report: passed, failed, inconclusive, or skipped for a reason.

Only a failed assertion in the test itself is evidence about the implementation. Other exceptions are inconclusive.
"""

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from traceback import extract_tb
from typing import Any

import pytest

from harness import threads
from harness.api.client import RefusedError
from harness.errors import DistrustError, EndedError, HarnessError, InconclusiveError, IneligibleError, UnavailableError
from harness.guest import errors
from harness.judging.conclusion import InconclusiveJudgementError, UnmetError, conclude, first_line, outside_call
from harness.judging.results import Case, CaseResult
from harness.judging.verdict import Judgement, SkipReason, Verdict
from harness.model.evidence_text import bounded
from harness.plugin.time_limit import TimeLimitError
from harness.run.resource_shortage import shortage, why_it_cannot_continue

PHASES = {"setup": "set-up", "call": "call", "teardown": "teardown"}  # the project's names for pytest's phases

_LONGEST = 20_000  # characters of the message of an exception, which may quote a judged component

_SKIPPED = {UnavailableError: SkipReason.UNAVAILABLE, IneligibleError: SkipReason.INELIGIBLE}


@contextlib.contextmanager
def translated(phase: str) -> Iterator[None]:
    """Convert each exception of a phase to an exception that pytest's reporters understand."""
    try:
        with _by_kind(phase):
            yield
    except (pytest.skip.Exception, AssertionError):
        raise
    except Exception as error:
        if short := shortage(error):
            raise DistrustError(short) from error
        raise


@contextlib.contextmanager
def _by_kind(phase: str) -> Iterator[None]:
    try:
        yield
    except tuple(_SKIPPED) as error:
        raise pytest.skip.Exception(": ".join(_why_skipped(error)), _use_item_location=True) from error
    except pytest.skip.Exception:
        raise
    except TimeLimitError as error:
        raise InconclusiveError(f"the scenario did not end within its time limit: {error}") from error
    except AssertionError as error:
        if phase == "call":
            raise
        said = outside_call(phase, str(error))
        if isinstance(error, UnmetError):
            raise InconclusiveJudgementError(error.judgement, said) from error
        raise InconclusiveError(said) from error
    except RefusedError as error:
        raise InconclusiveError(errors.of(error)) from error
    except InconclusiveError as error:
        if errors.is_of_connection(error):
            raise InconclusiveError(errors.of(error)) from error
        raise


@contextlib.contextmanager
def called(fixtures: Mapping[str, Any], limit: AbstractContextManager[None]) -> Iterator[None]:
    """Run the call phase of a test in this block. Then check the scenario's expected values again."""
    with translated("call"), with_instruments_checked(fixtures), limit:
        yield
        recheck(fixtures)


@contextlib.contextmanager
def with_instruments_checked(fixtures: Mapping[str, Any]) -> Iterator[None]:
    """Before a failure is reported, check threads, and call `check_instruments()` of fixtures."""
    try:
        yield
    except (AssertionError, pytest.fail.Exception, TimeLimitError) as error:
        threads.require()
        values = [each for each in fixtures.values() if not isinstance(each, type)]
        for value in values:
            if callable(check := getattr(value, "check_instruments", None)):
                check()
        for value in values if isinstance(error, UnmetError) else ():
            if callable(check := getattr(value, "check_preliminaries", None)):
                check(str(error))
        raise


def recheck(fixtures: Mapping[str, Any]) -> None:
    from harness.scenario.convergence import recheck  # noqa: PLC0415  only tests with a cluster need it
    from harness.scenario.record import ScenarioRecord  # noqa: PLC0415

    for value in list(fixtures.values()):
        if isinstance(getattr(value, "record", None), ScenarioRecord):
            recheck(value)


def judge(report: pytest.TestReport, error: BaseException | None, case: Case) -> CaseResult:
    result = CaseResult(case.nodeid, case.requirement, case.parameters, start=report.start, duration=report.duration)
    judgement = judgement_of(error)
    if report.skipped and not hasattr(report, "wasxfail"):
        result.verdict = Verdict.SKIPPED
        result.reason, result.message = (case.reason, case.thing) if case.reason else _why_skipped(error)
    elif judgement is not None and (concluded := conclude([judgement], PHASES[str(report.when)])):
        result.verdict, result.message = concluded.verdict, concluded.message
        result.explanation = explanation(report, error)
    elif report.failed or hasattr(report, "wasxfail"):
        asserted = isinstance(error, (AssertionError, pytest.fail.Exception))
        result.verdict = Verdict.FAILED if asserted and report.when == "call" else Verdict.INCONCLUSIVE
        result.explanation = explanation(report, error)
        result.message = sentence(error)
    return result


def sentence(error: BaseException | None) -> str:
    """Return the first line of an exception, with its type unless it is an assertion or a `HarnessError`."""
    if error is None:
        return "the test failed without a message"
    first = first_line(str(error))[:_LONGEST]
    if isinstance(error, (AssertionError, pytest.fail.Exception, HarnessError)):
        return first or type(error).__name__
    return f"the suite itself broke: {type(error).__name__}: {first}"


def explanation(report: pytest.TestReport, error: BaseException | None) -> str:
    """Return the complete text of an exception, with its source location unless the text alone is sufficient."""
    text = bounded(str(error).strip()) if error is not None else ""
    if isinstance(error, HarnessError):
        return text
    if isinstance(error, UnmetError) or (isinstance(error, AssertionError) and len(text.splitlines()) > 1):
        return f"{text}\n\n{_place(report, error)}".strip()
    return f"{text}\n\n{bounded(report.longreprtext)}".strip()


def _place(report: pytest.TestReport, error: BaseException) -> str:
    frames = [each for each in extract_tb(error.__traceback__) if each.filename.endswith(report.location[0])]
    return f"At {report.location[0]}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""


def end_with(result: CaseResult, rerun: str) -> None:
    if result.explanation:
        result.rerun = rerun
        result.explanation += f"\n\nAgain:\n{rerun}"


def end_of(error: BaseException | None) -> EndedError | None:
    """If the exit of a component caused this error, return the error that reports this exit."""
    return next((each for each in _chain(error) if isinstance(each, EndedError)), None)


def logs_of(error: BaseException | None) -> Mapping[str, str]:
    return next((each.logs for each in _chain(error) if isinstance(each, HarnessError) and each.logs), {})


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def why_it_stopped(error: BaseException) -> str:
    """Return why a process of the run cannot continue, or "" for a bug in the suite."""
    if isinstance(error, EOFError):  # raised by execnet
        return "a worker exited during its start"
    return why_it_cannot_continue(error) or (sentence(error) if isinstance(error, HarnessError) else "")


def judgement_of(error: BaseException | None) -> Judgement | None:
    return error.judgement if isinstance(error, (UnmetError, InconclusiveJudgementError)) else None


def _why_skipped(error: BaseException | None) -> tuple[str, str]:
    """Return the skip reason and its details. The reason is `unavailable` unless `IneligibleError` caused the skip."""
    for each in (error, getattr(error, "__cause__", None)):
        for kind, reason in _SKIPPED.items():
            if isinstance(each, kind):
                return reason, str(each)
    return SkipReason.UNAVAILABLE, str(error)
