"""Services without usable endpoints: never ready, no longer ready, or removed."""

from __future__ import annotations

from conformance.features import CLUSTER_IP, DROP_OR_REJECT, EXTERNAL_POLICY, INTERNAL_POLICY, NODE_PORT, UDP_SERVICES
from conformance.service_addresses.test_endpoints import RATES
from trafficdist import (
    MUST,
    NO_ANSWER,
    REFUSED,
    SHOULD,
    TCP,
    UDP,
    ClientRef,
    Cluster,
    Endpoint,
    Expected,
    ExpectedTraffic,
    Pod,
    Service,
    Traffic,
    endpoint,
    expect_concurrent_traffic,
    external_client,
    node_client,
    placeless,
    requirement,
)

BOTH = (TCP, UDP)

CLIENTS: tuple[ClientRef, ...] = ("a1", "b1", node_client("c1"))


def _each(expected: Expected) -> Traffic:
    return dict.fromkeys(CLIENTS, expected)


def _unready(pod: Pod) -> Endpoint:
    return endpoint(pod, ready=False, serving=False)


def _let_speak(cluster: Cluster, services: list[Service], endpoints: list[Endpoint], expected: Traffic) -> None:
    """Add endpoints to these Services, and wait until the clients in `expected` get answers."""
    for each in services:
        cluster.publish(each, endpoints)
    expect_concurrent_traffic(cluster, [ExpectedTraffic(each.name, each, expected) for each in services], rates=RATES)


@requirement(
    "SERVICE/endpoints-that-become-unready-get-nothing",
    "An endpoint that becomes unready gets no new connections, whether or not another endpoint is ready.",
    level=MUST,
    features={CLUSTER_IP, UDP_SERVICES},
    source="discovery/v1 EndpointConditions.ready; KEP-1669, Proposal",
    kills={"once-ready-always-ready", "unready-as-last-resort"},
)
def test_endpoints_that_become_unready_get_nothing(three_zones: Cluster) -> None:
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    some = [three_zones.create_service(ports=[port]) for port in BOTH]
    none = [three_zones.create_service(ports=[port]) for port in BOTH]
    _let_speak(three_zones, some + none, [placeless(a1), placeless(b1)], _each({a1, b1}))

    for each in some:
        three_zones.publish(each, [_unready(a1), endpoint(b1)])
    for each in none:
        three_zones.publish(each, [_unready(a1), _unready(b1)])
    left = [ExpectedTraffic(f"one is ready, {each.name}", each, _each({b1})) for each in some]
    lost = [ExpectedTraffic(f"none is ready, {each.name}", each, _each(NO_ANSWER)) for each in none]
    expect_concurrent_traffic(three_zones, left + lost, rates=RATES)


@requirement(
    "SERVICE/unready-endpoints-are-refused",
    "A Service whose endpoints are all unready rejects connections, like a Service without endpoints, whether or not "
    "the endpoints were ever ready.",
    level=SHOULD,
    must_if=DROP_OR_REJECT,
    features={CLUSTER_IP, UDP_SERVICES},
    source="Kubernetes, kube-proxy: services without endpoints are rejected",
    kills={"drops-where-none-is-ready"},
)
def test_service_with_unready_endpoints_alone_refuses(three_zones: Cluster) -> None:
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    services = [three_zones.create_service(ports=[port]) for port in BOTH]
    _let_speak(three_zones, services, [placeless(a1), placeless(b1)], _each({a1, b1}))

    for refusing in ([a1, b1], [c1]):
        for each in services:
            three_zones.publish(each, [_unready(pod) for pod in refusing])
        who = " ".join(pod.name for pod in refusing)
        questions = [ExpectedTraffic(f"{who} unready, {each.name}", each, _each(REFUSED)) for each in services]
        expect_concurrent_traffic(three_zones, questions, rates=RATES)


@requirement(
    "KEP-2086/local-without-any-endpoint-gives-no-answer",
    "With a Local policy, a Service that has lost its last endpoint, or has only unready endpoints, answers neither "
    "external nor in-cluster clients, on any node.",
    level=MUST,
    features={EXTERNAL_POLICY, INTERNAL_POLICY, NODE_PORT, UDP_SERVICES},
    source="KEP-4444, Topology Aware Routing and InternalTrafficPolicy (lacks failover); core/v1 externalTrafficPolicy",
    kills={"ignores-internal-local", "local-keeps-its-last-endpoints", "once-ready-always-ready"},
)
def test_policy_local_without_any_endpoint_gives_no_answer(three_zones: Cluster) -> None:
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    services = [
        three_zones.create_service(
            ports=[port], type="NodePort", internal_traffic_policy="Local", external_traffic_policy="Local"
        )
        for port in (TCP, UDP, TCP, UDP)
    ]
    _let_speak(three_zones, services, [endpoint(a1), endpoint(b1)], {"a1": {a1}, "b1": {b1}})

    for each in services[:2]:
        three_zones.publish(each, [])
    for each in services[2:]:
        three_zones.publish(each, [_unready(a1), _unready(b1)])
    inside: Traffic = dict.fromkeys(("a1", "c1", node_client("b1")), NO_ANSWER)
    outside: Traffic = {external_client("a1"): NO_ANSWER, external_client("c1"): NO_ANSWER}
    questions = [ExpectedTraffic(f"{each.name} inside", each, inside) for each in services]
    questions += [ExpectedTraffic(f"{each.name} outside", each, outside, to="node-port") for each in services]
    expect_concurrent_traffic(three_zones, questions, rates=RATES)
