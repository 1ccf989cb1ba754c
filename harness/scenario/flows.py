"""Expectations about flows: connections and UDP sockets that outlive a change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from harness.backends.backend import OpenConnection
from harness.backends.protocols import Connections
from harness.model.outcomes import Observation, Reached
from harness.model.workloads import Pod
from harness.probes.loop import Probe
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import wait_for_value
from harness.scenario.service import Service
from harness.scenario.service_address import ClientRef, in_words, named, service_address, why_unknown


@contextlib.contextmanager
def expect_flow_survives(
    cluster: Cluster, service: Service, client: ClientRef, pod: Pod, **address: Any
) -> Iterator[None]:
    """Expect a connection opened before the block to reach the same pod after the block. Raises `AssertionError`.

    `address` holds arguments of `expect_traffic`.
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
    """Expect pod `before` to answer a UDP flow with a fixed source port, and then, after the block, `after` or no pod.

    `address` holds arguments of `expect_traffic`.
    """
    with _flow(cluster, service, client, address) as flow:
        _assert_outcome(cluster, flow.opened, before.name, f"first server of the flow of {client}")
        yield
        _expect_flow_at(cluster, flow, client, {after} if after else set())


@contextlib.contextmanager
def expect_flow_answered(
    cluster: Cluster, service: Service, client: ClientRef, pods: AbstractSet[Pod], **address: Any
) -> Iterator[None]:
    """Expect one of these pods to answer a UDP flow (fixed source port), begun before the block, after the block.

    The flow need not be answered before the block. `address` holds arguments of `expect_traffic`.
    """
    cluster.settle()
    probe = _probe_of(cluster, service, client, address)
    with contextlib.closing(cluster.backend.part(Connections).connect(probe)) as flow:
        yield
        _expect_flow_at(cluster, flow, client, pods)


def _expect_flow_at(cluster: Cluster, flow: OpenConnection, client: ClientRef, pods: AbstractSet[Pod]) -> None:
    """Expect one of these pods, or no pod, to answer a flow when all components have settled."""
    cluster.settle()
    allowed = {pod.name for pod in pods} or {"TimedOut", "Refused"}
    answer = wait_for_value(
        cluster,
        f"the flow of {client} to reach {' or '.join(sorted(pod.name for pod in pods)) or 'nobody'}",
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
        stream = cluster.backend.part(Connections).connect(probe)
        if not isinstance(stream.opened, Reached):
            stream.close()
        return stream

    what = f"connection of {client} to {service.name}"
    stream = wait_for_value(cluster, what, opened, lambda stream: isinstance(stream.opened, Reached), every=0.02)
    cluster.expect_equal(
        what, expected="Reached", observed=type(stream.opened).__name__, unknown=why_unknown([stream.opened])
    )
    with contextlib.closing(stream):
        yield stream


def _probe_of(cluster: Cluster, service: Service, client: ClientRef, address: Mapping[str, Any]) -> Probe:
    return service_address(cluster, service, **address).path(client, frozenset()).probes(1)[0]


def _assert_outcome(cluster: Cluster, observation: Observation, expected: str, what: str) -> None:
    observed = in_words(named(cluster, observation))
    cluster.expect_equal(what, expected=expected, observed=observed, unknown=why_unknown([observation]))
