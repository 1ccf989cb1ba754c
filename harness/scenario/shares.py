"""Expectations about each endpoint's share of the traffic.

Without hints, all endpoints get equal shares. With hints, the endpoints of a zone get all traffic from the zone, even
under load. With hints by CPU, no endpoint gets much more than an equal share of all traffic. The report lists the
counts of each client.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from harness.backends.backend import OpenConnection
from harness.backends.protocols import Connections
from harness.judging import verdict
from harness.judging.statistics import bounded_load
from harness.judging.verdict import AnyOf, Evenly
from harness.model.outcomes import Reached
from harness.model.workloads import Pod
from harness.scenario.cluster import Cluster
from harness.scenario.measuring import MANY_IN_FLIGHT, expect_first_answers, measure
from harness.scenario.paths import Path, names
from harness.scenario.service import Service
from harness.scenario.service_address import ClientRef, ServiceAddress, service_address

HELD_OPEN = 100  # connections that each client keeps open while it opens more


def expect_even_shares(cluster: Cluster, service: Service, expected: Mapping[ClientRef, AbstractSet[Pod]]) -> None:
    """Expect each client to reach exactly these pods, equally often (bounds: `statistics.even_shares`).

    Raises `AssertionError` with the grid, or `InconclusiveError`.
    """
    target, paths = _answered(cluster, service, {who: Evenly(names(pods)) for who, pods in expected.items()})
    measure(cluster, f"{target}, shares", paths, in_flight=MANY_IN_FLIGHT)


def expect_all_under_load(cluster: Cluster, service: Service, expected: Mapping[ClientRef, AbstractSet[Pod]]) -> None:
    """Expect clients that send concurrently, and keep connections open, to reach exactly these pods.

    Raises `AssertionError` with the grid, or `InconclusiveError`.
    """
    _under_load(cluster, service, {who: names(pods) for who, pods in expected.items()})


def expect_any_under_load(cluster: Cluster, service: Service, expected: Mapping[ClientRef, AbstractSet[Pod]]) -> None:
    """Expect answers from any of these pods under the same load. Raises the errors of `expect_all_under_load`."""
    _under_load(cluster, service, {who: AnyOf(names(pods)) for who, pods in expected.items()})


def _under_load(cluster: Cluster, service: Service, expected: Mapping[ClientRef, verdict.Expected]) -> None:
    target, paths = _answered(cluster, service, expected)
    with _held_open(cluster, paths):
        title = f"{target}, shares with {HELD_OPEN} connections open"
        measure(cluster, title, paths, in_flight=MANY_IN_FLIGHT)


def _answered(
    cluster: Cluster, service: Service, expected: Mapping[ClientRef, verdict.Expected]
) -> tuple[ServiceAddress, list[Path]]:
    """Return an address of a Service and the paths to it, when each client has got its first answers."""
    target = service_address(cluster, service)
    paths = [target.path(who, what) for who, what in expected.items()]
    expect_first_answers(cluster, paths, f"answer by {target}", f"an answer by {target}")
    return target, paths


@contextlib.contextmanager
def _held_open(cluster: Cluster, paths: Sequence[Path]) -> Iterator[None]:
    """Keep up to `HELD_OPEN` connections per client open during the block. A client stops after a failed connection."""
    streams: list[OpenConnection] = []
    try:
        for path in paths:
            for probe in path.probes(HELD_OPEN):
                streams.append(cluster.backend.part(Connections).connect(probe))
                if not isinstance(streams[-1].opened, Reached):
                    break
        yield
    finally:
        for stream in streams:
            stream.close()


def expect_no_overload(
    cluster: Cluster, service: Service, clients: Sequence[str], zones: Mapping[str, AbstractSet[Pod]], *, percent: int
) -> None:
    """Send the same number of probes from each client. No pod may get over `percent` more than an equal share.

    `clients` lists nodes. `zones` holds all pods by the zone of their hints, for the report. Raises `AssertionError` if
    a pod gets significantly more or an answer is missing. Raises `InconclusiveError`.
    """
    pods = {pod for each in zones.values() for pod in each}
    target, paths = _answered(cluster, service, {who: AnyOf(names(pods)) for who in clients})
    bounds = bounded_load(len(pods), percent)
    title = f"{target}, by clients in proportion to CPU"
    each = -(-bounds.plan.samples // len(paths))
    window = measure(cluster, title, paths, at_least=each, in_flight=MANY_IN_FLIGHT)
    load: Counter[str] = sum((tally.pods for tally in window.tallies.values()), Counter())
    _report(cluster, load, zones)
    share, most = load.total() / len(pods), bounds.most * load.total() / bounds.plan.samples
    cluster.expect_within(
        f"connections of each endpoint of service {service.name}, where an equal share is {share:g}",
        0,
        most,
        observed=dict(sorted(load.items())),
        explanation=f"by chance, an endpoint with a share of {100 + percent} % gets up to {most:.0f}",
    )


def _report(cluster: Cluster, load: Counter[str], zones: Mapping[str, AbstractSet[Pod]]) -> None:
    """Record the connections per endpoint for each zone, and the excess over equal shares in percent."""
    perfect = load.total() / sum(map(len, zones.values()))
    by_zone = {zone: sum(load[pod.name] for pod in pods) / len(pods) for zone, pods in sorted(zones.items())}
    cluster.measured("connections for each endpoint, expected", dict.fromkeys(by_zone, round(perfect, 1)))
    cluster.measured(
        "connections for each endpoint, observed", {zone: round(each, 1) for zone, each in by_zone.items()}
    )
    overload = {zone: round(100 * (each / perfect - 1), 1) for zone, each in by_zone.items()}
    cluster.measured("overload of each endpoint in per cent", overload)
