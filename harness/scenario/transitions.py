"""Expectations about traffic during changes: each probe gets an answer, and open flows keep or change their server.

    with expect_no_loss(cluster, service, from_=["a1", "c1"], allowed={a1, b1}) as flow:
        cluster.publish(service, [same_zone(b1)])
        expect_traffic(cluster, service, {"a1": {b1}})   # all traffic now goes to b1
        flow.wait_for_samples()                          # collects the samples that the error rates require

Each client sends at a fixed rate, without waiting for answers. Each probe uses a new connection (TCP) or source port
(UDP), so an outage of 200 ms loses all probes of these 200 ms. After the block, traffic continues until each client has
sent as many probes since the last change as the error rates require. Blocks for several Services can be nested.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from harness.backends.backend import OpenConnection, SteadyTraffic
from harness.backends.protocols import OpensConnections, Probing
from harness.errors import InconclusiveError
from harness.eventually import eventually
from harness.judging import verdict
from harness.judging.statistics import DEFAULT_RATES
from harness.judging.timeline import Timed, TimedObservation, longest_gap
from harness.judging.verdict import AnyOf
from harness.model.manifests import Port
from harness.model.outcomes import Observation, Reached
from harness.model.times import whole
from harness.model.workloads import Pod
from harness.probes.loop import Probe
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import wait_for_value
from harness.scenario.measuring import expect_first_answers, raise_unless_passed, said
from harness.scenario.paths import PacketPath, names
from harness.scenario.service import AddressKind, Service
from harness.scenario.service_address import ClientRef, in_words, named, service_address, why_unknown

INTERVAL = 0.004  # seconds between two probes of a client
BEFORE = 10  # probes of each client before the block begins
LOSSES = replace(DEFAULT_RATES, alone=DEFAULT_RATES.leak, chances=1)  # a short outage may affect only one client
PATIENCE = 30.0  # time limit for the required number of probes, in seconds (times the time scale)


@dataclass(frozen=True, slots=True)
class NoLossTraffic:
    """The steady traffic during a `with` block of `expect_no_loss`. Clients send probes until the block ends."""

    _recording: SteadyTraffic
    _clients: int
    _needed: int

    def wait_for_samples(self, count: int = 0) -> None:
        """Wait for `count` more probes per client, by default the required number. Raises `InconclusiveError`."""
        asked = self._recording.asked
        wanted = asked + (count or self._needed) * self._clients
        eventually(
            lambda: self._recording.asked >= wanted,
            within=PATIENCE,
            describe=f"{wanted - asked} probes from {self._clients} clients",
            error=InconclusiveError,
        )


@contextlib.contextmanager
def expect_no_loss(
    cluster: Cluster,
    service: Service,
    *,
    from_: Sequence[ClientRef],
    allowed: AbstractSet[Pod],
    to: AddressKind | None = None,
    family: str | None = None,
    port: Port | None = None,
    via: str | None = None,
    lossless: bool = True,
) -> Iterator[NoLossTraffic]:
    """Expect an allowed pod to answer each probe of these clients during the block.

    Specify clients and addresses as for `expect_traffic`. Before the block, every client must get an answer. Pods are
    compared by name, so the block may recreate an allowed pod. If not `lossless`, missing answers are ignored. Raises
    `AssertionError` with a grid of outcomes or `InconclusiveError`, unless the block itself raises an exception.
    """
    target = service_address(cluster, service, to=to, family=family, port=port, via=via)
    paths = [target.path(who, AnyOf(names(allowed))) for who in from_]
    expect_first_answers(cluster, paths, f"answer by {target}", f"an answer by {target}")
    title = f"{target}, through changes"
    window = cluster.window(title, paths, LOSSES)
    recording = cluster.backend.part(Probing).record(INTERVAL, [path.probes(1)[0] for path in paths])
    flow = NoLossTraffic(recording, len(paths), window.plans[paths[0].label].samples)
    try:
        flow.wait_for_samples(BEFORE)
        yield flow
        with contextlib.suppress(InconclusiveError):  # the traffic shows whether a component does not settle
            cluster.settle()
        flow.wait_for_samples()
    finally:
        seen: dict[str, list[Timed]] = defaultdict(list)
        for each in recording.stop():
            if lossless or isinstance(each.observation, Reached):
                seen[paths[each.probe].label].append((each.at, named(cluster, each.observation)))
        for label, samples in seen.items():
            seen[label] = window.observe_flow(label, samples)
    raise_unless_passed(window.judge(), title, lambda: cluster.timeline(list(_first_losses(paths, seen))))
    cluster.record.answered.add(service.name)


def _first_losses(paths: Sequence[PacketPath], seen: Mapping[str, Sequence[Timed]]) -> Iterator[TimedObservation]:
    for path in paths:
        samples = seen[path.label]
        wrong = [(at, each) for at, each in samples if verdict.is_wrong(each, path.expected)]
        for at, first in wrong[:1]:
            first_of = f"{path.label} {said(first)}: the first of {len(wrong)} wrong of {len(samples)} probes"
            yield TimedObservation(at, f"{first_of}; its longest gap is {whole(longest_gap(samples))} ms")


@contextlib.contextmanager
def expect_flow_survives(
    cluster: Cluster, service: Service, client: ClientRef, pod: Pod, **address: Any
) -> Iterator[None]:
    """Expect a connection opened before the block to reach the same pod after the block. Raises `AssertionError`.

    `address` contains arguments of `expect_traffic`.
    """
    with _flow(cluster, service, client, address) as flow:
        _assert_outcome(cluster, flow.opened, pod.name, f"server of the new connection of {client}")
        yield
        cluster.settle()
        _assert_outcome(cluster, flow.ask(), pod.name, f"server of the open connection of {client}")


@contextlib.contextmanager
def expect_flow_moves(
    cluster: Cluster, service: Service, client: ClientRef, *, before: Pod, after: Pod | None, **address: Any
) -> Iterator[None]:
    """Expect `before` to answer a UDP flow with a fixed source port, and after the block, `after` (None: no pod).

    `address` contains arguments of `expect_traffic`.
    """
    with _flow(cluster, service, client, address) as flow:
        _assert_outcome(cluster, flow.opened, before.name, f"first server of the flow of {client}")
        yield
        _expect_flow_at(cluster, flow, client, {after} if after else set())


@contextlib.contextmanager
def expect_flow_answered(
    cluster: Cluster, service: Service, client: ClientRef, pods: AbstractSet[Pod], **address: Any
) -> Iterator[None]:
    """Expect one of these pods to answer a UDP flow (with a fixed source port) after the block.

    The flow begins before the block, but need not get an answer then. `address` contains arguments of `expect_traffic`.
    """
    cluster.settle()
    probe = _probe_of(cluster, service, client, address)
    with contextlib.closing(cluster.backend.part(OpensConnections).connect(probe)) as flow:
        yield
        _expect_flow_at(cluster, flow, client, pods)


def _expect_flow_at(cluster: Cluster, flow: OpenConnection, client: ClientRef, pods: AbstractSet[Pod]) -> None:
    """Expect one of these pods, or no pod if `pods` is empty, to answer a flow after all components have settled."""
    cluster.settle()
    allowed = {pod.name for pod in pods} or {"TimedOut", "Refused"}
    answer = wait_for_value(
        cluster,
        f"the flow of {client} to reach {' or '.join(sorted(pod.name for pod in pods)) or 'no pod'}",
        flow.ask,
        lambda seen: in_words(named(cluster, seen)) in allowed,
        every=0.02,
    )
    found = in_words(named(cluster, answer))
    _assert_outcome(cluster, answer, found if found in allowed else min(allowed), f"server of the flow of {client}")


@contextlib.contextmanager
def _flow(
    cluster: Cluster, service: Service, client: ClientRef, address: Mapping[str, Any]
) -> Iterator[OpenConnection]:
    cluster.settle()
    probe = _probe_of(cluster, service, client, address)

    def opened() -> OpenConnection:
        stream = cluster.backend.part(OpensConnections).connect(probe)
        if not isinstance(stream.opened, Reached):
            stream.close()
        return stream

    what = f"connection of {client} to {service.name}"
    stream = wait_for_value(cluster, what, opened, lambda stream: isinstance(stream.opened, Reached), every=0.02)
    outcome = type(stream.opened).__name__
    cluster.expect_equal(what, expected="Reached", observed=outcome, unknown=why_unknown([stream.opened]))
    with contextlib.closing(stream):
        yield stream


def _probe_of(cluster: Cluster, service: Service, client: ClientRef, address: Mapping[str, Any]) -> Probe:
    return service_address(cluster, service, **address).path(client, frozenset()).probes(1)[0]


def _assert_outcome(cluster: Cluster, observation: Observation, expected: str, what: str) -> None:
    observed = in_words(named(cluster, observation))
    cluster.expect_equal(what, expected=expected, observed=observed, unknown=why_unknown([observation]))
