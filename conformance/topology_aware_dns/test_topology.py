"""KEP-536, DNS server changes: a client of a headless Service receives the endpoints near it."""

from __future__ import annotations

import pytest

from conformance.features import SERVICE_DNS, TOPOLOGY_AWARE_DNS
from conformance.kep_536_topology_keys.topology import ANY, HOST, RACK, ZONE
from conformance.topology_aware_dns.pods import begin, create_headless, expect_rows, kinds, publish
from trafficdist import (
    MUST,
    SHOULD,
    Cluster,
    IneligibleError,
    Probing,
    dns_name_of,
    expect_dns_answer,
    expect_dns_pods,
    external_client,
    pod_client,
    requirement,
)

DNS = "KEP-536, DNS server changes"
API = "KEP-536, Service API changes"
EVERY = "a1 a2 b1 b2 c1"


@requirement(
    "KEP-536/dns-tells-of-the-clients-place",
    "For a headless Service with topology keys, A and AAAA answers contain exactly the endpoints that the keys select "
    "for the client: pods in different zones get different answers.",
    level=MUST,
    features={SERVICE_DNS, TOPOLOGY_AWARE_DNS},
    source=f"{DNS} (select only the IPs of backend Pods in the same topological domain)",
    kills={
        "dns-ignores-topology-keys",
        "dns-ignores-topology-keys-over-tcp",
        "dns-knows-clients-by-one-address",
        "dns-knows-places-of-ipv4",
    },
)
@pytest.mark.parametrize("kind", ["A", "AAAA"])
def test_dns_tells_of_the_clients_place(three_zones: Cluster, kind: str) -> None:
    if kind not in kinds(three_zones):
        raise IneligibleError(f"pods of this cluster have no {kind} records")
    _expect_own_place(three_zones, kind)


@requirement(
    "KEP-536/dns-tells-of-ports-in-the-clients-place",
    "SRV records of a headless Service with topology keys contain the same endpoints as its address records.",
    level=MUST,
    features={SERVICE_DNS, TOPOLOGY_AWARE_DNS},
    source=f"{DNS} (keys of each headless Service are respected)",
    kills={"dns-ignores-topology-keys", "dns-has-ports-of-everywhere"},
)
def test_dns_tells_of_ports_in_the_clients_place(three_zones: Cluster) -> None:
    _expect_own_place(three_zones, "SRV")


def _expect_own_place(three_zones: Cluster, kind: str) -> None:
    pods = begin(three_zones)
    service = create_headless(three_zones, ZONE, ANY)
    publish(three_zones, service, pods, "a1 a2 b1")

    told = {"a1": "a1 a2", "a2": "a1 a2", "b1": "b1", "b2": "b1", "c1": "a1 a2 b1"}
    expect_rows(three_zones, service, pods, told, kind=kind)


@requirement(
    "KEP-536/dns-tells-of-none-where-none-is-near",
    "For a headless Service, topology keys without a final * are a hard requirement: when no endpoint matches a key, a "
    "client gets NXDOMAIN or an answer without records.",
    level=MUST,
    features={SERVICE_DNS, TOPOLOGY_AWARE_DNS},
    source=f"{API} (requirements are hard); {DNS}; the DNS specification, whose headless Services without endpoints "
    "are NXDOMAIN, does not know of endpoints that exist for others",
    kills={"dns-ignores-topology-keys", "dns-keys-are-soft", "dns-keys-are-soft-for-ipv6"},
)
@pytest.mark.parametrize("key", [HOST, RACK, ZONE])
def test_dns_tells_of_none_where_none_is_near(three_zones: Cluster, key: str) -> None:
    pods = begin(three_zones)
    service = create_headless(three_zones, key)
    publish(three_zones, service, pods, "a1 b1")

    told = {
        HOST: {"a1": "a1", "a2": "", "b1": "b1", "b2": "", "c1": ""},
        RACK: {"a1": "a1", "a2": "b1", "b1": "b1", "b2": "", "c1": ""},
        ZONE: {"a1": "a1", "a2": "a1", "b1": "b1", "b2": "b1", "c1": ""},
    }
    expect_rows(three_zones, service, pods, told[key])


