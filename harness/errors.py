"""The exceptions of the harness.

    HarnessError                 the suite could not do its work
    ├── UsageError               wrong option, options file, requirement id, topology     exit 4
    ├── NothingSelectedError     valid options that select nothing                        exit 5
    ├── UnavailableError         not supported by this machine or backend; skipped        exit 12
    ├── IneligibleError          the cluster is too small or of another kind; skipped
    ├── InconclusiveError        the result is unknown                                    exit 10
    │   ├── EndedError           a judged component has ended or stopped processing changes
    │   └── StarvedError         the programs got too little CPU time within a time limit
    └── DistrustError            the suite's own instruments are faulty                   exit 12
        └── StartError           a program did not start, or was not ready in time

A failed requirement raises an `AssertionError`, or an `UnmetError` if the failure is based on observations.
"""

from collections.abc import Mapping


class HarnessError(Exception):
    """The suite could not do its work. The message describes the problem and how to fix it. `logs` contains the logs of
    programs that have ended, keyed by file name, because they cannot be gathered later.
    """

    logs: Mapping[str, str] = {}


class UsageError(HarnessError):
    """The input is invalid. The message states the error, its location, and the allowed values."""


class NothingSelectedError(HarnessError):
    """The combined options select nothing. The message names the conflicting options, if possible."""


class UnavailableError(HarnessError):
    """This machine or backend lacks something that the test needs. The message states what is missing."""


class IneligibleError(HarnessError):
    """The scenario does not suit this cluster. The message gives the reason."""


class InconclusiveError(HarnessError):
    """The suite could not determine whether the requirement holds."""


class EndedError(InconclusiveError):
    """A judged component has ended unexpectedly or stopped processing changes. Later observations would prove nothing.
    `component` is the component's name, or "" if it is unknown. The message states how the component ended.
    """

    def __init__(self, message: str, component: str = "") -> None:
        super().__init__(message)
        self.component = component


class StarvedError(InconclusiveError):
    """The programs of the run got too little CPU time within a time limit, so their delay proves nothing."""


class DistrustError(HarnessError):
    """The suite's own instruments are faulty, so the results cannot be trusted."""


class StartError(DistrustError):
    """A program did not start: it exited (`exited` is true), or it was not ready in time."""

    def __init__(self, message: str, *, exited: bool = False) -> None:
        super().__init__(message)
        self.exited = exited
