"""Session affinity: finds the endpoint that a client keeps, and compares every further answer with it.

Session affinity leaves open which of the allowed endpoints a client gets. So a scenario asks each client once, and
from then on expects traffic literally: that client, that pod, and no other.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from harness.backends.protocols import Probing
from harness.errors import InconclusiveError
from harness.eventually import eventually
from harness.model.manifests import Port
from harness.model.outcomes import Observation, Reached, Unknown
from harness.model.workloads import Pod
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import come_to
from harness.scenario.paths import Who, named, target_of
from harness.scenario.service import Service
from harness.scenario.traffic import expect_traffic

AWAY = (1.5, 3.0, 6.0)  # for how many of their times clients stay away, one after the other, until they are forgotten
SPREAD = 24  # clients; that two endpoints are not both seen happens once in eight million times


def expect_kept(
    cluster: Cluster, service: Service, allowed: Mapping[Who, AbstractSet[Pod]], **address: Any
) -> dict[Who, Pod]:
    """Expect each client to get answers from one of its allowed pods alone. Returns that pod of each.

    `address` are arguments of `expect_traffic`. Raises `AssertionError` with the grid.
    """
    cluster.settle()
    kept = {who: _first(cluster, service, who, pods, address) for who, pods in allowed.items()}
    expect_traffic(cluster, service, {who: {pod} for who, pod in kept.items()}, **address)
    return kept


def _first(cluster: Cluster, service: Service, who: Who, allowed: AbstractSet[Pod], address: Mapping[str, Any]) -> Pod:
    """Return the allowed pod that answers a client first; if none does, any of them, for the comparison to fail."""
    by_name = {pod.name: pod for pod in allowed}
    seen = come_to(
        cluster,
        f"an answer to {who} by {service.name}",
        lambda: _pod_of(_ask(cluster, service, [who], **address)[0]),
        by_name.__contains__,
        every=0.02,
    )
    return by_name.get(seen, by_name[min(by_name)])


def who_answers(cluster: Cluster, service: Service, clients: Sequence[Who], **address: Any) -> dict[Who, str]:
    """Send one question of each client. Returns the name of the pod that answered, or of another outcome.

    Raises `InconclusiveError` if one could not tell.
    """
    seen = _ask(cluster, service, clients, **address)
    for who, each in zip(clients, seen, strict=True):
        if isinstance(each, Unknown):
            raise InconclusiveError(f"{who} could not tell: {each.why}")
    return {who: _pod_of(each) for who, each in zip(clients, seen, strict=True)}


def who_moved(
    cluster: Cluster, service: Service, clients: Sequence[Who], kept: Pod, *, asked: float, **address: Any
) -> set[str]:
    """Send questions for longer than a time-out of one second. Returns the clients that reach another pod than `kept`.

    `asked` is the time of their first questions, by the monotonic clock. Raises `InconclusiveError` if the machine is
    too slow.
    """
    last = asked
    moved: set[str] = set()

    def asked_for_long() -> bool:
        nonlocal last
        begin = time.monotonic()
        answers = who_answers(cluster, service, clients, **address)
        if time.monotonic() - last > 0.9:
            raise InconclusiveError("the machine is too slow to ask more than once a second")
        moved.update(str(who) for who, pod in answers.items() if pod != kept.name)
        last = begin
        return begin - asked > 1.4

    eventually(asked_for_long, within=60, every=0.15, describe="clients to have asked for 1.4 s")
    return moved


def expect_forgotten(
    cluster: Cluster,
    service: Service,
    clients: Sequence[Who],
    pods: AbstractSet[Pod],
    *,
    seconds: float,
    **address: Any,
) -> None:
    """Clients that stay away for longer than a time-out of so many seconds come to be answered by all of these pods.

    Who asks has come again, so they are asked seldom, and more seldom each time. Raises `AssertionError`.
    """
    seen: dict[Who, str] = {}
    for away in AWAY:
        time.sleep(away * seconds)  # to stay away is what the clients do here
        seen = who_answers(cluster, service, clients, **address)
        if set(seen.values()) == {pod.name for pod in pods}:
            break
    expect_all_seen(cluster, service, seen, pods)


def expect_all_seen(cluster: Cluster, service: Service, seen: Mapping[Who, str], pods: AbstractSet[Pod]) -> None:
    """Expect all of these pods, and no other, to have answered the clients. Raises `AssertionError`."""
    cluster.expect_equal(
        f"pods of service {service.name} that answered {len(seen)} clients",
        expected=sorted(pod.name for pod in pods),
        observed=sorted(set(seen.values())),
    )


def _ask(
    cluster: Cluster,
    service: Service,
    clients: Sequence[Who],
    *,
    port: Port | None = None,
    **address: Any,
) -> list[Observation]:
    target = target_of(cluster, service, port=port, **address)
    probes = [target.path(who, frozenset({"any"})).probes(1)[0] for who in clients]
    return [named(cluster, each) for each in cluster.backend.part(Probing).probe(probes)]


def _pod_of(observation: Observation) -> str:
    return observation.pod if isinstance(observation, Reached) else type(observation).__name__
