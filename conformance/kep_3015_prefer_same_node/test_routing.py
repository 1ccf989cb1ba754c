"""KEP-3015, the proxy: it follows node hints first, then zone hints, and otherwise uses every endpoint."""

from __future__ import annotations

from conformance.features import (
    CLUSTER_IP,
    EXTERNAL_POLICY,
    INTERNAL_POLICY,
    IPV6_SERVICES,
    NODE_HINTS,
    NODE_PORT,
    UDP_SERVICES,
    ZONE_HINTS,
)
from trafficdist import (
    MUST,
    NO_ANSWER,
    TCP,
    UDP,
    Cluster,
    ExpectedTraffic,
    Traffic,
    endpoint,
    expect_concurrent_traffic,
    expect_traffic,
    external_client,
    node_client,
    requirement,
    same_node,
    same_zone,
)


@requirement(
    "KEP-3015/node-then-zone-then-anywhere",
    "With hints for nodes, a client uses endpoints on its own node while there are any, then those in its zone, then "
    "all.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS, NODE_HINTS},
    source="KEP-3015, Addition of PreferSameNode (CategorizeEndpoints)",
    kills={
        "drops-without-hinted-endpoint",
        "ignores-zone-hints",
        "node-as-zone",
        "node-names-of-63-characters",
        "skips-zone-tier",
    },
)
def test_prefer_same_node_falls_back_to_zone_then_anywhere(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferSameNode")
    a1, b1, b2 = three_zones.run_servers(on=["a1", "b1", "b2"])
    three_zones.publish(service, [same_node(pod) for pod in (a1, b1, b2)])

    expect_traffic(
        three_zones,
        service,
        {
            "a1": {a1},  # on its own node
            "a2": {a1},  # no endpoint on a2, but one in zone a
            "b1": {b1},
            "b2": {b2},
            "c1": {a1, b1, b2},  # no endpoint in zone c
        },
    )


@requirement(
    "KEP-3015/partial-node-hints-fall-back-to-the-zone",
    "While one ready endpoint has no node hint, a proxy ignores the node hints of all endpoints and follows zone "
    "hints.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS, NODE_HINTS},
    source="KEP-3015, Addition of PreferSameNode (if every endpoint has a ForNodes hint set)",
    kills={"accepts-partial-node-hints", "drops-without-hinted-endpoint", "ignores-zone-hints"},
)
def test_partial_node_hints_fall_back_to_zone_hints(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferSameNode")
    a1, a2, b1 = three_zones.run_servers(on=["a1", "a2", "b1"])
    three_zones.publish(service, [same_node(a1), same_zone(a2), same_node(b1)])

    expect_traffic(three_zones, service, {"a1": {a1, a2}, "a2": {a1, a2}, "b1": {b1}, "c1": {a1, a2, b1}})


@requirement(
    "KEP-3015/partial-hints-of-both-kinds-are-set-aside",
    "When some endpoints have only node hints and others only zone hints, a proxy ignores both kinds and uses all "
    "endpoints.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS, NODE_HINTS},
    source="KEP-3015, Addition of PreferSameNode (otherwise, all endpoints)",
    kills={"accepts-partial-zone-hints", "drops-without-hinted-endpoint", "unhinted-endpoint-joins-every-zone"},
)
def test_mixed_partial_hints_use_every_endpoint(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferSameNode")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1, nodes=["a1"]), endpoint(b1, zones=["b"])])

    expect_traffic(three_zones, service, {"a1": {a1, b1}, "b1": {a1, b1}, "c1": {a1, b1}})


@requirement(
    "KEP-3015/node-hints-come-before-zone-hints",
    "When hints for nodes and for zones contradict each other, the hint for the client's node decides.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS, NODE_HINTS},
    source="KEP-3015, Addition of PreferSameNode (order of the steps)",
    kills={"ignores-zone-hints", "zone-before-node"},
)
def test_node_hints_decide_over_contradicting_zone_hints(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferSameNode")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1, zones=["b"], nodes=["a1"]), endpoint(b1, zones=["a"], nodes=["b1"])])

    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}, "a2": {b1}, "b2": {a1}})


@requirement(
    "KEP-3015/node-hints-decide-not-the-place-of-the-endpoint",
    "A proxy follows an endpoint's hint for a node, even if the hint does not name the node that the endpoint is on.",
    level=MUST,
    features={CLUSTER_IP, NODE_HINTS},
    source="KEP-3015, Addition of PreferSameNode (ForNodes)",
    kills={
        "drops-without-hinted-endpoint",
        "first-hint-only",
        "hinted-endpoints-on-the-node-come-first",
        "node-of-the-endpoint-instead-of-hint",
    },
)
def test_hint_for_another_node_is_followed(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferSameNode")
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    hinted = [endpoint(a1, nodes=["b1", "c1"]), endpoint(b1, nodes=["a1"]), endpoint(c1, nodes=["c1"])]
    three_zones.publish(service, hinted)

    expect_traffic(three_zones, service, {"a1": {b1}, "b1": {a1}, "c1": {a1, c1}, "a2": {a1, b1, c1}})


@requirement(
    "KEP-3015/node-hints-alone-leave-other-nodes-everything",
    "With hints for nodes but none for zones, a client on a node for which no endpoint is hinted reaches every "
    "endpoint.",
    level=MUST,
    features={CLUSTER_IP, NODE_HINTS},
    source="KEP-3015, Addition of PreferSameNode (otherwise, all endpoints)",
    kills={"drops-without-hinted-endpoint"},
)
def test_node_without_hinted_endpoint_and_no_zone_hints_uses_all(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferSameNode")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1, nodes=["a1"]), endpoint(b1, nodes=["b1"])])

    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}, "a2": {a1, b1}, "c1": {a1, b1}})


