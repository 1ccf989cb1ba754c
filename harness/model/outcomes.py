"""The outcomes of a probe, for expectations and observations. `Unknown` is neither correct nor wrong."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reached:
    """A server replied. The values are the pod's name, and the client's address as seen by the pod."""

    pod: str
    client_address: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The connection was refused immediately. Two refusals are always equal. `how` is the name of the error."""

    how: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No reply arrived within the probe's time limit."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The outcome is unknown, for example because the client has no route, or because an unknown server replied."""

    why: str


Observation = Reached | Refused | TimedOut | Unknown

REFUSED = Refused()
TIMED_OUT = TimedOut()
