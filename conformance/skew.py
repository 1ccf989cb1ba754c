"""Version skew as a matrix: the releases of components by the fields of a Service, and the outcome of each cell.

Each document declares its own matrix with `Matrix`: releases, combinations, and a table with an expectation for every
cell. A cell without one is an error when the suite is collected, so a new combination cannot be forgotten.

All scenarios stand on the same five servers, three in zone a, two in zone b and none in zone c. They tell the
mechanisms apart. Each node has equally many CPUs, so that zones a, b and c have shares of 2, 2 and 1: the annotation's
heuristic gives zone c one endpoint of zone a, the field gives each endpoint to its own zone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from trafficdist import (
    API_SERVER,
    CONTROLLER,
    PROXY,
    Cluster,
    Hints,
    Pod,
    Release,
    Service,
    Traffic,
    UsageError,
    expect_hint_counts,
    expect_hints,
    expect_traffic,
)

WEB = {"app": "web"}
SERVERS = ("a1", "a1", "a2", "b1", "b2")
CLIENTS = ("a1", "a2", "b1", "c1")
SHARED_OUT = {"a": 2, "b": 2, "c": 1}

Written = Literal["none", "own zone", "own node", "own zone and node", "shared out"]
"""The hints of the five endpoints: none, each for its own place, or shared out to zones by their CPUs."""

Routed = Literal["anywhere", "by zone", "by node"]
"""The endpoints of connections: all, those hinted for the client's zone, or those for its node, then for its zone."""


@dataclass(frozen=True, slots=True)
class Skew:
    """The release of each component."""

    api_server: Release
    controller: Release
    proxy: Release


def while_upgrading(old: Release, new: Release) -> dict[str, Skew]:
    """Return the skews of an upgrade, by name: the API server is upgraded before controller and proxies."""
    return {
        "new API server": Skew(new, old, old),
        "new API server and controller": Skew(new, new, old),
        "new API server and proxy": Skew(new, old, new),
        "all new": Skew(new, new, new),
    }


@dataclass(frozen=True, slots=True)
class Outcome:
    """The hints and the routing that a cell must have."""

    written: Written
    routed: Routed


class Matrix:
    """All pairs of a skew and a Service's fields. Raises `UsageError` unless each cell has its outcome."""

    def __init__(
        self,
        skews: Mapping[str, Skew],
        asked: Mapping[str, Mapping[str, Any]],
        table: Mapping[tuple[str, str], Outcome],
    ) -> None:
        """`asked` are arguments of `Cluster.create_service`, by a name; the keys of `table` are two names."""
        cells = set(itertools.product(skews, asked))
        if cells != set(table):
            wrong = ", ".join(" / ".join(each) for each in sorted(cells ^ set(table)))
            raise UsageError(f"skew matrix: each cell needs one outcome; missing or too much: {wrong}")
        self._skews, self._asked, self._table = skews, asked, table

    def cases(self, skew: str) -> pytest.MarkDecorator:
        """Return the mark that parametrizes a test by the fields of a Service, as `asked`."""
        if skew not in self._skews:
            raise UsageError(f"skew matrix: there is no skew {skew!r}; there are {', '.join(self._skews)}")
        return pytest.mark.parametrize("asked", list(self._asked))

    def judge(self, cluster: Cluster, skew: str, asked: str) -> None:
        """Bring the components to their releases, and expect the hints and traffic of the cell's outcome."""
        bring_to(cluster, self._skews[skew])
        service = cluster.create_service(selector=WEB, **self._asked[asked])
        pods = cluster.run_servers(SERVERS, labels=WEB)
        outcome = self._table[skew, asked]
        hinted = expect_written(cluster, service, pods, outcome.written)
        expect_traffic(cluster, service, routes(pods, outcome.routed, hinted))


def bring_to(cluster: Cluster, skew: Skew) -> None:
    """Put each component at its release, in the order of an upgrade."""
    for component, release in ((API_SERVER, skew.api_server), (CONTROLLER, skew.controller), (PROXY, skew.proxy)):
        cluster.bring_to(component, release)


def expect_written(
    cluster: Cluster, service: Service, pods: Iterable[Pod], written: Written
) -> Mapping[str, AbstractSet[Pod]]:
    """Expect these hints. Returns the pods by the zone that they are hinted for."""
    by_name = {pod.name: pod for pod in pods}
    if written == "shared out":
        shared = expect_hint_counts(cluster, service, SHARED_OUT)
        return {zone: {by_name[name] for name in names} for zone, names in shared.items()}
    expect_hints(cluster, service, {name: _own(pod, written) for name, pod in by_name.items()})
    return _by(by_name.values(), "zone") if "zone" in written else {}


def routes(pods: Iterable[Pod], routed: Routed, hinted: Mapping[str, AbstractSet[Pod]]) -> Traffic:
    """Return the pods that each client may reach: those hinted for its node, else for its zone, else all."""
    everybody = set(pods)
    nodes = _by(everybody, "node") if routed == "by node" else {}
    zones = {} if routed == "anywhere" else hinted
    return {client: nodes.get(client) or zones.get(client[0]) or everybody for client in CLIENTS}


def _own(pod: Pod, written: Written) -> Hints | None:
    if written == "none":
        return None
    return Hints(zones=(pod.zone,) if "zone" in written else (), nodes=(pod.node,) if "node" in written else ())


def _by(pods: Iterable[Pod], place: Literal["zone", "node"]) -> dict[str, set[Pod]]:
    found: dict[str, set[Pod]] = {}
    for pod in pods:
        found.setdefault(getattr(pod, place), set()).add(pod)
    return found
