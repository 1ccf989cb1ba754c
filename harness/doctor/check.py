"""One check: its state, and what a lack costs a run."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.judging.exit_codes import ExitCode
from harness.model.needs import Needs


class CheckState(enum.StrEnum):
    """The state of what was checked. `UNKNOWN` is no lack: it could not be seen, or was not tried."""

    OK = "ok"
    UNKNOWN = "unknown"
    LACKS = "lacks"
    UNUSABLE = "cannot"


@dataclass(frozen=True, slots=True)
class Check:
    """The finding, as a sentence without a full stop, and the remedy if something is wrong.

    `lacks` are missing abilities and nodes (names of the topology), `features` those of requirements that cannot be
    judged; `costs` says what else is lost, or that no requirement is.
    """

    name: str
    state: CheckState
    found: str
    remedy: str = ""
    lacks: Needs = field(default_factory=Needs)
    features: frozenset[str] = frozenset()
    costs: str = ""


def ok(name: str, found: str) -> Check:
    """Return a check without a fault."""
    return Check(name, CheckState.OK, found)


def unknown(name: str, found: str, remedy: str = "") -> Check:
    """Return a check whose state could not be seen."""
    return Check(name, CheckState.UNKNOWN, found, remedy)


def unusable(name: str, found: str, remedy: str = "") -> Check:
    """Return a check with which no run is possible."""
    return Check(name, CheckState.UNUSABLE, found, remedy)


def exit_code(checks: Iterable[Check]) -> ExitCode:
    """Return 0 if all is well, 11 if something is lacking, 12 if no run is possible."""
    states = {check.state for check in checks}
    if CheckState.UNUSABLE in states:
        return ExitCode.DISTRUST
    return ExitCode.PARTIAL if CheckState.LACKS in states else ExitCode.PASSED
