"""From the judgements in a phase of a test to the verdict on it: the same function while a run goes on and years later.

A scenario goes on as long as what it expects is there, so the first judgement that is not passed ends it, and is what
the report says of it. Whatever else decides about a test (it was not tried, an exception ended it, its own code failed
it) follows from no observation: that is said as it was, with its cause.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from harness.judging.verdict import Judgement, Verdict


class Cause(enum.StrEnum):
    """What a verdict on a test follows from; all but the first are stated, and cannot be derived."""

    OBSERVED = "observed"
    NOT_TRIED = "not tried: skipped"
    NOT_RUN = "not run: the run ended before it"
    EXCEPTION = "ended by an exception"
    OWN_CODE = "failed by the scenario's own code"
    NOTHING_JUDGED = "passed, and nothing was judged"
    OVERRULED = "passed, though a judgement had not"


_NOT_OBSERVED = {
    Verdict.SKIPPED: Cause.NOT_TRIED,
    Verdict.INCONCLUSIVE: Cause.EXCEPTION,
    Verdict.FAILED: Cause.OWN_CODE,
}


def conclude(judgements: Sequence[Judgement], phase: str) -> Judgement | None:
    """The verdict on a phase (set-up, call or teardown) that judgements ended or let pass; None where there are none.

    Its message is one line, as reports have it.
    """
    if not judgements:
        return None
    decisive = next((each for each in judgements if each.verdict is not Verdict.PASSED), None)
    if decisive is None:
        return Judgement(Verdict.PASSED, "")
    if decisive.verdict is Verdict.FAILED and phase != "call":
        return Judgement(Verdict.INCONCLUSIVE, first_line(outside_call(phase, decisive.message)))
    return Judgement(decisive.verdict, first_line(decisive.message))


def cause(concluded: Judgement | None, verdict: Verdict, message: str) -> Cause:
    """What a verdict with this message follows from, if this can be concluded from observations."""
    if concluded is not None and (concluded.verdict, concluded.message) == (verdict, message):
        return Cause.OBSERVED
    if verdict is Verdict.PASSED:
        return Cause.NOTHING_JUDGED if concluded is None else Cause.OVERRULED
    return _NOT_OBSERVED[verdict]


def outside_call(phase: str, text: str) -> str:
    """What is said of an assertion that fails before or after the test itself: it says nothing of what is judged."""
    return f"during {phase}: {text}"


def first_line(text: str) -> str:
    """The first line that says something; "" if none does."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
