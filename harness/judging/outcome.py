"""The outcome of a requirement, which is the effect of its verdict on the run. MUST decides, SHOULD warns, MAY informs.

A verdict does not depend on the level, but an outcome does. The exit code, reports and summaries use outcomes.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from harness.judging.verdict import Verdict
from harness.model.requirements import Level


class Outcome(enum.StrEnum):
    MET = "met"
    FAILURE = "failure"
    """A MUST is not met."""
    INCONCLUSIVE = "inconclusive"
    """A MUST is inconclusive, or the run ended before a requirement of any level began."""
    WARNING = "warning"
    """A SHOULD is not met or inconclusive."""
    NOTE = "note"
    """A MAY is not met or inconclusive."""
    NOT_RUN = "not run"


DECISIVE = frozenset({Outcome.FAILURE, Outcome.INCONCLUSIVE})
"""Outcomes that prevent a run from passing."""

_UNMET: Mapping[Level, Mapping[Verdict, Outcome]] = {
    Level.MUST: {Verdict.FAILED: Outcome.FAILURE, Verdict.INCONCLUSIVE: Outcome.INCONCLUSIVE},
    Level.SHOULD: {Verdict.FAILED: Outcome.WARNING, Verdict.INCONCLUSIVE: Outcome.WARNING},
    Level.MAY: {Verdict.FAILED: Outcome.NOTE, Verdict.INCONCLUSIVE: Outcome.NOTE},
}


def outcome(verdict: str, level: str, *, never_began: bool = False) -> Outcome:
    """Return the outcome for a verdict. A requirement that never began is inconclusive at any level."""
    match Verdict(verdict):
        case Verdict.PASSED:
            return Outcome.MET
        case Verdict.SKIPPED:
            return Outcome.NOT_RUN
        case Verdict.INCONCLUSIVE if never_began:
            return Outcome.INCONCLUSIVE
        case unmet:
            return _UNMET[Level(level)][unmet]
