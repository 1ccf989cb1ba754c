"""Expectations about traffic. Clients open real connections, and the outcomes are compared with a table in the test.

A scenario that expects no answer must first get an answer from the Service, because a Service that never answers may
simply not work. Without hints, all endpoints get equal shares. With hints, the endpoints in a zone get all traffic from
the zone, even under load. With hints in proportion to CPU, no endpoint gets much more than an equal share.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from harness.backends.protocols import OpensConnections, Probing
from harness.eventually import time_scale
from harness.judging import verdict
from harness.judging.statistics import DEFAULT_RATES, Rates, bounded_load
from harness.judging.verdict import AnyOf, EqualShares
from harness.model.abilities import Ability
from harness.model.manifests import Port
from harness.model.outcomes import Reached, Refused
from harness.model.workloads import Client, Pod
from harness.run_delay import RUN_DELAY
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import delayed
from harness.scenario.measuring import (
    FIRST_ROUND,
    MANY_IN_FLIGHT,
    expect_first_answers,
    expect_in_time,
    measure,
    require_earlier_answer,
    wait_for_packets,
    wait_until_as_expected,
)
from harness.scenario.paths import PacketPath, names
from harness.scenario.service import AddressKind, Service
from harness.scenario.service_address import (
    ClientRef,
    ServiceAddress,
    Traffic,
    first_family,
    in_words,
    named,
    service_address,
    why_unknown,
)
from harness.variation import axes

REQUESTS = 16
"""The number of requests on a long-lived connection. Probes send only a few packets on each connection."""

HELD_OPEN = 100  # connections that each client keeps open while it opens more


def expect_traffic(
    cluster: Cluster,
    service: Service,
    expected: Traffic,
    *,
    to: AddressKind | None = None,
    family: str | None = None,
    port: Port | None = None,
    via: str | None = None,
    rates: Rates = DEFAULT_RATES,
) -> None:
    """Expect each client to reach all its pods in `expected` and no other pods, or to time out or be refused.

    A client is the name of a node (meaning a pod on the node), a `Client`, or a `Pod` of the scenario. `to` is the kind
    of address, by default a random kind. Node ports and load balancer addresses are those of the client's own node, or
    of the node `via`. `rates` contains the smallest fault to detect, and the probability of missing it. Raises
    `AssertionError` with the grid of clients and pods, or `InconclusiveError`.
    """
    target = service_address(cluster, service, to=to, family=family, port=port, via=via)
    paths = target.paths(expected)
    if any(isinstance(path.expected, Refused) for path in paths):
        cluster.backend.need(Ability.EVERY_REFUSAL)
    require_earlier_answer(cluster, service, paths)
    waited = wait_until_as_expected(cluster, paths, "traffic as expected")
    late = f"Before the window: {waited.text}\n\n" if waited.text else ""
    with _long_connection(cluster, paths):
        measure(
            cluster,
            str(target),
            paths,
            seen=waited.seen,
            rates=rates,
            explain=lambda unmet: (
                late + cluster.explain(service, list({path.node: path for path in paths if path.label in unmet}))
            ),
        )
    cluster.record.answered.add(service.name)
    expect_in_time(cluster, f"traffic of service {service.name}", waited)


def expect_prompt_change(cluster: Cluster, service: Service, expected: Traffic, *, seconds: float) -> None:
    """Check that a few probes are as expected within `seconds` (times the time scale). Raises `AssertionError`."""
    target = service_address(cluster, service)
    begin = time.monotonic()
    with RUN_DELAY.watched():
        waited = wait_for_packets(cluster, target.paths(expected), f"traffic by {target}", begin=begin, within=None)
    cluster.expect_within(
        f"seconds until traffic of service {service.name} was as expected",
        0,
        seconds * time_scale(),
        observed=round(waited.wrong_until, 3),
        explanation=waited.text,
        unknown=delayed(begin, begin + waited.wrong_until, seconds),
    )


def expect_client_address(
    cluster: Cluster, service: Service, client: Client, *, to: AddressKind | None = None, family: str | None = None
) -> None:
    """Expect the server to see the client's own address. Raises `AssertionError`."""
    cluster.settle()
    family = family or first_family(service)
    wanted = cluster.backend.part(Probing, client=client).client_address(client, family)
    path = service_address(cluster, service, to=to, family=family).path(client, frozenset())
    observations = cluster.backend.part(Probing).addresses_seen(path.probes(FIRST_ROUND))
    seen = [each.client_address if isinstance(each, Reached) else in_words(each) for each in observations]
    what = f"address of {path.label} as the server sees it"
    cluster.expect_equal(what, expected=[wanted] * len(seen), observed=seen, unknown=why_unknown(observations))


