"""Expectations about session affinity: a client must keep reaching the endpoint that answered it first."""

import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from harness.backends.protocols import Probing
from harness.errors import InconclusiveError
from harness.eventually import eventually
from harness.model.outcomes import Observation, Unknown
from harness.model.workloads import Pod
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import wait_for_value
from harness.scenario.service import Service
from harness.scenario.service_address import ClientRef, in_words, named, service_address
from harness.scenario.traffic import expect_traffic

AWAY = (1.5, 3.0, 6.0)  # pauses of clients between probes, as multiples of the affinity timeout
SPREAD = 24  # number of clients; they all reach the same one of two endpoints in one of eight million runs


def expect_affinity(
    cluster: Cluster, service: Service, allowed: Mapping[ClientRef, AbstractSet[Pod]], **address: Any
) -> dict[ClientRef, Pod]:
    """Expect each client to keep reaching one of its allowed pods. Return these pods. Raises `AssertionError`."""
    cluster.settle()
    kept = {who: _first(cluster, service, who, pods, address) for who, pods in allowed.items()}
    expect_traffic(cluster, service, {who: {pod} for who, pod in kept.items()}, **address)
    return kept


def _first(
    cluster: Cluster, service: Service, who: ClientRef, allowed: AbstractSet[Pod], address: Mapping[str, Any]
) -> Pod:
    """Return the first allowed pod that answers a client. If none answers, return any allowed pod."""
    by_name = {pod.name: pod for pod in allowed}
    seen = wait_for_value(
        cluster,
        f"an answer to {who} by {service.name}",
        lambda: in_words(_ask(cluster, service, [who], **address)[0]),
        by_name.__contains__,
        every=0.02,
    )
    return by_name.get(seen, by_name[min(by_name)])


def answering_pods(
    cluster: Cluster, service: Service, clients: Sequence[ClientRef], **address: Any
) -> dict[ClientRef, str]:
    """Send one probe from each client. Return the pod that answered each client, or an outcome like "TimedOut"."""
    seen = _ask(cluster, service, clients, **address)
    for who, each in zip(clients, seen, strict=True):
        if isinstance(each, Unknown):
            raise InconclusiveError(f"the probe of {who} is inconclusive: {each.why}")
    return {who: in_words(each) for who, each in zip(clients, seen, strict=True)}


def clients_that_moved(
    cluster: Cluster, service: Service, clients: Sequence[ClientRef], kept: Pod, *, asked: float, **address: Any
) -> set[str]:
    """Send probes for longer than the affinity timeout of one second. Return clients that did not always reach `kept`.

    `asked` is the time of the clients' first probes (monotonic seconds). Raises `InconclusiveError` on a slow machine.
    """
    last = asked
    moved: set[str] = set()

    def asked_for_long() -> bool:
        nonlocal last
        begin = time.monotonic()
        answers = answering_pods(cluster, service, clients, **address)
        if time.monotonic() - last > 0.9:
            raise InconclusiveError("the machine is too slow to send a probe every second")
        moved.update(str(who) for who, pod in answers.items() if pod != kept.name)
        last = begin
        return begin - asked > 1.4

    eventually(asked_for_long, within=60, every=0.15, describe="1.4 s of probes")
    return moved


def expect_affinity_expires(
    cluster: Cluster,
    service: Service,
    clients: Sequence[ClientRef],
    pods: AbstractSet[Pod],
    *,
    seconds: float,
    **address: Any,
) -> None:
    """Expect that after a pause longer than the affinity timeout, the clients together reach exactly these pods."""
    seen: dict[ClientRef, str] = {}
    for away in AWAY:
        time.sleep(away * seconds)  # the pause of the clients
        seen = answering_pods(cluster, service, clients, **address)
        if set(seen.values()) == {pod.name for pod in pods}:
            break
    expect_all_seen(cluster, service, seen, pods)


def expect_all_seen(cluster: Cluster, service: Service, seen: Mapping[ClientRef, str], pods: AbstractSet[Pod]) -> None:
    """Expect exactly these pods to have answered the clients. Raises `AssertionError`."""
    cluster.expect_equal(
        f"pods of service {service.name} that answered {len(seen)} clients",
        expected=sorted(pod.name for pod in pods),
        observed=sorted(set(seen.values())),
    )


def _ask(cluster: Cluster, service: Service, clients: Sequence[ClientRef], **address: Any) -> list[Observation]:
    target = service_address(cluster, service, **address)
    probes = [target.path(who, frozenset({"any"})).probes(1)[0] for who in clients]
    return [named(cluster, each) for each in cluster.backend.part(Probing).probe(probes)]
