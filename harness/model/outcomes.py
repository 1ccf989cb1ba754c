"""The outcomes of a probe, used for both expectations and observations.

The proxy decisions Forward / Drop / Reject appear as `Reached` / `TimedOut` / `Refused` at the probe. `Unknown` is
never right or wrong.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reached:
    """A server replied. The values are the pod's name, and the client's address as seen by the pod."""

    pod: str
    client_address: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The connection was refused immediately: by RST, an ICMP unreachable message, or a socket-level load balancer in
    `connect`.

    All refusals are equal. `how` is the name of the error.
    """

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
