"""Derives the verdict on a phase of a test from its judgements. A run and `trafficdist judge` use the same functions.
The first judgement that did not pass ends the scenario and determines the verdict, unless a preliminary judgement
follows, which reports the failure of a basic check that the scenario depends on.
"""

import enum
from collections.abc import Sequence
from typing import NoReturn

from harness.errors import InconclusiveError
from harness.judging.verdict import Judgement, Verdict


class UnmetError(AssertionError):
    def __init__(self, judgement: Judgement, message: str) -> None:
        super().__init__(message)
        self.judgement = judgement


class InconclusiveJudgementError(InconclusiveError):
    """Raised for an inconclusive judgement, or for a judgement that failed during setup or teardown."""

    def __init__(self, judgement: Judgement, message: str) -> None:
        super().__init__(message)
        self.judgement = judgement


def raise_for(judgement: Judgement, message: str) -> NoReturn:
    raise (InconclusiveJudgementError if judgement.verdict is Verdict.INCONCLUSIVE else UnmetError)(judgement, message)


class VerdictCause(enum.StrEnum):
    """The cause of a verdict on a test. Only a verdict with the cause `OBSERVED` can be derived from judgements."""

    OBSERVED = "observed"
    NOT_TRIED = "not tried: skipped"
    SKIPPED_LATER = "skipped later: everything judged before had passed"
    NOT_RUN = "not run: the run ended before it"
    EXCEPTION = "ended by an exception"
    OWN_CODE = "failed by the scenario's own code"
    NOTHING_JUDGED = "passed, and nothing was judged"
    OVERRULED = "passed, though a judgement had not"


_NOT_OBSERVED = {
    Verdict.SKIPPED: VerdictCause.NOT_TRIED,
    Verdict.INCONCLUSIVE: VerdictCause.EXCEPTION,
    Verdict.FAILED: VerdictCause.OWN_CODE,
}


def conclude(judgements: Sequence[Judgement], phase: str) -> Judgement | None:
    """Return the verdict on a phase (setup, call or teardown) and a line about it, or None if nothing was judged."""
    if not judgements:
        return None
    decisive = _decisive(judgements)
    if decisive is None:
        return Judgement(Verdict.PASSED, "")
    if decisive.verdict is Verdict.FAILED and phase != "call":
        return Judgement(Verdict.INCONCLUSIVE, first_line(outside_call(phase, decisive.message)))
    return Judgement(decisive.verdict, first_line(decisive.message))


def cause(judgements: Sequence[Judgement], verdict: Verdict, ended_by: Judgement | None) -> VerdictCause:
    """Return the cause of the verdict on a phase. `ended_by` is the judgement that ended the phase, if any."""
    decisive = _decisive(judgements)
    if verdict is Verdict.SKIPPED and judgements and decisive is None:
        return VerdictCause.SKIPPED_LATER
    if verdict is not Verdict.PASSED:
        return _NOT_OBSERVED[verdict] if ended_by is None or ended_by != decisive else VerdictCause.OBSERVED
    if not judgements:
        return VerdictCause.NOTHING_JUDGED
    return VerdictCause.OBSERVED if decisive is None else VerdictCause.OVERRULED


def _decisive(judgements: Sequence[Judgement]) -> Judgement | None:
    unmet = [each for each in judgements if each.verdict is not Verdict.PASSED]
    return next((each for each in unmet if each.preliminary), unmet[0] if unmet else None)


def outside_call(phase: str, text: str) -> str:
    """Return the message of a test that is inconclusive because an assertion failed in setup or teardown."""
    return f"during {phase}: {text}"


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
