"""Checks a cluster through its API, as `--backend kubeconfig` would use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from harness.api.client import Api, RefusedError
from harness.api.kubeconfig import find
from harness.backends.any_cluster import target
from harness.backends.containers.reachability import choose
from harness.doctor import abilities, cluster_checks, images
from harness.doctor.check import Check, unknown, unusable
from harness.errors import DistrustError, InconclusiveError, UnavailableError
from harness.guest import errors, permissions
from harness.guest.leftovers import Say
from harness.guest.preflight import ReachedServer, reach
from harness.model.topology import Topology

_REQUEST_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster to check, and the kind of run that it is for."""

    kubeconfig: str
    context: str
    topology: Topology
    disruptive: bool = False
    registry: str = ""
    try_pods: bool = False
    gates: Mapping[str, bool] = field(default_factory=dict)


def examine(asked: ClusterOptions, say: Say) -> list[Check]:
    """Return all checks; a single one for a cluster that cannot be reached."""
    rules = (*permissions.RULES, *(permissions.DISRUPTIVE if asked.disruptive else ()))
    try:
        reached = reach(asked.kubeconfig, asked.context, rules=rules)
    except UnavailableError as error:
        return [unusable("API server", str(error))]
    api = Api(find(asked.kubeconfig, context=asked.context), timeout=_REQUEST_SECONDS)
    try:
        return list(_looked_at(api, asked, reached, say))
    finally:
        api.close()


def _looked_at(api: Api, asked: ClusterOptions, reached: ReachedServer, say: Say) -> Iterator[Check]:
    yield cluster_checks.server(reached)
    yield from cluster_checks.permitted(reached)
    yield from _safely("other runs", lambda: [cluster_checks.other_runs(api, reached.clock)])
    yield from _safely("feature gates", lambda: [cluster_checks.feature_gates(api, reached, asked.gates)])
    yield from _safely("zones and nodes", lambda: _of_nodes(api, asked, reached, say))
    yield from _safely("proxy", lambda: [cluster_checks.proxy(api)])
    yield from _safely("admission", lambda: [cluster_checks.admission(api)])


def _of_nodes(api: Api, asked: ClusterOptions, reached: ReachedServer, say: Say) -> list[Check]:
    nodes = api.list("nodes")
    names = target.cast(asked.topology, nodes)
    found = [
        cluster_checks.kubelets(reached, nodes),
        cluster_checks.zones(asked.topology, nodes, names),
        cluster_checks.families(api, nodes),
    ]
    found += cluster_checks.clocks(api, reached.clock, list(names.nodes.values()))
    found.append(images.check(api, names, asked.registry, try_pods=asked.try_pods, say=say))
    equal = target.are_equal(asked.topology, names, nodes)
    offered = (
        target.abilities(disruptive=asked.disruptive, equal_nodes=equal) | choose("", nodes, names.nodes).abilities
    )
    return found + abilities.checks(offered)


def _safely(name: str, look: Callable[[], Iterable[Check]]) -> Iterable[Check]:
    """Return the checks, or one in state unknown that says why they could not be made."""
    try:
        return look()
    except (RefusedError, InconclusiveError, DistrustError) as error:
        return [unknown(name, f"not seen: {errors.of(error)}")]
