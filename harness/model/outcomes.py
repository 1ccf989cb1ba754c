"""The outcomes of a probe, for both expectations and observations.

Forward / Drop / Reject in a proxy's decision are `Reached` / `TimedOut` / `Refused` at the probe. `Unknown` is never
counted as right or wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reached:
    """A server answered: the pod's name, and the client's address as the pod saw it."""

    pod: str
    client_address: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The connection was refused at once: by RST, any ICMP unreachable, or a socket-level load balancer in `connect`.

    All refusals are equal; `how` is the name of the error.
    """

    how: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No answer within the probe's time limit."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The outcome is unknown, for example because the client has no route, or an unknown server answered."""

    why: str


Observation = Reached | Refused | TimedOut | Unknown

REFUSED = Refused()
TIMED_OUT = TimedOut()