@contextlib.contextmanager
def _long_connection(cluster: Cluster, paths: Sequence[PacketPath]) -> Iterator[None]:
    """With connections=long in `draw`, expect a connection to reach the same pod before and after the block."""
    connections = cluster.backend.find(OpensConnections)
    path = next((each for each in paths if each.speaks), None)
    if cluster.draw[axes.CONNECTIONS] != "long" or path is None or connections is None:
        yield
        return
    with contextlib.closing(connections.connect(path.probes(1)[0])) as stream:
        yield
        opened = named(cluster, stream.opened)
        if not isinstance(opened, Reached):  # the window has judged this client
            return
        answers = [named(cluster, stream.ask()) for _ in range(REQUESTS)]
    wrong = [each for each in answers if each != opened]
    other = in_words(next(iter(wrong), opened))
    what = f"server of the open connection of {path.label}"
    cluster.expect_equal(what, expected=opened.pod, observed=other, unknown=why_unknown(wrong))


def expect_even_shares(cluster: Cluster, service: Service, expected: Mapping[ClientRef, AbstractSet[Pod]]) -> None:
    """Expect each client to reach exactly these pods, equally often. Raises `AssertionError` or `InconclusiveError`."""
    target, paths = _answered(cluster, service, {who: EqualShares(names(pods)) for who, pods in expected.items()})
    measure(cluster, f"{target}, shares", paths, in_flight=MANY_IN_FLIGHT)


def expect_all_under_load(cluster: Cluster, service: Service, expected: Mapping[ClientRef, AbstractSet[Pod]]) -> None:
    """Expect clients with many open connections to reach exactly these pods. Raises the errors of `measure`."""
    _under_load(cluster, service, {who: names(pods) for who, pods in expected.items()})


def expect_any_under_load(cluster: Cluster, service: Service, expected: Mapping[ClientRef, AbstractSet[Pod]]) -> None:
    """Expect clients with many open connections to reach only these pods. Raises the errors of `measure`."""
    _under_load(cluster, service, {who: AnyOf(names(pods)) for who, pods in expected.items()})


def _under_load(cluster: Cluster, service: Service, expected: Mapping[ClientRef, verdict.Expected]) -> None:
    target, paths = _answered(cluster, service, expected)
    with _held_open(cluster, paths):
        title = f"{target}, shares with {HELD_OPEN} connections open"
        measure(cluster, title, paths, in_flight=MANY_IN_FLIGHT)


def _answered(
    cluster: Cluster, service: Service, expected: Mapping[ClientRef, verdict.Expected]
) -> tuple[ServiceAddress, list[PacketPath]]:
    target = service_address(cluster, service)
    paths = [target.path(who, what) for who, what in expected.items()]
    expect_first_answers(cluster, paths, f"answer by {target}", f"an answer by {target}")
    return target, paths


@contextlib.contextmanager
def _held_open(cluster: Cluster, paths: Sequence[PacketPath]) -> Iterator[None]:
    with contextlib.ExitStack() as streams:
        for path in paths:
            for probe in path.probes(HELD_OPEN):
                stream = cluster.backend.part(OpensConnections).connect(probe)
                streams.callback(stream.close)
                if not isinstance(stream.opened, Reached):
                    break
        yield


def expect_no_overload(
    cluster: Cluster, service: Service, clients: Sequence[str], zones: Mapping[str, AbstractSet[Pod]], *, percent: int
) -> None:
    """Send the same number of probes from each client. No pod may get more than an equal share plus `percent` %.

    `clients` lists node names. `zones` maps each zone to the pods with hints for it, for the report. Raises
    `AssertionError` if a pod gets significantly more or an answer is missing, or `InconclusiveError`.
    """
    pods = {pod for each in zones.values() for pod in each}
    target, paths = _answered(cluster, service, {who: AnyOf(names(pods)) for who in clients})
    samples, bound = bounded_load(len(pods), percent)
    title = f"{target}, by clients in proportion to CPU"
    each = -(-samples // len(paths))
    window = measure(cluster, title, paths, at_least=each, in_flight=MANY_IN_FLIGHT)
    load: Counter[str] = sum((tally.pods for tally in window.tallies.values()), Counter())
    _report(cluster, load, zones)
    share, most = load.total() / len(pods), bound * load.total() / samples
    cluster.expect_within(
        f"connections of each endpoint of service {service.name}, where an equal share is {share:g}",
        0,
        most,
        observed=dict(sorted(load.items())),
        explanation=f"by chance, an endpoint with a share of {100 + percent} % gets up to {most:.0f}",
    )


def _report(cluster: Cluster, load: Counter[str], zones: Mapping[str, AbstractSet[Pod]]) -> None:
    perfect = load.total() / sum(map(len, zones.values()))
    by_zone = {zone: sum(load[pod.name] for pod in pods) / len(pods) for zone, pods in sorted(zones.items())}
    observed = {zone: round(each, 1) for zone, each in by_zone.items()}
    overload = {zone: round(100 * (each / perfect - 1), 1) for zone, each in by_zone.items()}
    cluster.measured("connections for each endpoint, expected", dict.fromkeys(by_zone, round(perfect, 1)))
    cluster.measured("connections for each endpoint, observed", observed)
    cluster.measured("overload of each endpoint in per cent", overload)
