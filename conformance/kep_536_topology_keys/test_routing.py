"""KEP-536, rows of the test plan: the endpoints that a proxy uses for a Service with topology keys.

The plan names five sets of keys, "each with varying topologies". A row below is one topology: the nodes that have an
endpoint, and the servers that a client on each node reaches. If no server may be reached, the connection may time out
or be refused.
"""

from __future__ import annotations

import pytest

from conformance.features import CLUSTER_IP, EVEN_SHARES, IPV6_SERVICES, NODE_PORT, TOPOLOGY_KEYS, UDP_SERVICES
from conformance.kep_536_topology_keys.topology import (
    ANY,
    HOST,
    RACK,
    REGION,
    ZONE,
    begin,
    create,
    expect_reached,
    expect_rows,
    publish,
)
from trafficdist import (
    MUST,
    SHOULD,
    UDP,
    Cluster,
    endpoint,
    expect_even_shares,
    external_client,
    node_client,
    requirement,
)

API = "KEP-536, Service API changes"
PLAN = "KEP-536, Test Plan"

SINGLE = {
    HOST: {
        "a1 a2 b1": {"a1": "a1", "a2": "a2", "b1": "b1", "b2": "", "c1": ""},
        "b2 c1": {"a1": "", "a2": "", "b1": "", "b2": "b2", "c1": "c1"},
    },
    RACK: {
        "a1 a2 b1": {"a1": "a1", "a2": "a2 b1", "b1": "a2 b1", "b2": "", "c1": ""},
        "b2 c1": {"a1": "", "a2": "", "b1": "", "b2": "b2", "c1": ""},
    },
    ZONE: {
        "a1 a2 b1": {"a1": "a1 a2", "a2": "a1 a2", "b1": "b1", "b2": "b1", "c1": ""},
        "b2 c1": {"a1": "", "a2": "", "b1": "b2", "b2": "b2", "c1": "c1"},
    },
    REGION: {
        "a1 a2 b1": {"a1": "a1 a2 b1", "a2": "a1 a2 b1", "b1": "a1 a2 b1", "b2": "a1 a2 b1", "c1": ""},
        "b2 c1": {"a1": "b2", "a2": "b2", "b1": "b2", "b2": "b2", "c1": "c1"},
    },
}


@requirement(
    "KEP-536/no-keys-use-every-endpoint",
    "Without topology keys, every client reaches every endpoint, wherever it is.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source=f"{PLAN} (no topology constraints)",
    kills={"topology-keys-by-default"},
)
def test_service_without_keys_uses_every_endpoint(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, on="a1 a2 c1")

    expect_reached(three_zones, service, pods, dict.fromkeys(("a1", "a2", "b1", "c1"), "a1 a2 c1"))


@requirement(
    "KEP-536/one-key-is-a-hard-requirement",
    "With one topology key (a hostname, rack, zone or region label), a client reaches only endpoints on nodes with "
    "the same value of that label as its own node, and gets no answer if there are none.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source=f"{PLAN} (a single hard constraint); {API} (connections will fail)",
    kills={"ignores-topology-keys", "topology-keys-are-soft"},
)
@pytest.mark.parametrize("key", list(SINGLE))
def test_one_key_is_a_hard_requirement(three_zones: Cluster, key: str) -> None:
    expect_rows(three_zones, [key], SINGLE[key])


@requirement(
    "KEP-536/any-label-can-be-a-key",
    "A topology key can be any node label: only the label's value decides which endpoints match, even if they are in "
    "another zone or the value is empty.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source="KEP-536, Goals (arbitrary topological domains, e.g. node, rack, zone, region, by node labels)",
    kills={"knows-common-topology-keys-only", "labels-need-a-value", "topology-keys-stay-in-the-zone"},
)
@pytest.mark.parametrize("key", ["generator", "power.example.com/Generator_2.b"])
@pytest.mark.parametrize("north", ["North", ""], ids=["value", "no value"])
def test_any_label_can_be_a_key(three_zones: Cluster, key: str, north: str) -> None:
    begin(three_zones)
    for node, value in {"a1": north, "b1": north, "a2": "north", "b2": "south"}.items():
        three_zones.nodes.label(node, {key: value})
    service, pods = create(three_zones, key, on="a1 a2 b1 b2 c1")

    expect_reached(three_zones, service, pods, {"a1": "a1 b1", "b1": "a1 b1", "a2": "a2", "b2": "b2", "c1": ""})


