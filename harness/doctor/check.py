"""One thing that was looked at: how it is, and what a lack of it takes away from a run."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.judging.exit_codes import ExitCode
from harness.model.needs import Needs


class State(enum.StrEnum):
    """The state of what was checked. `UNKNOWN` is no lack: it could not be seen, or was not tried."""

    OK = "ok"
    UNKNOWN = "unknown"
    LACKS = "lacks"
    UNUSABLE = "cannot"


@dataclass(frozen=True, slots=True)
class Check:
    """What was found, as a sentence without a full stop; the remedy where something is wrong.

    `lacks` are abilities and nodes (names of the topology) that are not there, `features` those of requirements that
    cannot be judged; `costs` says what else it takes away, or that it takes away none.
    """

    name: str
    state: State
    found: str
    remedy: str = ""
    lacks: Needs = field(default_factory=Needs)
    features: frozenset[str] = frozenset()
    costs: str = ""


def ok(name: str, found: str) -> Check:
    """Nothing is wrong."""
    return Check(name, State.OK, found)


def unknown(name: str, found: str, remedy: str = "") -> Check:
    """It could not be seen."""
    return Check(name, State.UNKNOWN, found, remedy)


def unusable(name: str, found: str, remedy: str = "") -> Check:
    """No run is possible."""
    return Check(name, State.UNUSABLE, found, remedy)


def exit_code(checks: Iterable[Check]) -> ExitCode:
    """0 when all is well, 11 when something lacks, 12 when no run is possible."""
    states = {check.state for check in checks}
    if State.UNUSABLE in states:
        return ExitCode.DISTRUST
    return ExitCode.PARTIAL if State.LACKS in states else ExitCode.PASSED
