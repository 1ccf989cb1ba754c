"""Expectations about flows: connections and UDP sockets that outlive a change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from harness.backends.backend import OpenConnection
from harness.backends.protocols import Connections
from harness.model.outcomes import Observation, Reached, Unknown
from harness.model.workloads import Pod
from harness.probes.loop import Probe
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import wait_for_value
from harness.scenario.service import Service
from harness.scenario.service_address import ClientRef, named, service_address


@contextlib.contextmanager
def expect_flow_survives(
    cluster: Cluster, service: Service, client: ClientRef, pod: Pod, **address: Any
) -> Iterator[None]:
    """Expect a connection opened before the block to reach the same pod after the block. Raises `AssertionError`.

    `address` holds arguments of `expect_traffic`.
    """
    with _flow(cluster, service, client, address) as flow:
        _assert_pod(cluster, flow.opened, pod, f"server of the new connection of {client}")
        yield
        cluster.settle()
        _assert_pod(cluster, flow.ask(), pod, f"server of the open connection of {client}")


@contextlib.contextmanager
def expect_flow_moves(
    cluster: Cluster, service: Service, client: ClientRef, *, before: Pod, after: Pod, **address: Any
) -> Iterator[None]:
    """Expect pod `before` to answer a UDP flow with a fixed source port, and pod `after` to answer after the block.

    `address` holds arguments of `expect_traffic`.
    """
    with _flow(cluster, service, client, address) as flow:
        _assert_pod(cluster, flow.opened, before, f"first server of the flow of {client}")
        yield
        _assert_comes_to(cluster, flow, client, {after})


@contextlib.contextmanager
def expect_flow_answered(
    cluster: Cluster, service: Service, client: ClientRef, pods: AbstractSet[Pod], **address: Any
) -> Iterator[None]:
    """Expect one of these pods to answer, after the block, a UDP flow (fixed source port) that began before it.

    The flow need not be answered before the block. `address` holds arguments of `expect_traffic`.
    """
    cluster.settle()
    probe = _probe_of(cluster, service, client, address)
    with contextlib.closing(cluster.backend.part(Connections).connect(probe)) as flow:
        yield
        _assert_comes_to(cluster, flow, client, pods)


def _assert_comes_to(cluster: Cluster, flow: OpenConnection, client: ClientRef, pods: AbstractSet[Pod]) -> None:
    """Expect one of these pods to answer a flow once all components have settled."""
    cluster.settle()
    by_name = {pod.name: pod for pod in pods}
    answer = wait_for_value(
        cluster,
        f"the flow of {client} to reach {' or '.join(sorted(by_name))}",
        lambda: named(cluster, flow.ask()),
        lambda seen: isinstance(seen, Reached) and seen.pod in by_name,
        every=0.02,
    )
    found = by_name.get(answer.pod) if isinstance(answer, Reached) else None
    _assert_pod(cluster, answer, found or by_name[min(by_name)], f"server of the flow of {client}")


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
    unknown = stream.opened.why if isinstance(stream.opened, Unknown) else ""
    cluster.expect_equal(what, expected="Reached", observed=type(stream.opened).__name__, unknown=unknown)
    with contextlib.closing(stream):
        yield stream


def _probe_of(cluster: Cluster, service: Service, client: ClientRef, address: Mapping[str, Any]) -> Probe:
    return service_address(cluster, service, **address).path(client, frozenset()).probes(1)[0]


def _assert_pod(cluster: Cluster, observation: Observation, pod: Pod, what: str) -> None:
    seen = named(cluster, observation)
    name = seen.pod if isinstance(seen, Reached) else type(seen).__name__
    unknown = seen.why if isinstance(seen, Unknown) else ""
    cluster.expect_equal(what, expected=pod.name, observed=name, unknown=unknown)