@requirement(
    "KEP-536/dns-first-key-that-is-met-decides",
    "For a headless Service, the first topology key that matches an endpoint decides, even if it follows a key that "
    "the client's node does not have as a label; * matches all endpoints.",
    level=MUST,
    features={SERVICE_DNS, TOPOLOGY_AWARE_DNS},
    source=f"{API} (preference-order list); {DNS}",
    kills={"dns-looks-at-the-last-key", "dns-unites-keys", "dns-star-is-a-label", "dns-stops-at-a-missing-label"},
)
def test_dns_first_key_that_is_met_decides(three_zones: Cluster) -> None:
    pods = begin(three_zones)
    service = create_headless(three_zones, HOST, ZONE, ANY)
    publish(three_zones, service, pods, "a1 a2 b1")

    told = {"a1": "a1", "a2": "a2", "b1": "b1", "b2": "b1", "c1": "a1 a2 b1"}
    expect_rows(three_zones, service, pods, told)

    by_rack = create_headless(three_zones, RACK, ZONE)
    publish(three_zones, by_rack, pods, "a1 a2 b1 c1")
    told = {"a1": "a1", "a2": "a2 b1", "b1": "a2 b1", "b2": "b1", "c1": "c1"}  # the node of c1 is in no rack
    expect_rows(three_zones, by_rack, pods, told)


@requirement(
    "KEP-536/dns-without-keys-tells-of-all",
    "For a headless Service without topology keys, or with * as its only key, every client gets all endpoints.",
    level=MUST,
    features={SERVICE_DNS, TOPOLOGY_AWARE_DNS},
    source="KEP-536, Test Plan (no topology constraints; a single * constraint)",
    kills={"dns-prefers-zones-unasked", "dns-star-is-a-label", "dns-star-is-a-label-for-ipv6"},
)
@pytest.mark.parametrize("keys", [(), (ANY,)], ids=["no keys", "star"])
def test_dns_without_keys_tells_of_all(three_zones: Cluster, keys: tuple[str, ...]) -> None:
    pods = begin(three_zones)
    service = create_headless(three_zones, *keys)
    publish(three_zones, service, pods, "a1 b1 c1")

    expect_rows(three_zones, service, pods, dict.fromkeys(EVERY.split(), "a1 b1 c1"))


@requirement(
    "KEP-536/dns-follows-keys",
    "When the topology keys of an existing headless Service change, DNS answers change accordingly.",
    level=MUST,
    features={SERVICE_DNS, TOPOLOGY_AWARE_DNS},
    source=f"{DNS}; {API}",
    kills={"dns-keys-are-soft-for-ipv6", "dns-reads-keys-once"},
)
def test_dns_follows_keys(three_zones: Cluster) -> None:
    pods = begin(three_zones)
    service = create_headless(three_zones)
    publish(three_zones, service, pods, "a1 a2 b1")
    for keys, told in (
        (None, {"a1": "a1 a2 b1", "c1": "a1 a2 b1"}),
        ([ZONE], {"a1": "a1 a2", "c1": ""}),
        ([HOST, ANY], {"a1": "a1", "c1": "a1 a2 b1"}),
        (None, {"a1": "a1 a2 b1", "c1": "a1 a2 b1"}),
    ):
        three_zones.patch_service(service, {"spec": {"topologyKeys": keys}})
        expect_rows(three_zones, service, pods, told)


@requirement(
    "KEP-536/dns-follows-nodes-that-are-relabelled",
    "For a headless Service with topology keys, when the labels of a node change, DNS answers to the node's pods "
    "contain the endpoints near the node's new location, and answers to clients near that location contain the node's "
    "pods.",
    level=MUST,
    features={SERVICE_DNS, TOPOLOGY_AWARE_DNS},
    source=f"{DNS} (retrieve the node labels of both client and backend Pods via PodLocator)",
    kills={"dns-knows-places-once", "locator-keeps-the-first-labels", "dns-tells-clients-without-labels-of-all"},
)
def test_dns_follows_nodes_that_are_relabelled(three_zones: Cluster) -> None:
    pods = begin(three_zones)
    service = create_headless(three_zones, ZONE)
    publish(three_zones, service, pods, "a1 a2 b1")
    expect_rows(three_zones, service, pods, {"a1": "a1 a2", "a2": "a1 a2", "b2": "b1"})

    three_zones.nodes.move("a2", "b")
    expect_rows(three_zones, service, pods, {"a1": "a1", "a2": "a2 b1", "b2": "a2 b1"})

    labels = three_zones.api.get("nodes", "", "a1")["metadata"]["labels"]
    three_zones.nodes.label("a1", dict.fromkeys(labels))
    expect_rows(three_zones, service, pods, {"a1": "", "a2": "a2 b1"})


