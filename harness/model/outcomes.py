"""The outcomes of a probe, for both expectations and observations.

A proxy decision Forward / Drop / Reject appears as `Reached` / `TimedOut` / `Refused` at the probe. `Unknown` never
counts as right or wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reached:
    """A server responded. The values are the pod's name, and the client's address as the pod saw it."""

    pod: str
    client_address: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The connection was refused at once, by RST, any ICMP unreachable, or a socket-level load balancer in `connect`.

    All refusals are equal. `how` is the name of the error.
    """

    how: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The probe's time limit expired without a response."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The outcome is unknown, for example because the client has no route, or because an unknown server responded."""

    why: str


Observation = Reached | Refused | TimedOut | Unknown

REFUSED = Refused()
TIMED_OUT = TimedOut()
