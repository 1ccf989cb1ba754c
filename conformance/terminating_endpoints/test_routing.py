"""Terminating endpoints receive traffic only while no endpoint is ready."""

from __future__ import annotations

from typing import Any

from conformance.features import (
    CLUSTER_IP,
    EXTERNAL_POLICY,
    INTERNAL_POLICY,
    LOSSLESS_CHANGES,
    NODE_PORT,
    OPEN_CONNECTIONS,
    TERMINATING_ENDPOINTS,
    UDP_SERVICES,
    ZONE_HINTS,
)
from trafficdist import (
    MUST,
    NO_ANSWER,
    PROXY,
    SHOULD,
    TCP,
    UDP,
    Cluster,
    Endpoint,
    ExpectedTraffic,
    Pod,
    Port,
    Traffic,
    endpoint,
    expect_concurrent_traffic,
    expect_flow_survives,
    expect_no_loss,
    expect_traffic,
    external_client,
    placeless,
    requirement,
    same_zone,
)


def leaving(pod: Pod, *, serving: bool | None = True, **fields: Any) -> Endpoint:
    """Return the endpoint of a terminating pod with this serving condition. None leaves the condition unset."""
    return endpoint(pod, ready=False, serving=serving, terminating=True, **fields)


@requirement(
    "KEP-1669/ready-endpoints-come-before-terminating-ones",
    "While at least one endpoint is ready, terminating endpoints that are not ready get no new connections.",
    level=MUST,
    features={CLUSTER_IP, TERMINATING_ENDPOINTS},
    source="KEP-1669, Proposal (terminating endpoints only when no endpoint is ready)",
    kills={"mixes-terminating-with-ready"},
)
def test_terminating_endpoint_is_not_used_beside_a_ready_one(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [leaving(a1), endpoint(b1)])

    expect_traffic(three_zones, service, {"a1": {b1}, "b1": {b1}})


@requirement(
    "KEP-1669/ready-endpoints-may-terminate",
    "Clients use endpoints that are both ready and terminating, which publishNotReadyAddresses can cause, in the same "
    "way as other ready endpoints.",
    level=MUST,
    features={CLUSTER_IP, TERMINATING_ENDPOINTS},
    source="discovery/v1 EndpointConditions.ready",
    kills={"ready-endpoints-that-terminate-are-unused"},
)
def test_ready_endpoints_may_terminate(three_zones: Cluster) -> None:
    service, alone = three_zones.create_service(), three_zones.create_service()
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    both = endpoint(a1, ready=True, terminating=True)
    three_zones.publish(service, [both, endpoint(b1), leaving(c1)])
    three_zones.publish(alone, [both, leaving(c1)])

    expect_traffic(three_zones, service, {"a1": {a1, b1}, "c1": {a1, b1}})
    expect_traffic(three_zones, alone, {"a1": {a1}, "c1": {a1}})


@requirement(
    "KEP-1669/serving-endpoints-are-used-when-none-is-ready",
    "When no endpoint is ready, clients use terminating endpoints that still serve, whatever hints these endpoints "
    "have, and never use endpoints that no longer serve.",
    level=MUST,
    features={CLUSTER_IP, TERMINATING_ENDPOINTS, ZONE_HINTS},
    source="KEP-1669, Proposal; released since 1.26",
    kills={
        "hints-on-terminating-endpoints",
        "no-terminating-endpoints-at-external-ips",
        "no-terminating-fallback",
        "terminating-means-serving",
        "terminating-pods-on-the-host-network-are-gone",
    },
)
def test_serving_terminating_endpoints_are_the_last_resort(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    hinted, gone = leaving(a1, zones=["a"]), leaving(c1, serving=False, zones=["c"])
    three_zones.publish(service, [hinted, leaving(b1, zones=["b"]), gone])
    expect_traffic(three_zones, service, {"a1": {a1, b1}, "b1": {a1, b1}, "c1": {a1, b1}})

    three_zones.publish(service, [gone])
    expect_traffic(three_zones, service, {"a1": NO_ANSWER, "c1": NO_ANSWER})


@requirement(
    "KEP-1669/unknown-serving-counts-as-serving",
    "When no endpoint is ready, clients use a terminating endpoint that has no serving condition.",
    level=SHOULD,
    features={CLUSTER_IP, TERMINATING_ENDPOINTS, ZONE_HINTS},
    source="discovery/v1 EndpointConditions.serving (nil is true; earlier texts left it to the ready condition)",
    kills={"no-terminating-fallback", "unknown-serving-means-no"},
)
def test_unknown_serving_counts_as_serving(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [leaving(a1), leaving(b1, serving=None)])
    expect_traffic(three_zones, service, {"a1": {a1, b1}, "b1": {a1, b1}})


@requirement(
    "KEP-1669/local-policy-uses-serving-endpoints-of-the-node",
    "With internalTrafficPolicy Local, a node without ready endpoints uses its own terminating endpoints that still "
    "serve, and a node with ready endpoints does not.",
    level=MUST,
    features={INTERNAL_POLICY, TERMINATING_ENDPOINTS},
    source="KEP-1669, Proposal; released since 1.26",
    kills={"ignores-internal-local", "mixes-terminating-with-ready", "no-terminating-fallback"},
)
def test_internal_local_uses_terminating_endpoints_of_the_node(three_zones: Cluster) -> None:
    service = three_zones.create_service(internal_traffic_policy="Local")
    a1, other, b1, old = three_zones.run_servers(on=["a1", "a1", "b1", "b1"])
    three_zones.publish(service, [leaving(a1), leaving(other, serving=False), endpoint(b1), leaving(old)])

    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}, "a2": NO_ANSWER})


