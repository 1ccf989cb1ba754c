"""The exit codes of a run and their precedence. Codes 0 to 6 are pytest's. A failed requirement takes precedence over
an inconclusive requirement. `DISTRUST` (the suite itself is faulty) precedes both. By default, the exit code depends
only on MUST requirements, and on requirements that never began.
"""

import enum
from dataclasses import dataclass


class ExitCode(enum.IntEnum):
    PASSED = 0
    FAILED = 1
    INTERRUPTED = 2
    INTERNAL_ERROR = 3
    USAGE = 4
    NOTHING_SELECTED = 5
    INCONCLUSIVE = 10
    PARTIAL = 11
    DISTRUST = 12
    UNVERIFIED = 13  # only `trafficdist verify` and `trafficdist shelf` use it


MEANINGS: dict[ExitCode, str] = {
    ExitCode.PASSED: "every selected MUST is met; a SHOULD that is not met is a warning",
    ExitCode.FAILED: "at least one MUST is not met, or with --warnings-as-errors a SHOULD",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.INTERNAL_ERROR: "an internal error in pytest or in a plugin",
    ExitCode.USAGE: "wrong options",
    ExitCode.NOTHING_SELECTED: "no requirement was selected",
    ExitCode.INCONCLUSIVE: "nothing failed, but a MUST is inconclusive",
    ExitCode.PARTIAL: "nothing failed, but a claimed MUST did not run",
    ExitCode.DISTRUST: "the suite does not trust its own instruments; rely on none of its verdicts",
}


@dataclass(frozen=True, slots=True)
class ExitConditions:
    pytest_status: int = 0
    interrupted: bool = False
    distrust: bool = False
    failed: bool = False
    inconclusive: bool = False
    not_run: bool = False
    selected: bool = True


def exit_code(situation: ExitConditions) -> ExitCode:
    """Return the exit code of the first condition that applies, in order of precedence."""
    ordered = (
        (situation.pytest_status == ExitCode.INTERNAL_ERROR, ExitCode.INTERNAL_ERROR),
        (situation.pytest_status == ExitCode.USAGE, ExitCode.USAGE),
        (situation.interrupted, ExitCode.INTERRUPTED),
        (situation.distrust, ExitCode.DISTRUST),
        (situation.failed, ExitCode.FAILED),
        (situation.inconclusive, ExitCode.INCONCLUSIVE),
        (not situation.selected, ExitCode.NOTHING_SELECTED),
        (situation.not_run, ExitCode.PARTIAL),
    )
    return next((code for holds, code in ordered if holds), ExitCode.PASSED)
