"""How much of all traffic each endpoint gets, where clients are as many as the CPU of their zones asks for.

Hints that share endpoints out by CPU promise that no endpoint gets much more than it would under a perfect spread. That
is a promise about all clients together, not about one of them, so it is judged over their sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from harness.cluster import Cluster, Service
from harness.errors import InconclusiveError
from harness.eventually import eventually
from harness.paths import Path, named, names, target_of
from harness.statistics import bounded_load
from harness.traffic import CONVERGENCE, converged
from harness.verdict import AnyOf, Tally, Verdict
from harness.workloads import Pod

AT_ONCE = 256  # probes in flight


def expect_no_overload(
    cluster: Cluster, service: Service, clients: Sequence[str], zones: Mapping[str, AbstractSet[Pod]], *, percent: int
) -> None:
    """Clients ask equally often, and no pod gets more than `percent` above an equal share, but for chance.

    `clients` are nodes; `zones` are all pods by the zone that they are hinted for, for the report. Raises
    `AssertionError` when one gets more or somebody is not answered, `InconclusiveError` when it cannot be told.
    """
    pods = {pod for each in zones.values() for pod in each}
    target = target_of(cluster, service)
    paths = [target.path(who, AnyOf(names(pods))) for who in clients]
    cluster.backend.settle()
    eventually(lambda: converged(cluster, paths), within=CONVERGENCE, every=0.02, describe=f"an answer by {target}")
    bounds = bounded_load(len(pods), percent)
    tallies = _ask(cluster, str(target), paths, -(-bounds.plan.samples // len(paths)))
    load: Counter[str] = sum((tally.pods for tally in tallies.values()), Counter())
    _report(cluster, load, zones)
    share, most = load.total() / len(pods), bounds.most * load.total() / bounds.plan.samples
    cluster.expect_equal(
        f"endpoints of service {service.name} over {100 + percent} %, where an equal share is {share:g} connections",
        expected={},
        observed={pod: count for pod, count in sorted(load.items()) if count > most},
        explanation=f"by chance, an endpoint that may have {100 + percent} % has up to {most:.0f}",
    )


def _ask(cluster: Cluster, title: str, paths: Sequence[Path], count: int) -> Mapping[str, Tally]:
    window = cluster.window(f"{title}, by clients in proportion to CPU", {path.label: path.expected for path in paths})
    probes = [probe for path in paths for probe in path.probes(count)]
    seen = iter(cluster.backend.probe(probes, in_flight=AT_ONCE))
    for path in paths:
        window.observe(path.label, [named(cluster, next(seen)) for _ in range(count)])
    judgement = window.judge()
    if judgement.verdict is not Verdict.PASSED:
        text = f"{judgement.message}\n\n{title}:\n\n{judgement.grid}"
        raise InconclusiveError(text) if judgement.verdict is Verdict.INCONCLUSIVE else AssertionError(text)
    return window.tallies


def _report(cluster: Cluster, load: Counter[str], zones: Mapping[str, AbstractSet[Pod]]) -> None:
    """Connections for each endpoint of a zone, and by how much that exceeds a perfect spread, in per cent."""
    perfect = load.total() / sum(map(len, zones.values()))
    by_zone = {zone: sum(load[pod.name] for pod in pods) / len(pods) for zone, pods in sorted(zones.items())}
    cluster.measured("connections for each endpoint, expected", dict.fromkeys(by_zone, round(perfect, 1)))
    cluster.measured(
        "connections for each endpoint, observed", {zone: round(each, 1) for zone, each in by_zone.items()}
    )
    overload = {zone: round(100 * (each / perfect - 1), 1) for zone, each in by_zone.items()}
    cluster.measured("overload of each endpoint in per cent", overload)
