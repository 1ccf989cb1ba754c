"""Expectations about each endpoint's part of all traffic, from clients in proportion to the CPU of their zones.

Hints that share out endpoints by CPU promise that no endpoint gets much more than under a perfect spread. That promise
is about all clients together, so it is judged over their sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from harness.judging.statistics import bounded_load
from harness.judging.verdict import AnyOf
from harness.model.workloads import Pod
from harness.scenario.cluster import Cluster
from harness.scenario.paths import names, target_of
from harness.scenario.service import Service
from harness.scenario.traffic import MANY_IN_FLIGHT, expect_first_answers, measure


def expect_no_overload(
    cluster: Cluster, service: Service, clients: Sequence[str], zones: Mapping[str, AbstractSet[Pod]], *, percent: int
) -> None:
    """Send equally many questions from each client, and expect no pod to get `percent` above an equal share.

    `clients` are nodes; `zones` are all pods by the zone that they are hinted for, for the report. Raises
    `AssertionError` if one gets more, beyond chance, or an answer is missing, `InconclusiveError` if that is unknown.
    """
    pods = {pod for each in zones.values() for pod in each}
    target = target_of(cluster, service)
    paths = [target.path(who, AnyOf(names(pods))) for who in clients]
    expect_first_answers(cluster, paths, target)
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
        explanation=f"by chance, an endpoint that may have {100 + percent} % has up to {most:.0f}",
    )


def _report(cluster: Cluster, load: Counter[str], zones: Mapping[str, AbstractSet[Pod]]) -> None:
    """Record the connections for each endpoint of a zone, and the excess over a perfect spread in per cent."""
    perfect = load.total() / sum(map(len, zones.values()))
    by_zone = {zone: sum(load[pod.name] for pod in pods) / len(pods) for zone, pods in sorted(zones.items())}
    cluster.measured("connections for each endpoint, expected", dict.fromkeys(by_zone, round(perfect, 1)))
    cluster.measured(
        "connections for each endpoint, observed", {zone: round(each, 1) for zone, each in by_zone.items()}
    )
    overload = {zone: round(100 * (each / perfect - 1), 1) for zone, each in by_zone.items()}
    cluster.measured("overload of each endpoint in per cent", overload)