@requirement(
    "KEP-3015/unready-endpoint-of-the-node-is-not-used",
    "Clients on a node whose only endpoint is not ready use the endpoints in their zone, and all endpoints if none in "
    "the zone is ready.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS, NODE_HINTS},
    source="KEP-3015, Addition of PreferSameNode (if any is available)",
    kills={"drops-without-hinted-endpoint", "ignores-zone-hints", "uses-unready-hinted-endpoint"},
)
def test_unready_endpoint_on_the_node_falls_back_to_the_zone(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferSameNode")
    a1, a2, b1 = three_zones.run_servers(on=["a1", "a2", "b1"])
    three_zones.publish(service, [same_node(a1, ready=False), same_node(a2), same_node(b1)])
    expect_traffic(three_zones, service, {"a1": {a2}, "a2": {a2}, "b1": {b1}})

    three_zones.publish(service, [same_node(a1, ready=False), same_node(a2, ready=False), same_node(b1)])
    expect_traffic(three_zones, service, {"a1": {b1}, "a2": {b1}, "b1": {b1}})


@requirement(
    "KEP-3015/unready-endpoint-without-hint-changes-nothing",
    "A starting or terminating endpoint without hints does not disable the hints of the ready endpoints.",
    level=MUST,
    features={CLUSTER_IP, NODE_HINTS},
    source="KEP-3015, Addition of PreferSameNode; released: only ready endpoints count",
    as_="released",
    kills={
        "drops-without-hinted-endpoint",
        "ignores-zone-hints",
        "terminating-endpoint-breaks-hints",
        "terminating-endpoint-breaks-node-hints",
        "unready-endpoint-breaks-hints",
        "unready-endpoint-breaks-node-hints",
    },
)
def test_unready_endpoints_without_hints_do_not_switch_node_hints_off(three_zones: Cluster) -> None:
    a1, a2, b1, b2, c1 = three_zones.run_servers(on=["a1", "a2", "b1", "b2", "c1"])
    starting = endpoint(b2, ready=False)
    leaving = endpoint(c1, ready=False, serving=True, terminating=True)
    hinted = [same_node(each) for each in (a1, a2, b1)]
    for unhinted in ([starting], [leaving], [starting, leaving]):
        service = three_zones.create_service(traffic_distribution="PreferSameNode")
        three_zones.publish(service, [*hinted, *unhinted])
        expect_traffic(three_zones, service, {"a1": {a1}, "a2": {a2}, "b1": {b1}, "b2": {b1}, "c1": {a1, a2, b1}})


@requirement(
    "KEP-3015/endpoint-of-the-node-lost-and-regained",
    "When the only endpoint on a node is removed, clients on the node use another endpoint; when the removed endpoint "
    "is added again, they use it again.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS, NODE_HINTS},
    source="KEP-3015, User Stories, DNS",
    kills={"drops-without-hinted-endpoint", "never-returns-to-hints"},
)
def test_node_loses_and_regains_its_endpoint(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferSameNode")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    for present in (True, False, True):
        three_zones.publish(service, [same_node(pod) for pod in ((a1, b1) if present else (b1,))])
        expect_traffic(three_zones, service, {"a1": {a1} if present else {b1}, "b1": {b1}})


@requirement(
    "KEP-3015/local-dns-over-udp",
    "UDP clients use the server on their node, and a remote server while their node has none.",
    level=MUST,
    features={CLUSTER_IP, NODE_HINTS, UDP_SERVICES},
    source="KEP-3015, User Stories, DNS",
    kills={"ignores-zone-hints", "udp-ignores-hints"},
)
def test_udp_clients_use_the_server_on_their_node(three_zones: Cluster) -> None:
    service = three_zones.create_service(ports=[UDP], traffic_distribution="PreferSameNode")
    a1, a2, b1 = three_zones.run_servers(on=["a1", "a2", "b1"])
    three_zones.publish(service, [same_node(pod) for pod in (a1, a2, b1)])
    expect_traffic(three_zones, service, {"a1": {a1}, "a2": {a2}, "b1": {b1}, "b2": {b1}})

    three_zones.publish(service, [same_node(pod) for pod in (a2, b1)])
    expect_traffic(three_zones, service, {"a1": {a2}, "a2": {a2}, "b1": {b1}})


@requirement(
    "KEP-3015/node-hints-hold-for-ipv6",
    "Node hints, and the fallback to zone hints and then to all endpoints, apply to IPv6 as they do to IPv4.",
    level=MUST,
    features={CLUSTER_IP, NODE_HINTS, IPV6_SERVICES},
    source="KEP-3015, Addition of PreferSameNode",
    kills={"drops-without-hinted-endpoint", "ignores-zone-hints", "ipv6-ignores-hints"},
)
def test_node_hints_hold_for_ipv6(three_zones: Cluster) -> None:
    service = three_zones.create_service(ipFamilies=["IPv6"], traffic_distribution="PreferSameNode")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_node(a1), same_node(b1)])

    expect_traffic(three_zones, service, {"a1": {a1}, "a2": {a1}, "b1": {b1}, "c1": {a1, b1}}, family="IPv6")