@requirement(
    "KEP-536/dns-learns-a-clients-second-address",
    "For a headless Service with topology keys, when a client's pod gets a second address, answers to queries from "
    "both addresses contain the endpoints that the keys select for the pod's node.",
    level=MUST,
    features={SERVICE_DNS, TOPOLOGY_AWARE_DNS},
    source=f"{DNS} (needs to map PodIP -> Node); KEP-536, New PodLocator resource (dual-stack support)",
    kills={"dns-keeps-the-first-addresses", "dns-misses-a-second-address"},
)
def test_dns_learns_a_clients_second_address(three_zones: Cluster) -> None:
    if len(three_zones.families) < 2:
        raise IneligibleError("pods of this cluster have one address")
    pods = begin(three_zones)
    service = create_headless(three_zones, ZONE)
    publish(three_zones, service, pods, "a1 b1")

    client = pod_client("a2")  # no PodLocator has its addresses yet
    three_zones.create_pod("late", "a2")
    known: list[str] = []
    for family in three_zones.families:
        known.append(three_zones.backend.part(Probing).client_address(client, family))
        status = {"podIP": known[0], "podIPs": [{"ip": each} for each in known]}
        three_zones.api.patch("pods", three_zones.namespace, "late", {"status": status}, subresource="status")
        for kind, each in zip(kinds(three_zones), three_zones.families, strict=True):
            told = [pods["a1"].addresses[each]]
            over = {"family": family}
            expect_dns_answer(three_zones, client, dns_name_of(service), kind, query=over, rcode="NOERROR", data=told)
    for kind in kinds(three_zones):
        expect_dns_pods(three_zones, service, {client: {pods["a1"]}}, kind=kind)


@requirement(
    "KEP-536/dns-follows-endpoints-in-each-place",
    "For a headless Service with topology keys, when the client's zone loses its last endpoint, the next topology key "
    "decides, and when the zone has an endpoint again, the first topology key decides again.",
    level=MUST,
    features={SERVICE_DNS, TOPOLOGY_AWARE_DNS},
    source=f"{API} (only if no backends exist for index [0])",
    kills={"dns-knows-endpoints-once"},
)
def test_dns_follows_endpoints_in_each_place(three_zones: Cluster) -> None:
    pods = begin(three_zones)
    service = create_headless(three_zones, ZONE, ANY)
    for on, told in (
        ("a1 b1", {"a2": "a1", "b2": "b1"}),
        ("b1", {"a2": "b1", "b2": "b1"}),
        ("a2 b1 b2", {"a2": "a2", "b2": "b1 b2"}),
    ):
        publish(three_zones, service, pods, on)
        expect_rows(three_zones, service, pods, told)


@requirement(
    "KEP-536/dns-tells-unknown-clients-of-all",
    "For a headless Service whose last topology key is *, a client whose address is in no PodLocator gets all "
    "endpoints.",
    level=SHOULD,
    features={SERVICE_DNS, TOPOLOGY_AWARE_DNS},
    source=f"{DNS} (needs to map PodIP -> Node; left open for other clients); {API} (soft requirement)",
    kills={"dns-hides-from-unknown-clients", "dns-hides-ipv6-from-unknown-clients"},
)
def test_dns_tells_unknown_clients_of_all(three_zones: Cluster) -> None:
    pods = begin(three_zones)
    service = create_headless(three_zones, ZONE, ANY)
    publish(three_zones, service, pods, "a1 b1")
    expect_rows(three_zones, service, pods, {"a1": "a1", "c1": "a1 b1"})

    told = {external_client("c1"): {pods["a1"], pods["b1"]}}
    for kind in kinds(three_zones):
        expect_dns_pods(three_zones, service, told, kind=kind)
