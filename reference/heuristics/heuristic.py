"""The input and output of a heuristic, independent of how Kubernetes writes them.

A heuristic never sees an EndpointSlice: how endpoints are cut into slices must not matter to it, and it needs no word
of the API to be tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class HeuristicError(Exception):
    """A heuristic could not be loaded, broke off, or answered what makes no sense. The message names it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A ready endpoint. `node` and `zone` are empty if unknown; `pod` is a name."""

    address: str
    pod: str
    node: str
    zone: str


@dataclass(frozen=True, slots=True)
class Node:
    """A Node, ready or not. `zone` is empty if it has no zone label."""

    name: str
    zone: str
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Hints:
    """The zones and nodes whose clients should use an endpoint. At most eight of each; one named twice counts once.

    Proxies look at nodes first, then at zones; they ignore either kind of hint unless every ready endpoint has it.
    """

    zones: Sequence[str] = ()
    nodes: Sequence[str] = ()


class Heuristic(Protocol):
    """Decides for which clients each endpoint is."""

    def hints(self, endpoints: Sequence[Endpoint], nodes: Mapping[str, Node]) -> Mapping[Endpoint, Hints]:
        """The hints of each of `endpoints`, all the ready ones of a Service in one address family.

        An endpoint that is left out gets none, and then proxies ignore the hints of all. Must be a pure function: equal
        arguments, equal answer, and nothing else looked at, because it is asked again only when an argument changes.
        Whatever it raises, hints for endpoints that it was not given, and names that no zone or node can have, leave
        the family without hints.
        """
        ...
