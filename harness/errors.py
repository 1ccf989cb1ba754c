"""The errors of the harness.

    HarnessError                 the suite could not do its work
    ├── UsageError               wrong option, options file, requirement id, topology     exit 4
    ├── NothingSelectedError     right options, which leave nothing to judge or to show   exit 5
    ├── UnavailableError         this machine or backend cannot do it; skipped, by name   exit 12
    ├── IneligibleError          the cluster is too small or of the wrong make; skipped, by name
    ├── InconclusiveError        the suite could not tell                                 exit 10
    │   └── EndedError           a judged component has ended, or does nothing any more
    └── DistrustError            the suite does not trust itself: adapter, control stream exit 12
        └── StartError           a program did not start, or was not ready in time

A failed requirement is none of these: it is an `AssertionError`, and where observations say so an `UnmetError`
(`harness.judging.conclusion`).
"""

from __future__ import annotations

from collections.abc import Mapping


class HarnessError(Exception):
    """The suite could not do its work; the text says what happened and what to do next.

    `logs` are texts by file name, of programs that ended with what could not be done: nobody can gather them later.
    """

    logs: Mapping[str, str] = {}


class UsageError(HarnessError):
    """Wrong input: the text says what was wrong, where, and what is allowed."""


class NothingSelectedError(HarnessError):
    """Each choice exists, and together they select nothing; the text names the choice that excluded the last."""


class UnavailableError(HarnessError):
    """This machine or backend cannot do what was asked; the text names what is missing."""


class IneligibleError(HarnessError):
    """The cluster is not one that the scenario is for; the text says what it is not, or has not."""


class InconclusiveError(HarnessError):
    """The suite could not tell whether the requirement holds."""


class EndedError(InconclusiveError):
    """A component that is judged has ended by itself, or does nothing any more: nothing else can be told from then on.

    `component` is its name; "" where who raises it does not know. The text says who it was, and how it ended.
    """

    def __init__(self, text: str, component: str = "") -> None:
        super().__init__(text)
        self.component = component


class DistrustError(HarnessError):
    """The suite does not trust its own instruments: nothing it said can be relied on."""


class StartError(DistrustError):
    """A program did not start, and has `exited`, or it was not ready in time."""

    def __init__(self, text: str, *, exited: bool = False) -> None:
        super().__init__(text)
        self.exited = exited