@requirement(
    "KEP-1669/external-local-policy-uses-serving-endpoints-of-the-node",
    "With externalTrafficPolicy Local, external traffic to a node without ready endpoints goes to terminating "
    "endpoints on that node that still serve.",
    level=MUST,
    features={EXTERNAL_POLICY, NODE_PORT, TERMINATING_ENDPOINTS},
    source="KEP-1669, Proposal; released since 1.26",
    kills={
        "ignores-external-local",
        "local-fallback-needs-a-service-without-ready-endpoints",
        "mixes-terminating-with-ready",
        "no-terminating-fallback",
    },
)
def test_external_local_uses_terminating_endpoints_of_the_node(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort", external_traffic_policy="Local")
    a1, b1, old = three_zones.run_servers(on=["a1", "b1", "b1"])
    three_zones.publish(service, [leaving(a1), endpoint(b1), leaving(old)])

    outside: Traffic = {external_client("a1"): {a1}, external_client("b1"): {b1}, external_client("a2"): NO_ANSWER}
    expect_traffic(three_zones, service, outside, to="node-port")
    expect_traffic(three_zones, service, {"a1": {b1}})


@requirement(
    "KEP-1669/established-connections-outlive-the-choice",
    "An open connection keeps working when its endpoint begins to terminate and when hints no longer select its "
    "endpoint.",
    level=SHOULD,
    must_if=OPEN_CONNECTIONS,
    features={CLUSTER_IP, TERMINATING_ENDPOINTS, ZONE_HINTS},
    source="KEP-1669, Motivation; KEP-4444, Changes within kube-proxy (safer transitions)",
    kills={"cuts-open-connections"},
)
def test_open_connection_survives_termination_and_hints(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1)])
    with expect_flow_survives(three_zones, service, "a2", a1):
        three_zones.publish(service, [endpoint(a1, zones=["c"]), endpoint(b1, zones=["a"])])
        expect_traffic(three_zones, service, {"a2": {b1}})
        three_zones.publish(service, [leaving(a1), endpoint(b1)])
        expect_traffic(three_zones, service, {"a2": {b1}})


@requirement(
    "KEP-1669/open-connections-outlive-hints-at-node-ports",
    "An open connection from an external or in-cluster client to a node port keeps working when hints no longer select "
    "its endpoint and when all hints are removed, like a connection to the cluster IP.",
    level=SHOULD,
    must_if=OPEN_CONNECTIONS,
    features={CLUSTER_IP, NODE_PORT, ZONE_HINTS},
    source="KEP-1669, Motivation; KEP-4444, Changes within kube-proxy (safer transitions)",
    kills={"cuts-connections-at-node-ports", "cuts-connections-when-endpoints-join", "hints-outlive-their-removal"},
)
def test_open_connections_outlive_hints_at_node_ports(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort", traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    for changed in ([endpoint(a1, zones=["c"]), endpoint(b1, zones=["a"])], [endpoint(a1), endpoint(b1)]):
        three_zones.publish(service, [same_zone(a1), same_zone(b1)])
        expect_traffic(three_zones, service, {external_client("a2"): {a1}}, to="node-port")
        with (
            expect_flow_survives(three_zones, service, external_client("a2"), a1, to="node-port"),
            expect_flow_survives(three_zones, service, "a2", a1, to="node-port"),
            expect_flow_survives(three_zones, service, "a2", a1),
        ):
            three_zones.publish(service, changed)
            now = {b1} if changed[0].hints else {a1, b1}
            expect_traffic(three_zones, service, {external_client("a2"): now}, to="node-port")


@requirement(
    "KEP-1669/node-replaces-its-endpoint-without-loss",
    "With externalTrafficPolicy Local, no external connection fails while the only endpoint of the node terminates "
    "and its replacement becomes ready.",
    level=SHOULD,
    must_if=LOSSLESS_CHANGES,
    features={EXTERNAL_POLICY, NODE_PORT, TERMINATING_ENDPOINTS},
    source="KEP-1669, Motivation (all traffic lost while the last endpoints of a node terminate); kubernetes#97238",
    kills={"forgets-before-it-learns", "no-terminating-fallback"},
)
def test_node_replaces_its_endpoint_without_loss(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort", external_traffic_policy="Local")
    old, new, b1 = three_zones.run_servers(on=["a1", "a1", "b1"])
    via_a1 = external_client("a1")
    three_zones.publish(service, [endpoint(old), endpoint(b1)])

    with expect_no_loss(three_zones, service, from_=[via_a1], allowed={old, new}, to="node-port") as flow:
        three_zones.publish(service, [leaving(old), endpoint(new, ready=False), endpoint(b1)])
        expect_traffic(three_zones, service, {via_a1: {old}}, to="node-port")
        flow.wait_for_samples()
        three_zones.publish(service, [leaving(old), endpoint(new), endpoint(b1)])
        expect_traffic(three_zones, service, {via_a1: {new}}, to="node-port")
        three_zones.publish(service, [endpoint(new), endpoint(b1)])


@requirement(
    "KEP-1669/last-endpoint-is-replaced-without-loss",
    "No connection or query fails while the last endpoint of a Service terminates and its replacement becomes ready.",
    level=SHOULD,
    must_if=LOSSLESS_CHANGES,
    features={CLUSTER_IP, TERMINATING_ENDPOINTS, UDP_SERVICES},
    source="KEP-1669, Motivation; KEP-3015, User Stories, DNS",
    kills={"forgets-before-it-learns", "no-terminating-fallback"},
)
def test_last_endpoint_is_replaced_without_loss(three_zones: Cluster) -> None:
    tcp, udp = Port(80, name="tcp"), Port(80, protocol="UDP", name="udp")
    service = three_zones.create_service(ports=[tcp, udp])
    old, new = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(old)])

    with (
        expect_no_loss(three_zones, service, from_=["a1", "b1"], allowed={old, new}, port=tcp),
        expect_no_loss(three_zones, service, from_=["a1", "b1"], allowed={old, new}, port=udp),
    ):
        for endpoints, answering in (
            ([leaving(old)], old),
            ([leaving(old), endpoint(new, ready=False)], old),
            ([leaving(old), endpoint(new)], new),
            ([endpoint(new)], new),
        ):
            three_zones.publish(service, endpoints)
            for port in (tcp, udp):
                expect_traffic(three_zones, service, {"a1": {answering}, "b1": {answering}}, port=port)