@requirement(
    "KEP-536/star-uses-every-endpoint",
    "With * as the only topology key, every client reaches every endpoint, even from a node without topology labels.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source=f'{PLAN} (a single "*" constraint)',
    kills={"star-is-a-label"},
)
@pytest.mark.parametrize("on", ["a1 a2 b1", "c1"])
def test_star_alone_uses_every_endpoint(three_zones: Cluster, on: str) -> None:
    begin(three_zones)
    three_zones.nodes.label("b2", {HOST: None, ZONE: None, REGION: None, RACK: None})
    service, pods = create(three_zones, ANY, on=on)

    expect_reached(three_zones, service, pods, dict.fromkeys(("a1", "b1", "b2", "c1"), on))


@requirement(
    "KEP-536/first-key-with-an-endpoint-decides",
    "Clients use only the endpoints that the first matching topology key selects; connections fail if no key matches "
    "an endpoint.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source=f"{PLAN} (multiple hard constraints); {API} (if backends exist for index 0, they will always be chosen)",
    kills={
        "demands-every-topology-key",
        "first-topology-key-only",
        "topology-keys-are-soft",
        "unites-topology-keys",
    },
)
def test_first_key_with_an_endpoint_decides(three_zones: Cluster) -> None:
    expect_rows(
        three_zones,
        [HOST, RACK, ZONE],
        {
            # a1, a2 and b1 use their own node (a2 and b1 share a rack), b2 matches only its zone, c1 matches nothing
            "a1 a2 b1": {"a1": "a1", "a2": "a2", "b1": "b1", "b2": "b1", "c1": ""},
            "b1": {"a1": "", "a2": "b1", "b1": "b1", "b2": "b1", "c1": ""},
            "a1 b2 c1": {"a1": "a1", "a2": "a1", "b1": "b2", "b2": "b2", "c1": "c1"},
            "a2 b2": {"a1": "a2", "a2": "a2", "b1": "a2", "b2": "b2", "c1": ""},
        },
    )


@requirement(
    "KEP-536/order-of-keys-is-the-preference",
    "Topology keys are evaluated in their order: a later key does not narrow the endpoints that an earlier, wider key "
    "selects.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source=f"{API} (a preference-order list of topology keys)",
    kills={"demands-every-topology-key", "reads-topology-keys-backwards"},
)
def test_wider_key_that_comes_first_decides(three_zones: Cluster) -> None:
    expect_rows(
        three_zones,
        [ZONE, HOST, REGION],
        {
            "a1 a2 b1": {"a1": "a1 a2", "a2": "a1 a2", "b1": "b1", "b2": "b1", "c1": ""},
            "b1 b2": {"a1": "b1 b2", "a2": "b1 b2", "b1": "b1 b2", "b2": "b1 b2", "c1": ""},
        },
    )


@requirement(
    "KEP-536/final-star-makes-it-a-preference",
    "With * as the last topology key, the keys before it decide while they match an endpoint; otherwise every "
    "endpoint is used.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source=f'{PLAN} (multiple constraints plus a final "*" key); {API} (in order to express soft requirement)',
    kills={"star-decides-at-once", "star-is-a-label", "unites-topology-keys"},
)
def test_final_star_makes_it_a_preference(three_zones: Cluster) -> None:
    expect_rows(
        three_zones,
        [HOST, ZONE, ANY],
        {
            "a1 a2 b1": {"a1": "a1", "a2": "a2", "b1": "b1", "b2": "b1", "c1": "a1 a2 b1"},
            "b1 c1": {"a1": "b1 c1", "a2": "b1 c1", "b1": "b1", "b2": "b1", "c1": "c1"},
            "a2": {"a1": "a2", "a2": "a2", "b1": "a2", "b2": "a2", "c1": "a2"},
        },
    )


