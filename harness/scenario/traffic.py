"""Expectations about traffic: real connections from each client, compared with a literal table.

A scenario that expects no answer must first get an answer from the Service, because the silence of a Service that never
worked proves nothing. The module `measuring` describes the parts of a check.
"""

from __future__ import annotations

import time

from harness.backends.protocols import Probing
from harness.eventually import time_scale
from harness.judging.statistics import DEFAULT_RATES, Rates
from harness.model.abilities import Ability
from harness.model.manifests import Port
from harness.model.outcomes import Reached, Refused, Unknown
from harness.model.workloads import Client
from harness.run_delay import RUN_DELAY
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import delayed
from harness.scenario.long_connections import long_connection
from harness.scenario.measuring import (
    FIRST_ROUND,
    expect_in_time,
    measure,
    require_earlier_answer,
    wait_for_packets,
    wait_until_as_expected,
)
from harness.scenario.service import AddressKind, Service
from harness.scenario.service_address import Traffic, first_family, paths_to, service_address


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
    paths = paths_to(target, expected)
    if any(isinstance(path.expected, Refused) for path in paths):
        cluster.backend.need(Ability.EVERY_REFUSAL)
    require_earlier_answer(cluster, service, paths)
    waited = wait_until_as_expected(cluster, paths, "traffic as expected")
    late = f"Before the window: {waited.text}\n\n" if waited.text else ""
    with long_connection(cluster, paths):
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
        waited = wait_for_packets(cluster, paths_to(target, expected), f"traffic by {target}", begin=begin, within=None)
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
    seen = [each.client_address if isinstance(each, Reached) else type(each).__name__ for each in observations]
    unknown = next((each.why for each in observations if isinstance(each, Unknown)), "")
    what = f"address of {path.label} as the server sees it"
    cluster.expect_equal(what, expected=[wanted] * len(seen), observed=seen, unknown=unknown)
