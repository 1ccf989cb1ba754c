"""KEP-2433, Overload, measured with traffic: the number of clients in each zone is proportional to its CPU.

The nodes have equal size, so one client per node matches the KEP's assumption about incoming traffic.
"""

from __future__ import annotations

import pytest

from conformance.features import TOPOLOGY_ROUTING
from conformance.kep_2433_topology_aware_hints.zones import AUTO, WEB
from trafficdist import (
    SHOULD,
    Cluster,
    Pod,
    Service,
    expect_eventually,
    expect_no_overload,
    requirement,
    written_endpoints,
)

CLIENTS = ("a1", "a2", "b1", "b2", "c1")
PLACEMENTS = {
    "6 in a, 4 in b": ("a1",) * 6 + ("b1",) * 4,
    "8 in a, 2 in b": ("a1",) * 4 + ("a2",) * 4 + ("b1",) * 2,
    "11, all in c": ("c1",) * 11,
}


def _all_are_hinted(cluster: Cluster, service: Service, count: int) -> bool:
    written = written_endpoints(cluster, service)
    return len(written) == count and all(each.hints is not None for each in written.values())


def _by_hint(cluster: Cluster, service: Service, pods: list[Pod]) -> dict[str, set[Pod]]:
    found: dict[str, set[Pod]] = {}
    by_name = {pod.name: pod for pod in pods}
    for name, each in written_endpoints(cluster, service).items():
        found.setdefault(each.hints.zones[0] if each.hints else "", set()).add(by_name[name])
    return found


@requirement(
    "KEP-2433/no-endpoint-is-overloaded",
    "While endpoints have hints and clients are distributed over zones in proportion to CPU cores, no endpoint gets 20 "
    "% more traffic than it would with a perfectly even spread.",
    level=SHOULD,
    features={TOPOLOGY_ROUTING},
    source="KEP-2433, Overload (the maximum acceptable overload); Assumptions",
    kills={"copies-the-own-zone", "one-endpoint-twice"},
)
@pytest.mark.parametrize("placement", list(PLACEMENTS))
def test_no_endpoint_is_overloaded(three_zones: Cluster, placement: str) -> None:
    service = three_zones.create_service(selector=WEB, annotations=AUTO)
    pods = three_zones.run_servers(PLACEMENTS[placement], labels=WEB)
    expect_eventually(
        three_zones,
        f"all endpoints of service {service.name} are hinted",
        lambda: _all_are_hinted(three_zones, service, len(pods)),
        expected=True,
    )

    expect_no_overload(three_zones, service, CLIENTS, _by_hint(three_zones, service, pods), percent=20)
