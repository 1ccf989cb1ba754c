"""Session affinity (ClientIP) among the endpoints that hints and traffic policies select.

The KEPs do not mention session affinity, which is older than hints. Affinity selects among the endpoints that a node
uses, and never adds endpoints. A client leaves an endpoint that is no longer allowed, despite its affinity.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import pytest

from conformance.features import (
    AFFINITY_RENEWAL,
    CLUSTER_IP,
    EVEN_SHARES,
    EXTERNAL_POLICY,
    INTERNAL_POLICY,
    IPV6_SERVICES,
    LOAD_BALANCER,
    NODE_HINTS,
    NODE_PORT,
    SESSION_AFFINITY,
    UDP_SERVICES,
    ZONE_HINTS,
)
from trafficdist import (
    MUST,
    PROXY,
    SHOULD,
    SPREAD,
    ClientRef,
    Cluster,
    ExpectedTraffic,
    Pod,
    Port,
    Service,
    answering_pods,
    clients_that_moved,
    endpoint,
    expect_affinity,
    expect_affinity_expires,
    expect_all_seen,
    expect_concurrent_traffic,
    expect_traffic,
    external_client,
    node_client,
    requirement,
    same_node,
    same_zone,
)

TCP, UDP = Port(80, name="tcp"), Port(80, protocol="UDP", name="udp")

Allowed = Mapping[ClientRef, AbstractSet[Pod]]


def _create_service(cluster: Cluster, *, seconds: int = 10_800, **fields: Any) -> Service:
    affinity = {"clientIP": {"timeoutSeconds": seconds}}
    return cluster.create_service(
        ports=[TCP, UDP], sessionAffinity="ClientIP", sessionAffinityConfig=affinity, **fields
    )


@requirement(
    "AFFINITY/client-keeps-its-endpoint",
    "With sessionAffinity ClientIP, all connections from a client, which can be a pod or a node, reach the same "
    "endpoint as its first connection, over TCP and UDP.",
    level=MUST,
    features={CLUSTER_IP, SESSION_AFFINITY, UDP_SERVICES},
    source="Kubernetes, Service API: sessionAffinity",
    kills={"no-affinity", "no-affinity-over-udp"},
    fixes={"client=endpoint": "each client must stay the same while endpoints change"},
)
@pytest.mark.parametrize("port", [TCP, UDP], ids=["TCP", "UDP"])
def test_client_keeps_its_endpoint(three_zones: Cluster, port: Port) -> None:
    service = _create_service(three_zones)
    everybody = set(three_zones.run_servers(on=["a1", "a1", "b1"]))
    three_zones.publish(service, [endpoint(each) for each in everybody])

    clients: Allowed = {"a1": everybody, "b2": everybody, node_client("c1"): everybody}
    expect_affinity(three_zones, service, clients, port=port)


@requirement(
    "AFFINITY/clients-of-both-families",
    "With sessionAffinity ClientIP, an IPv6 client always reaches the same endpoint among those hinted for its zone.",
    level=MUST,
    features={IPV6_SERVICES, SESSION_AFFINITY, ZONE_HINTS},
    source="Kubernetes, Service API: sessionAffinity",
    kills={"no-affinity"},
    fixes={"client=endpoint": "each client must stay the same"},
)
def test_client_keeps_its_endpoint_over_ipv6(three_zones: Cluster) -> None:
    service = _create_service(three_zones, ipFamilies=["IPv6"], traffic_distribution="PreferClose")
    a1, other, b1 = three_zones.run_servers(on=["a1", "a1", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(other), same_zone(b1)])

    expect_affinity(three_zones, service, {"a1": {a1, other}, "a2": {a1, other}, "b2": {b1}}, family="IPv6")


@requirement(
    "AFFINITY/clients-are-spread",
    "Session affinity spreads clients over the endpoints that they may use: it does not send all clients to one "
    "endpoint.",
    level=SHOULD,
    must_if=EVEN_SHARES,
    features={CLUSTER_IP, SESSION_AFFINITY, ZONE_HINTS},
    source="Kubernetes, Service API: sessionAffinity; KEP-4444, PreferClose",
    kills={"everyone-gets-the-same-endpoint"},
    fixes={"client=endpoint": "each client must stay the same"},
)
def test_clients_are_spread(three_zones: Cluster) -> None:
    service = _create_service(three_zones, traffic_distribution="PreferClose")
    a1, a2, b1 = three_zones.run_servers(on=["a1", "a2", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(a2), same_zone(b1)])
    expect_traffic(three_zones, service, {"b2": {b1}})

    clients = three_zones.run_servers(on=["a1"] * SPREAD)
    expect_all_seen(three_zones, service, answering_pods(three_zones, service, clients), {a1, a2})


@requirement(
    "AFFINITY/stays-within-hints",
    "With session affinity, a client keeps one of the endpoints that hints select for its node: on the node if there "
    "are any, else in its zone, else anywhere.",
    level=MUST,
    features={NODE_HINTS, SESSION_AFFINITY, ZONE_HINTS},
    source="KEP-3015, Design Details; KEP-4444, PreferClose",
    kills={"affinity-ignores-hints", "drops-without-hinted-endpoint"},
    fixes={"client=endpoint": "each client must stay the same"},
)
def test_affinity_stays_within_hints(three_zones: Cluster) -> None:
    service = _create_service(three_zones, traffic_distribution="PreferClose")
    a1, other, a2, b1 = three_zones.run_servers(on=["a1", "a1", "a2", "b1"])
    pods = {a1, other, a2, b1}
    three_zones.publish(service, [same_zone(each) for each in pods])
    expect_affinity(three_zones, service, {"a1": {a1, other, a2}, "b1": {b1}, "b2": {b1}, "c1": pods})

    by_node = _create_service(three_zones, traffic_distribution="PreferSameNode")
    three_zones.publish(by_node, [same_node(each) for each in pods])
    expect_affinity(three_zones, by_node, {"a1": {a1, other}, "a2": {a2}, "b1": {b1}, "b2": {b1}, "c1": pods})


@requirement(
    "AFFINITY/stays-within-hints-at-load-balancers",
    "With session affinity, a client that connects to a load balancer address keeps one of the endpoints that hints "
    "select for the node that its traffic enters.",
    level=MUST,
    features={LOAD_BALANCER, NODE_HINTS, SESSION_AFFINITY},
    source="KEP-3015, Addition of PreferSameNode; KEP-4444, Intersection with internal/externalTrafficPolicy",
    kills={"affinity-ignores-node-hints-at-load-balancers"},
)
def test_affinity_stays_within_hints_at_load_balancers(three_zones: Cluster) -> None:
    pods = three_zones.run_servers(on=["a1", "a2", "b1", "b2"])
    expected: Allowed = {external_client(pod.node): {pod} for pod in pods}
    # A client may reach the expected endpoint by chance. With this many Services, that is unlikely.
    services = [
        _create_service(three_zones, type="LoadBalancer", traffic_distribution="PreferSameNode") for _ in range(6)
    ]
    for each in services:
        three_zones.publish(each, [same_node(pod) for pod in pods])
    expect_concurrent_traffic(
        three_zones, [ExpectedTraffic(each.name, each, expected, to="load-balancer", kept=True) for each in services]
    )


@requirement(
    "AFFINITY/stays-within-the-node",
    "With session affinity and internalTrafficPolicy Local, a client keeps an endpoint on its own node; once that "
    "endpoint is removed, the client moves to another endpoint on the node and keeps that one.",
    level=MUST,
    features={INTERNAL_POLICY, SESSION_AFFINITY},
    source="KEP-2086, Proposal",
    kills={"affinity-ignores-policies", "ignores-internal-local", "no-affinity"},
    fixes={"client=endpoint": "each client must stay the same while endpoints change"},
)
def test_affinity_stays_within_the_node(three_zones: Cluster) -> None:
    service = _create_service(three_zones, internal_traffic_policy="Local")
    pods = a1, other, a2, b1, b2, c1 = three_zones.run_servers(on=["a1", "a1", "a2", "b1", "b2", "c1"])
    three_zones.publish(service, [endpoint(each) for each in pods])

    allowed: Allowed = {"a1": {a1, other}, "a2": {a2}, "b1": {b1}, "b2": {b2}, "c1": {c1}}
    gone = expect_affinity(three_zones, service, allowed)["a1"]

    three_zones.publish(service, [endpoint(each) for each in pods if each != gone])
    expect_affinity(three_zones, service, {client: kept - {gone} for client, kept in allowed.items()})


@requirement(
    "AFFINITY/moves-with-hints",
    "With session affinity, when hints no longer select a client's endpoint, the client moves to an endpoint that they "
    "select, and keeps that one.",
    level=MUST,
    features={SESSION_AFFINITY, UDP_SERVICES, ZONE_HINTS},
    source="KEP-4444, PreferClose (route traffic to endpoints within the same zone)",
    kills={"affinity-outlives-endpoints"},
    fixes={"client=endpoint": "each client must stay the same while endpoints change"},
)
@pytest.mark.parametrize("port", [TCP, UDP], ids=["TCP", "UDP"])
def test_client_moves_when_hints_change(three_zones: Cluster, port: Port) -> None:
    service = _create_service(three_zones, traffic_distribution="PreferClose")
    a1, other, b1, b2 = three_zones.run_servers(on=["a1", "a1", "b1", "b2"])
    three_zones.publish(service, [same_zone(each) for each in (a1, other, b1, b2)])
    expect_affinity(three_zones, service, {"a2": {a1, other}, "b1": {b1, b2}}, port=port)

    elsewhere = [endpoint(each, zones=["b"]) for each in (a1, other)]
    three_zones.publish(service, [*elsewhere, *(endpoint(each, zones=["a"]) for each in (b1, b2))])
    expect_affinity(three_zones, service, {"a2": {b1, b2}, "b1": {a1, other}}, port=port)


@requirement(
    "AFFINITY/leaves-with-its-endpoint",
    "With session affinity, when a client's endpoint is removed or no longer ready, the client moves to another "
    "endpoint and keeps that one.",
    level=MUST,
    features={CLUSTER_IP, SESSION_AFFINITY, UDP_SERVICES},
    source="Kubernetes, Service API: sessionAffinity; kubernetes#99299; kubernetes#110302",
    kills={"affinity-outlives-endpoints", "affinity-outlives-readiness"},
    fixes={"client=endpoint": "each client must stay the same while endpoints change"},
)
@pytest.mark.parametrize("port", [TCP, UDP], ids=["TCP", "UDP"])
def test_client_leaves_an_endpoint_that_is_gone(three_zones: Cluster, port: Port) -> None:
    service = _create_service(three_zones)
    pods = set(three_zones.run_servers(on=["a1", "b1", "c1"]))
    clients: list[ClientRef] = ["a1", "a2", "b1", "b2", "c1"]
    three_zones.publish(service, [endpoint(each) for each in pods])
    kept = expect_affinity(three_zones, service, dict.fromkeys(clients, pods), port=port)

    gone = kept["a1"]
    three_zones.publish(service, [endpoint(each) for each in pods - {gone}])
    kept = expect_affinity(three_zones, service, dict.fromkeys(clients, pods - {gone}), port=port)

    unready = kept["a1"]
    three_zones.publish(service, [endpoint(each, ready=each != unready) for each in pods - {gone}])
    expect_affinity(three_zones, service, dict.fromkeys(clients, pods - {gone, unready}), port=port)


@requirement(
    "AFFINITY/new-endpoints-move-nobody",
    "With session affinity, when endpoints are added or removed, each client keeps its endpoint while that endpoint "
    "exists.",
    level=MUST,
    features={CLUSTER_IP, SESSION_AFFINITY},
    source="Kubernetes, Service API: sessionAffinity",
    kills={"affinity-by-position", "no-affinity"},
    fixes={"client=endpoint": "each client must stay the same while endpoints change"},
)
def test_other_endpoints_move_nobody(three_zones: Cluster) -> None:
    pods = three_zones.run_servers(on=["a1", "b1", "c1", "a2"])
    services = [_create_service(three_zones) for _ in pods]
    for each in services:
        three_zones.publish(each, [endpoint(pod) for pod in pods])
    clients: list[ClientRef] = ["a1", "a2", "b1", "b2", "c1"]
    kept = [expect_affinity(three_zones, each, {who: set(pods) for who in clients}) for each in services]

    # Each Service loses another endpoint: whatever the order of the endpoints is, some endpoint changes its position.
    losing = [
        (service, gone, {who: {pod} for who, pod in by_client.items() if pod != gone})
        for service, gone, by_client in zip(services, pods, kept, strict=True)
    ]

    def expect_kept(present: list[Pod]) -> None:
        for service, gone, _ in losing:
            three_zones.publish(service, [endpoint(pod) for pod in present if pod != gone])
        for service, _, allowed in losing:
            expect_affinity(three_zones, service, allowed)

    expect_kept(pods)
    expect_kept([*pods, *three_zones.run_servers(on=["b2", "c1"])])


@requirement(
    "AFFINITY/outlives-a-restart-of-the-proxy",
    "With session affinity, each client keeps its endpoint when the proxies restart.",
    level=MUST,
    features={CLUSTER_IP, SESSION_AFFINITY},
    source="Kubernetes, Virtual IPs and Service Proxies: Session affinity; core/v1 ClientIPConfig.timeoutSeconds",
    kills={"affinity-ends-with-the-proxy"},
    fixes={"client=endpoint": "each client must stay the same while endpoints change"},
)
def test_affinity_outlives_a_restart(three_zones: Cluster) -> None:
    pods = set(three_zones.run_servers(on=["a1", "b1", "c1"]))
    services = [_create_service(three_zones) for _ in range(3)]
    for each in services:
        three_zones.publish(each, [endpoint(pod) for pod in pods])
    clients: list[ClientRef] = ["a1", "a2", "b1", "b2", "c1"]
    kept = [(each, expect_affinity(three_zones, each, dict.fromkeys(clients, pods))) for each in services]

    three_zones.restart(PROXY)
    for each, by_client in kept:
        expect_affinity(three_zones, each, {who: {pod} for who, pod in by_client.items()})


@requirement(
    "AFFINITY/ends-after-its-time",
    "With session affinity, a client that makes no connection for longer than timeoutSeconds loses its endpoint, and "
    "an endpoint that was added in the meantime gets its share of such clients.",
    level=MUST,
    features={CLUSTER_IP, SESSION_AFFINITY, UDP_SERVICES},
    source="Kubernetes, Service API: sessionAffinityConfig.clientIP.timeoutSeconds",
    kills={"affinity-for-ever"},
    fixes={"client=endpoint": "each client must stay the same"},
)
def test_affinity_ends_after_its_time(three_zones: Cluster) -> None:
    service = _create_service(three_zones, seconds=1)
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    clients = three_zones.run_servers(on=["a2"] * SPREAD)
    expect_affinity(three_zones, service, {"a1": {a1}})
    for port in (UDP, TCP):
        expect_all_seen(three_zones, service, answering_pods(three_zones, service, clients, port=port), {a1})

    three_zones.publish(service, [endpoint(a1), endpoint(b1)])
    three_zones.settle()
    for port in (UDP, TCP):
        expect_affinity_expires(three_zones, service, clients, {a1, b1}, seconds=1, port=port)


@requirement(
    "AFFINITY/coming-again-renews-it",
    "With session affinity, a client that connects again within timeoutSeconds keeps its endpoint, however long ago "
    "its first connection was.",
    level=SHOULD,
    must_if=AFFINITY_RENEWAL,
    features={CLUSTER_IP, SESSION_AFFINITY},
    source="Kubernetes, kube-proxy (iptables recent --update, nftables update); the API says nothing of it",
    as_="released",
    kills={"affinity-is-not-renewed"},
    fixes={"client=endpoint": "each client must stay the same"},
)
def test_coming_again_renews_affinity(three_zones: Cluster) -> None:
    three_zones.keep_time()
    service = _create_service(three_zones, seconds=1)
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    clients = three_zones.run_servers(on=["a2"] * SPREAD)
    expect_affinity(three_zones, service, {"a1": {a1}})
    asked = time.monotonic()
    expect_all_seen(three_zones, service, answering_pods(three_zones, service, clients, port=TCP), {a1})

    three_zones.publish(service, [endpoint(a1), endpoint(b1)])
    moved = clients_that_moved(three_zones, service, clients, a1, asked=asked, port=TCP)
    what = f"clients of service {service.name} that moved while they came"
    three_zones.expect_equal(what, expected=[], observed=sorted(moved))


@requirement(
    "AFFINITY/node-port-from-outside",
    "With session affinity, an external client that connects to a node port keeps its endpoint; with "
    "externalTrafficPolicy Local, this is an endpoint on the node that its traffic enters, and once that endpoint is "
    "removed, the client moves to another endpoint on that node and keeps that one.",
    level=MUST,
    features={EXTERNAL_POLICY, NODE_PORT, SESSION_AFFINITY},
    source="Kubernetes, Service API: sessionAffinity; externalTrafficPolicy",
    kills={
        "affinity-at-the-cluster-ip-only",
        "affinity-ignores-policies",
        "affinity-outlives-endpoints-of-the-node",
        "ignores-external-local",
        "no-affinity-with-external-local",
    },
)
def test_client_outside_keeps_its_endpoint(three_zones: Cluster) -> None:
    pods = a1, other, a2, b1, b2, c1 = three_zones.run_servers(on=["a1", "a1", "a2", "b1", "b2", "c1"])
    service = _create_service(three_zones, type="NodePort")
    three_zones.publish(service, [endpoint(each) for each in pods])
    expect_affinity(three_zones, service, {external_client("a1"): set(pods)}, to="node-port")

    local = _create_service(three_zones, type="NodePort", external_traffic_policy="Local")
    three_zones.publish(local, [endpoint(each) for each in pods])
    by_node = {"a1": {a1, other}, "a2": {a2}, "b1": {b1}, "b2": {b2}, "c1": {c1}}
    allowed: Allowed = {external_client(node): kept for node, kept in by_node.items()}
    gone = expect_affinity(three_zones, local, allowed, to="node-port")[external_client("a1")]

    three_zones.publish(local, [endpoint(each) for each in pods if each != gone])
    left: Allowed = {client: kept - {gone} for client, kept in allowed.items()}
    expect_affinity(three_zones, local, left, to="node-port")
