"""Test version skew with a matrix of component releases and Service fields, with an expected outcome for each cell.

Each KEP's tests define a `SkewMatrix` with skews, Service fields, and a table with the outcome of every cell. A missing
outcome is an error when pytest collects the suite, so a new combination cannot be forgotten.

All scenarios use the same five servers: three in zone a, two in zone b and none in zone c. So the topology annotation
and trafficDistribution lead to different hints. All nodes have the same number of CPUs, so zones a and b each have two
CPU shares, and zone c has one. With the annotation, the controller hints one endpoint in zone a for zone c; with
trafficDistribution, it hints each endpoint for its own zone.
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
"""The hints of the five endpoints: none, for the endpoint's own zone or node, or allocated to zones by CPU."""

Routed = Literal["anywhere", "by zone", "by node"]
"""The endpoints that a client uses: all, those hinted for its zone, or those hinted for its node, else for its zone."""


@dataclass(frozen=True, slots=True)
class Skew:
    """The releases of the components in one cell."""

    api_server: Release
    controller: Release
    proxy: Release


def while_upgrading(old: Release, new: Release) -> dict[str, Skew]:
    """Return the skews during an upgrade, by name. The API server is upgraded before the controller and the proxies."""
    return {
        "new API server": Skew(new, old, old),
        "new API server and controller": Skew(new, new, old),
        "new API server and proxy": Skew(new, old, new),
        "all new": Skew(new, new, new),
    }


@dataclass(frozen=True, slots=True)
class RequiredOutcome:
    """The hints and routing that a cell requires."""

    written: Written
    routed: Routed


class SkewMatrix:
    """All combinations of a skew and the fields of a Service. Raises `UsageError` if a cell has no outcome."""

    def __init__(
        self,
        skews: Mapping[str, Skew],
        asked: Mapping[str, Mapping[str, Any]],
        table: Mapping[tuple[str, str], RequiredOutcome],
    ) -> None:
        """`asked` maps names to arguments of `Cluster.create_service`. The keys of `table` are (skew, name)."""
        cells = set(itertools.product(skews, asked))
        if cells != set(table):
            wrong = ", ".join(" / ".join(each) for each in sorted(cells ^ set(table)))
            raise UsageError(f"skew matrix: each cell needs one outcome; missing or extra: {wrong}")
        self._skews, self._asked, self._table = skews, asked, table

    def cases(self, skew: str) -> pytest.MarkDecorator:
        """Return the pytest mark that parametrizes the argument `asked` of a test."""
        if skew not in self._skews:
            raise UsageError(f"skew matrix: unknown skew {skew!r}; the matrix has {', '.join(self._skews)}")
        return pytest.mark.parametrize("asked", list(self._asked))

    def judge(self, cluster: Cluster, skew: str, asked: str) -> None:
        """Switch the components to the releases of a cell, and expect the hints and traffic of the cell's outcome."""
        bring_to(cluster, self._skews[skew])
        service = cluster.create_service(selector=WEB, **self._asked[asked])
        pods = cluster.run_servers(SERVERS, labels=WEB)
        outcome = self._table[skew, asked]
        hinted = expect_written(cluster, service, pods, outcome.written)
        expect_traffic(cluster, service, routes(pods, outcome.routed, hinted))


def bring_to(cluster: Cluster, skew: Skew) -> None:
    """Switch each component to its release, in the order of an upgrade."""
    for component, release in ((API_SERVER, skew.api_server), (CONTROLLER, skew.controller), (PROXY, skew.proxy)):
        cluster.bring_to(component, release)


def expect_written(
    cluster: Cluster, service: Service, pods: Iterable[Pod], written: Written
) -> Mapping[str, AbstractSet[Pod]]:
    """Expect the hints that `written` describes. Return the pods by the zone for which they are hinted."""
    by_name = {pod.name: pod for pod in pods}
    if written == "shared out":
        shared = expect_hint_counts(cluster, service, SHARED_OUT)
        return {zone: {by_name[name] for name in names} for zone, names in shared.items()}
    expect_hints(cluster, service, {name: _own(pod, written) for name, pod in by_name.items()}, exactly=True)
    return _by(by_name.values(), "zone") if "zone" in written else {}


def routes(pods: Iterable[Pod], routed: Routed, hinted: Mapping[str, AbstractSet[Pod]]) -> Traffic:
    """Return the pods that each client may reach: the pods with a hint for its node, else for its zone, else all."""
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
