"""The errors of the harness.

    HarnessError                 the suite could not do its work
    ├── UsageError               wrong option, options file, requirement id, topology     exit 4
    ├── NothingSelectedError     valid options that select nothing                        exit 5
    ├── UnavailableError         not supported by this machine or backend; skipped        exit 12
    ├── IneligibleError          the cluster is too small or of another kind; skipped
    ├── InconclusiveError        the result is unknown                                    exit 10
    │   └── EndedError           a judged component has ended or stopped processing changes
    └── DistrustError            the suite's own instruments are faulty                   exit 12
        └── StartError           a program did not start, or was not ready in time

A failed requirement raises an `AssertionError`; if it is based on observations, an `UnmetError`
(`harness.judging.conclusion`).
"""

from __future__ import annotations

from collections.abc import Mapping


class HarnessError(Exception):
    """The suite could not do its work; the text says what happened and what to do next.

    `logs` are logs by file name of programs that have ended, which cannot be gathered later.
    """

    logs: Mapping[str, str] = {}


class UsageError(HarnessError):
    """Invalid input: the text says what is wrong, where, and what is allowed."""


class NothingSelectedError(HarnessError):
    """The options together select nothing; the text names the option that excluded the last item."""


class UnavailableError(HarnessError):
    """This machine or backend lacks something; the text names it."""


class IneligibleError(HarnessError):
    """The scenario is not for this cluster; the text says why."""


class InconclusiveError(HarnessError):
    """The suite could not find out whether the requirement holds."""


class EndedError(InconclusiveError):
    """A judged component has ended by itself or stopped processing changes, so that later observations prove nothing.

    `component` is its name, or "" if it is unknown. The text names it and says how it ended.
    """

    def __init__(self, text: str, component: str = "") -> None:
        super().__init__(text)
        self.component = component


class DistrustError(HarnessError):
    """The suite's own instruments are faulty: its results cannot be trusted."""


class StartError(DistrustError):
    """A program did not start: it has `exited`, or was not ready in time."""

    def __init__(self, text: str, *, exited: bool = False) -> None:
        super().__init__(text)
        self.exited = exited
