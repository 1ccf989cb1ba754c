"""The outcomes of a probe: expected and observed ones are of the same type.

Forward / Drop / Reject in a proxy's decision are `Reached` / `TimedOut` / `Refused` at the probe.
`Unknown` is the fourth:
the probe could not tell, and what cannot be told is never counted as right or wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reached:
    """A server answered: the pod's name, and the client's address as that pod saw it."""

    pod: str
    client_address: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The connection was refused at once, by whatever the client's kernel makes an error of: RST, any ICMP unreachable,
    a socket-level load balancer in `connect`. All are equal; `how` is the name of the error.
    """

    how: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Nothing came back within the probe's time limit."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The probe could not tell, for example because the client has no route or a stranger answered."""

    why: str


Observation = Reached | Refused | TimedOut | Unknown

REFUSED = Refused()
TIMED_OUT = TimedOut()