@requirement(
    "KEP-536/missing-label-matches-nobody",
    "A node without the label of a topology key matches no node for that key, not even other nodes without the label, "
    "and the next key decides.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source="KEP-536, Summary (nodes are local to each other if they have the same value for a label)",
    kills={"missing-label-is-a-place"},
)
def test_missing_label_matches_nobody(three_zones: Cluster) -> None:
    begin(three_zones)
    three_zones.nodes.label("b2", {RACK: None})  # without a rack, like c1
    hard, pods = create(three_zones, RACK, on="a1 b2 c1")
    zone_next = three_zones.create_service(topologyKeys=[RACK, ZONE])
    publish(three_zones, zone_next, pods.values())

    expect_reached(three_zones, hard, pods, {"a1": "a1", "b1": "", "b2": "", "c1": ""})
    expect_reached(three_zones, zone_next, pods, {"a1": "a1", "b1": "b2", "b2": "b2", "c1": "c1"})


@requirement(
    "KEP-536/endpoint-of-no-known-node-matches-the-star-alone",
    "An endpoint without a node name, or with the name of a node that does not exist, matches the topology key * and "
    "no other key.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source="KEP-536, EndpointSlice controller changes (all topology values are derived from labels on the Node)",
    kills={"missing-label-is-a-place"},
)
def test_endpoint_of_no_known_node_matches_the_star_alone(three_zones: Cluster) -> None:
    begin(three_zones)
    hard, pods = create(three_zones, RACK, on="a1 b1 b2")
    soft = three_zones.create_service(topologyKeys=[RACK, ANY])
    for service in (hard, soft):
        a1, b1, b2 = pods.values()
        three_zones.publish(service, [endpoint(a1), endpoint(b1, node=None), endpoint(b2, node="no-such-node")])

    expect_reached(three_zones, hard, pods, {"a1": "a1", "b1": "", "b2": "", "c1": ""})
    expect_reached(three_zones, soft, pods, {"a1": "a1", "b1": "a1 b1 b2", "b2": "a1 b1 b2", "c1": "a1 b1 b2"})


@requirement(
    "KEP-536/endpoint-that-is-not-ready-meets-no-key",
    "An endpoint that is not ready matches no topology key: the next key decides, and connections fail if there is no "
    "next key.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source="KEP-536, Proposal (when the local backend is not available on some host)",
    kills={"unready-endpoint-meets-a-key"},
)
def test_endpoint_that_is_not_ready_meets_no_key(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, HOST, ZONE)
    for ready, reached in (
        (True, {"a1": "a1", "a2": "a2", "b1": "b1", "b2": "b1"}),
        (False, {"a1": "a2", "a2": "a2", "b1": "", "b2": ""}),
        (True, {"a1": "a1", "a2": "a2", "b1": "b1", "b2": "b1"}),
    ):
        states = [endpoint(pods["a1"], ready=ready), endpoint(pods["a2"]), endpoint(pods["b1"], ready=ready)]
        three_zones.publish(service, states)
        expect_reached(three_zones, service, pods, reached)


@requirement(
    "KEP-536/local-endpoint-lost-and-regained",
    "When the endpoints on a node are removed, clients on the node use the endpoints that the next topology key "
    "selects, or get no answer if there is no next key; when the endpoints are added again, the clients use them "
    "again.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source="KEP-536, Proposal (logging agents: service not available; preferred same-host endpoints)",
    kills={"remembers-the-topology-key-that-decided"},
)
def test_local_endpoint_is_lost_and_regained(three_zones: Cluster) -> None:
    begin(three_zones)
    soft, pods = create(three_zones, HOST, ANY, on="a1 b1")
    hard = three_zones.create_service(topologyKeys=[HOST])
    for present in (True, False, True):
        for service in (soft, hard):
            publish(three_zones, service, pods.values() if present else [pods["b1"]])
        expect_reached(three_zones, soft, pods, {"a1": "a1" if present else "b1", "b1": "b1"})
        expect_reached(three_zones, hard, pods, {"a1": "a1" if present else "", "b1": "b1"})