@requirement(
    "KEP-1669/last-resort-at-node-ports",
    "When no endpoint is ready, external and in-cluster clients that connect to a node port, over TCP or UDP, reach "
    "terminating endpoints that still serve, whatever hints these endpoints have.",
    level=MUST,
    features={NODE_PORT, TERMINATING_ENDPOINTS, UDP_SERVICES, ZONE_HINTS},
    source="KEP-1669, Proposal; released since 1.26",
    kills={"no-last-resort-at-udp-node-ports", "no-terminating-fallback"},
)
def test_terminating_endpoints_are_the_last_resort_at_node_ports(three_zones: Cluster) -> None:
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    clients: Traffic = {external_client("a1"): {a1}, external_client("c1"): {a1}, "b2": {a1}}
    questions = []
    for port in (TCP, UDP):
        service = three_zones.create_service(ports=[port], type="NodePort", traffic_distribution="PreferClose")
        hinted = [leaving(a1, zones=["a"]), leaving(b1, serving=False, zones=["b"])]
        three_zones.publish(service, hinted)
        questions.append(ExpectedTraffic(f"over {port.protocol}", service, clients, to="node-port"))
    expect_concurrent_traffic(three_zones, questions)


@requirement(
    "KEP-1669/restarted-proxy-knows-who-terminates",
    "When a proxy starts while an endpoint terminates, that endpoint gets no connections while another endpoint is "
    "ready, and all connections if it is the only one that serves; once it is ready again, it gets new connections.",
    level=MUST,
    features={CLUSTER_IP, TERMINATING_ENDPOINTS, UDP_SERVICES},
    source="KEP-1669, Proposal; kubernetes#92019",
    kills={"no-terminating-fallback", "restarted-keeps-who-terminates-out", "restarted-takes-terminating-for-ready"},
)
def test_restarted_proxy_knows_who_terminates(three_zones: Cluster) -> None:
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    beside = {port.protocol: three_zones.create_service(ports=[port]) for port in (TCP, UDP)}
    last = {port.protocol: three_zones.create_service(ports=[port]) for port in (TCP, UDP)}
    for each in beside.values():
        three_zones.publish(each, [leaving(a1), placeless(b1)])
    for each in last.values():
        three_zones.publish(each, [leaving(a1), leaving(b1, serving=False)])

    three_zones.restart(PROXY, on=["a1", "c1"])
    questions = [
        ExpectedTraffic(f"with a ready one over {name}", each, _from_two({b1})) for name, each in beside.items()
    ]
    questions += [
        ExpectedTraffic(f"last serving one over {name}", each, _from_two({a1})) for name, each in last.items()
    ]
    expect_concurrent_traffic(three_zones, questions)

    for each in beside.values():
        three_zones.publish(each, [placeless(a1), placeless(b1)])
    expect_concurrent_traffic(
        three_zones,
        [ExpectedTraffic(f"ready again over {name}", each, _from_two({a1, b1})) for name, each in beside.items()],
    )


def _from_two(pods: set[Pod]) -> Traffic:
    return {"a1": pods, "c1": pods}
