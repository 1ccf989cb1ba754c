"""Expectations about traffic: real connections from each client, compared with a literal table.

A scenario that expects no answer must first get an answer from the Service, because the silence of a Service that never
worked proves nothing. The module `measuring` describes the parts of a check.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

from harness.backends.protocols import Connections, Probing
from harness.eventually import time_scale
from harness.judging.statistics import DEFAULT_RATES, Rates
from harness.model.abilities import Ability
from harness.model.manifests import Port
from harness.model.outcomes import Reached, Refused
from harness.model.workloads import Client
from harness.run_delay import RUN_DELAY
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import delayed
from harness.scenario.measuring import (
    FIRST_ROUND,
    expect_in_time,
    measure,
    require_earlier_answer,
    wait_for_packets,
    wait_until_as_expected,
)
from harness.scenario.paths import Path
from harness.scenario.service import AddressKind, Service
from harness.scenario.service_address import (
    Traffic,
    first_family,
    in_words,
    named,
    service_address,
    why_unknown,
)
from harness.variation import axes

REQUESTS = 16
"""The requests of a drawn long-lived connection. All probes together send few packets on each connection."""


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
    """Expect each client to reach all of these pods and no others, or to time out or be refused.

    A client is the name of a node (meaning a pod on the node), a `Client`, or a `Pod` of the scenario. `to` is the kind
    of address, by default the drawn kind. Node ports and load balancer addresses belong to the client's own node, or to
    the node `via`. `rates` holds the size of the smallest fault to detect, and the probability of missing it. Raises
    `AssertionError` with the grid, or `InconclusiveError`.
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
    """Expect a few probes along each path to have the expected outcome within `seconds`, before the time scale.

    The check waits up to `FAR`, even if the implementation declares less. Raises `AssertionError`.
    """
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
def _long_connection(cluster: Cluster, paths: Sequence[Path]) -> Iterator[None]:
    """Expect a connection of the first client that gets answers to stay at one pod during a block, if one is drawn."""
    connections = cluster.backend.find(Connections)
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
    cluster.expect_equal(
        f"server of the open connection of {path.label}",
        expected=opened.pod,
        observed=other,
        unknown=why_unknown(wrong),
    )
