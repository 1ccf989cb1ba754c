"""KEP-4444, Risks and Mitigations: distribution of traffic without hints, and in an overloaded zone."""

from __future__ import annotations

from conformance.features import CLUSTER_IP, EVEN_SHARES, GRADED_ZONES, UDP_SERVICES, ZONE_HINTS
from trafficdist import (
    MUST,
    SHOULD,
    UDP,
    Cluster,
    Pod,
    Service,
    endpoint,
    expect_all_under_load,
    expect_any_under_load,
    expect_even_shares,
    node_client,
    requirement,
    same_zone,
)


@requirement(
    "KEP-4444/default-spreads-evenly",
    "Without hints, every endpoint gets an equal share of a client's connections, within a margin of error that the "
    "report states.",
    level=SHOULD,
    must_if=EVEN_SHARES,
    features={CLUSTER_IP},
    source="KEP-4444, Default (equal distribution of traffic across endpoints)",
    kills={"favours-its-own-node", "one-endpoint-twice"},
)
def test_connections_are_spread_evenly_without_hints(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="")
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    three_zones.publish(service, [endpoint(pod) for pod in (a1, b1, c1)])

    expect_even_shares(three_zones, service, {"a1": {a1, b1, c1}, "b2": {a1, b1, c1}})


@requirement(
    "KEP-4444/default-spreads-queries-evenly",
    "Without hints, every endpoint gets an equal share of a client's UDP queries, within a margin of error that the "
    "report states.",
    level=SHOULD,
    must_if=EVEN_SHARES,
    features={CLUSTER_IP, UDP_SERVICES},
    source="KEP-4444, Default (equal distribution of traffic across endpoints)",
    kills={"one-endpoint-twice"},
)
def test_queries_are_spread_evenly_without_hints(three_zones: Cluster) -> None:
    service = three_zones.create_service(ports=[UDP], traffic_distribution="")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1), endpoint(b1)])

    expect_even_shares(three_zones, service, {"a1": {a1, b1}})


@requirement(
    "KEP-4444/zone-spreads-evenly",
    "With hints, every endpoint in a zone gets an equal share of the connections of a client in that zone.",
    level=SHOULD,
    must_if=EVEN_SHARES,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, PreferClose; KEP-3015, Renaming/Deprecation of PreferClose",
    kills={"one-endpoint-twice"},
)
def test_connections_are_spread_evenly_in_the_zone(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, a2, b1 = three_zones.run_servers(on=["a1", "a2", "b1"])
    three_zones.publish(service, [same_zone(pod) for pod in (a1, a2, b1)])

    expect_even_shares(three_zones, service, {"a1": {a1, a2}})


@requirement(
    "KEP-4444/hot-zone-stays-in-the-zone",
    "If all clients are in a zone for which one endpoint is hinted, that endpoint gets every connection, however many "
    "connections are open.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, Risks and Mitigations; KEP-3015, User Stories, PreferClose vs PreferSameZone",
    unless=GRADED_ZONES,
    kills={"spills-under-load"},
)
def test_hot_zone_keeps_its_traffic(three_zones: Cluster) -> None:
    service, a1, _ = hot_zone(three_zones)

    expect_all_under_load(three_zones, service, {"a1": {a1}, "a2": {a1}, node_client("a1"): {a1}})


@requirement(
    "KEP-4444/hot-zone-answers-everybody",
    "Whatever the load on a zone, every connection is answered by a ready endpoint; the report states the share of "
    "each endpoint.",
    level=MUST,
    features={CLUSTER_IP, GRADED_ZONES, ZONE_HINTS},
    source="KEP-4444, Proposal (a future refinement could detect overload); Risks and Mitigations",
    kills={"sheds-under-load"},
)
def test_hot_zone_answers_every_connection(three_zones: Cluster) -> None:
    service, a1, others = hot_zone(three_zones)

    everyone = {a1, *others}
    expect_any_under_load(three_zones, service, {"a1": everyone, "a2": everyone, node_client("a1"): everyone})


def hot_zone(cluster: Cluster) -> tuple[Service, Pod, list[Pod]]:
    """Create a Service with one endpoint in zone a and two elsewhere, each hinted for its own zone."""
    service = cluster.create_service(traffic_distribution="PreferClose")
    a1, *others = cluster.run_servers(on=["a1", "b1", "c1"])
    cluster.publish(service, [same_zone(pod) for pod in (a1, *others)])
    return service, a1, others