@requirement(
    "KEP-536/selected-endpoints-get-equal-shares",
    "With topology keys, every endpoint that the keys select gets an equal share of a client's connections.",
    level=SHOULD,
    must_if=EVEN_SHARES,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source="KEP-536, Proposal (we will randomly pick one by default)",
    kills={"one-endpoint-twice", "one-endpoint-twice-with-topology-keys"},
)
def test_selected_endpoints_get_equal_shares(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, ZONE, ANY, on="a1 a2 b1")
    a1, a2, b1 = pods.values()

    expect_even_shares(three_zones, service, {"a1": {a1, a2}, "c1": {a1, a2, b1}})


@requirement(
    "KEP-536/keys-hold-for-udp",
    "Topology keys apply to UDP as they do to TCP.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS, UDP_SERVICES},
    source=API,
    kills={"udp-ignores-topology-keys"},
)
def test_keys_hold_for_udp(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, HOST, RACK, on="a1 b1", ports=[UDP])

    expect_reached(three_zones, service, pods, {"a1": "a1", "a2": "b1", "b1": "b1", "b2": "", "c1": ""})


@requirement(
    "KEP-536/keys-hold-for-ipv6",
    "Topology keys apply to IPv6 as they do to IPv4.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS, IPV6_SERVICES},
    source=API,
    kills={"ipv6-ignores-topology-keys"},
)
def test_keys_hold_for_ipv6(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, HOST, RACK, on="a1 b1", ipFamilies=["IPv6"])

    reached = {"a1": "a1", "a2": "b1", "b1": "b1", "b2": "", "c1": ""}
    expect_reached(three_zones, service, pods, reached, family="IPv6")


@requirement(
    "KEP-536/clients-on-the-node-follow-keys-too",
    "For a Service with topology keys, a client in the node's own network namespace reaches the same endpoints as pods "
    "on the node.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source="KEP-536, Kube-proxy changes (endpoints in the same topological domain as the node running kube-proxy)",
    kills={"ignores-topology-keys"},
)
def test_host_network_client_follows_keys(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, ZONE, on="a1 b1")

    expect_reached(
        three_zones, service, pods, {node_client("a2"): "a1", node_client("b2"): "b1", node_client("c1"): ""}
    )


@requirement(
    "KEP-536/external-traffic-follows-keys-of-the-node-it-enters",
    "With externalTrafficPolicy Cluster, external traffic reaches the endpoints that the topology keys select for the "
    "node that it enters; with the hostname as the only key, external traffic stays on that node.",
    level=MUST,
    features={NODE_PORT, TOPOLOGY_KEYS},
    source="KEP-536, Intersection with Local External Traffic Policy (feature parity), and Kube-proxy changes",
    kills={"external-addresses-ignore-topology-keys"},
)
def test_external_traffic_follows_keys_of_the_node_it_enters(three_zones: Cluster) -> None:
    begin(three_zones)
    by_rack, pods = create(three_zones, RACK, on="a1 b1", type="NodePort")
    by_host = three_zones.create_service(topologyKeys=[HOST], type="NodePort")
    publish(three_zones, by_host, pods.values())

    a1, a2, b1, c1 = (external_client(via) for via in ("a1", "a2", "b1", "c1"))
    expect_reached(three_zones, by_rack, pods, {a1: "a1", a2: "b1", b1: "b1", c1: ""}, to="node-port")
    expect_reached(three_zones, by_host, pods, {a1: "a1", a2: "", b1: "b1", c1: ""}, to="node-port")