@requirement(
    "KEP-3015/clients-on-the-node-follow-node-hints-too",
    "A client in the node's own network namespace uses the endpoints that are hinted for the node.",
    level=MUST,
    features={CLUSTER_IP, NODE_HINTS},
    source="KEP-3015, Addition of PreferSameNode (same node as the client)",
    kills={"ignores-node-hints", "node-hints-end-with-the-node"},
)
def test_host_network_client_follows_node_hints(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferSameNode")
    a1, a2 = three_zones.run_servers(on=["a1", "a2"])
    three_zones.publish(service, [same_node(a1), same_node(a2)])

    expect_traffic(three_zones, service, {node_client("a1"): {a1}, node_client("a2"): {a2}})


@requirement(
    "KEP-3015/external-traffic-follows-hints-of-the-node-it-enters",
    "With externalTrafficPolicy Cluster, external traffic uses the endpoints that are hinted for the node that it "
    "enters.",
    level=MUST,
    features={NODE_PORT, NODE_HINTS},
    source="KEP-3015, Addition of PreferSameNode (a hint that includes the local node); KEP-4444, Intersection with "
    "internal/externalTrafficPolicy (first row)",
    kills={"external-addresses-ignore-hints", "ignores-zone-hints"},
)
def test_external_traffic_follows_node_hints_of_the_node_it_enters(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort", traffic_distribution="PreferSameNode")
    a1, a2, b1 = three_zones.run_servers(on=["a1", "a2", "b1"])
    three_zones.publish(service, [same_node(pod) for pod in (a1, a2, b1)])

    clients: Traffic = {external_client("a1"): {a1}, external_client("a2"): {a2}, external_client("b2"): {b1}}
    expect_traffic(three_zones, service, clients, to="node-port")


@requirement(
    "KEP-3015/node-without-zone-follows-hints-for-its-name",
    "A client on a node without a zone label uses the endpoints that are hinted for the node, and all endpoints if "
    "none is hinted for the node.",
    level=MUST,
    features={CLUSTER_IP, NODE_HINTS, UDP_SERVICES, ZONE_HINTS},
    source="KEP-3015, Addition of PreferSameNode (if every endpoint has a ForNodes hint set)",
    kills={"drops-without-hinted-endpoint", "drops-without-zone-label", "node-hints-need-a-zone"},
)
def test_node_without_zone_follows_hints_for_its_name(three_zones: Cluster) -> None:
    a1, a2, b1 = three_zones.run_servers(on=["a1", "a2", "b1"])
    three_zones.nodes.move("a2", None)
    three_zones.nodes.move("b2", None)
    questions = []
    for port in (TCP, UDP):
        service = three_zones.create_service(ports=[port], traffic_distribution="PreferSameNode")
        three_zones.publish(service, [same_node(pod) for pod in (a1, a2, b1)])
        expected: Traffic = {"a2": {a2}, node_client("a2"): {a2}, "b2": {a1, a2, b1}, "b1": {b1}}
        questions.append(ExpectedTraffic(f"over {port.protocol}", service, expected))
    expect_concurrent_traffic(three_zones, questions)


@requirement(
    "KEP-3015/local-sets-node-hints-aside",
    "With both traffic policies set to Local, in-cluster clients use the endpoints on their node, and external clients "
    "those on the node that their traffic enters, whatever nodes the endpoints are hinted for.",
    level=MUST,
    features={EXTERNAL_POLICY, INTERNAL_POLICY, NODE_HINTS, NODE_PORT, UDP_SERVICES},
    source="KEP-4444, Intersection with internal/externalTrafficPolicy (third row); KEP-3015, Alternatives",
    kills={"ignores-external-local", "ignores-internal-local", "node-hints-on-top-of-local"},
)
def test_policy_local_ignores_node_hints(three_zones: Cluster) -> None:
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    inside: Traffic = {"a1": {a1}, "b1": {b1}, "a2": NO_ANSWER}
    outside: Traffic = {external_client("a1"): {a1}, external_client("b1"): {b1}, external_client("c1"): NO_ANSWER}
    questions = []
    for port in (TCP, UDP):
        service = three_zones.create_service(
            ports=[port],
            type="NodePort",
            internal_traffic_policy="Local",
            external_traffic_policy="Local",
            traffic_distribution="PreferSameNode",
        )
        three_zones.publish(service, [endpoint(a1, nodes=["b1", "a2"]), endpoint(b1, nodes=["a1", "c1"])])
        questions.append(ExpectedTraffic(f"inside over {port.protocol}", service, inside))
        questions.append(ExpectedTraffic(f"outside over {port.protocol}", service, outside, to="node-port"))
    expect_concurrent_traffic(three_zones, questions)
