"""The input and output of a heuristic. Its result must not depend on how endpoints are split into slices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class HeuristicError(Exception):
    """A heuristic could not be loaded, failed, or returned an invalid result. The message names the heuristic."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A ready endpoint. `node` and `zone` are "" if unknown. `pod` is the name of its pod."""

    address: str
    pod: str
    node: str
    zone: str


@dataclass(frozen=True, slots=True)
class Node:
    """A Node, ready or not. `zone` is "" if the Node has no zone label."""

    name: str
    zone: str
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Hints:
    """The zones and nodes whose clients should use an endpoint. At most eight of each are allowed.

    Proxies prefer node hints to zone hints. They ignore either kind unless all ready endpoints have it.
    """

    zones: Sequence[str] = ()
    nodes: Sequence[str] = ()


class Heuristic(Protocol):
    """Decides which clients should use each endpoint."""

    def hints(self, endpoints: Sequence[Endpoint], nodes: Mapping[str, Node]) -> Mapping[Endpoint, Hints]:
        """Return hints for `endpoints`: all ready endpoints of a Service in one address family.

        An endpoint that is missing from the result receives no hints, and proxies then ignore all hints of the address
        family. `hints` must be a pure function, because it is called again only when an argument changes. If it raises
        an exception, or returns hints for unknown endpoints or invalid names, the address family has no hints.
        """
        ...
