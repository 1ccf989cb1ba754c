"""Derives the verdict on a test from pytest's report: passed, failed, inconclusive, or skipped for a reason.

Only a failed assertion in the test itself tells something about the implementation. A failed set-up, a time limit, or
any other exception comes from the suite or the machine, and is inconclusive.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from traceback import extract_tb
from typing import Any

import pytest

from harness.api.client import RefusedError
from harness.errors import DistrustError, HarnessError, InconclusiveError, UnavailableError
from harness.guest import errors
from harness.judging.conclusion import first_line, outside_call
from harness.judging.results import CaseResult
from harness.judging.verdict import SkipReason, Verdict


@contextlib.contextmanager
def told_apart(phase: str) -> Iterator[None]:
    """Turn every exception of a phase into one that all of pytest's reporters understand alike.

    Assertion: failed. Skip: skipped. Anything else: an error.
    """
    try:
        yield
    except UnavailableError as error:
        raise pytest.skip.Exception(f"{SkipReason.UNAVAILABLE}: {error}", _use_item_location=True) from error
    except pytest.skip.Exception:
        raise
    except pytest.fail.Exception as error:
        if str(error).startswith("Timeout "):
            raise InconclusiveError(f"the scenario did not end within its time limit: {error}") from error
        raise
    except AssertionError as error:
        if phase != "call":
            raise InconclusiveError(outside_call(phase, str(error))) from error
        raise
    except RefusedError as error:
        raise InconclusiveError(errors.of(error)) from error
    except InconclusiveError as error:
        if errors.is_of_connection(error):
            raise InconclusiveError(errors.of(error)) from error
        raise


@contextlib.contextmanager
def doubted(fixtures: Mapping[str, Any]) -> Iterator[None]:
    """Call `check_instruments()` of every fixture before an assertion fails, which may raise another error.

    A proxy that has ended by itself gives no answers, but that tells nothing about its routing.
    """
    try:
        yield
    except (AssertionError, pytest.fail.Exception):
        for value in list(fixtures.values()):
            check = getattr(value, "check_instruments", None)
            if callable(check) and not isinstance(value, type):
                check()
        raise


def judge(report: pytest.TestReport, error: BaseException | None) -> CaseResult:
    """Return the result of one phase of a test (set-up, call, teardown)."""
    result = CaseResult(report.nodeid, "", start=report.start, duration=report.duration)
    if report.skipped and not hasattr(report, "wasxfail"):
        result.verdict = Verdict.SKIPPED
        result.reason, result.message = split_reason(_skip_text(report))
    elif report.failed or hasattr(report, "wasxfail"):
        asserted = isinstance(error, (AssertionError, pytest.fail.Exception))
        result.verdict = Verdict.FAILED if asserted and report.when == "call" else Verdict.INCONCLUSIVE
        result.explanation = explanation(report, error)
        result.message = sentence(error)
    return result


def sentence(error: BaseException | None) -> str:
    """Return the first line of an exception's text, with its type if it is not one of ours."""
    if error is None:
        return "the test failed without a word"
    first = first_line(str(error))
    if isinstance(error, (AssertionError, pytest.fail.Exception, HarnessError)):
        return first or type(error).__name__
    return f"the suite itself broke: {type(error).__name__}: {first}"


def explanation(report: pytest.TestReport, error: BaseException | None) -> str:
    """Return the exception's whole text, and where it was raised, unless the text explains itself."""
    text = str(error).strip() if error is not None else ""
    if isinstance(error, HarnessError):
        return text
    if isinstance(error, AssertionError) and len(text.splitlines()) > 1:
        return f"{text}\n\n{_place(report, error)}".strip()
    return f"{text}\n\n{report.longreprtext}".strip()


def _place(report: pytest.TestReport, error: BaseException) -> str:
    """Return the line of the test at which it failed; "" if it failed elsewhere."""
    frames = [each for each in extract_tb(error.__traceback__) if each.filename.endswith(report.location[0])]
    return f"At {report.location[0]}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""


def end_with(result: CaseResult, rerun: str) -> None:
    """Append the command that runs it again to the explanation of a case that did not pass."""
    if result.explanation:
        result.rerun = rerun
        result.explanation += f"\n\nAgain:\n{rerun}"


def is_distrust(error: BaseException | None) -> bool:
    """Return whether the error says that the suite does not trust itself."""
    return isinstance(error, DistrustError)


def split_reason(text: str) -> tuple[str, str]:
    """Parse "reason: thing". A skip without one of the four reasons counts as unavailable."""
    reason, sign, thing = text.partition(": ")
    if sign and reason in tuple(SkipReason):
        return reason, thing
    return SkipReason.UNAVAILABLE, text


def _skip_text(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(report.longrepr or "")
