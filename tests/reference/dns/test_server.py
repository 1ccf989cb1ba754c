"""The DNS server over real sockets. Source: Kubernetes, DNS-Based Service Discovery 1.1.0; RFCs as named."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import pytest

from reference.dns import DnsServer
from reference.features import Features
from tests.reference.api_server_calls import patched
from tests.reference.dns.dns_cluster import ZONE, DnsCluster, at, rcode, told

A, B = "127.0.1.1", "127.0.1.2"
"""Clients in zone a and in zone b."""


@pytest.fixture
def cluster() -> Iterator[DnsCluster]:
    with DnsCluster() as cluster:
        yield cluster


@pytest.fixture
def zones(cluster: DnsCluster) -> DnsCluster:
    """Clients in zones a and b, and a headless Service.

    The Service has an endpoint in each zone and the topology keys zone and "*".
    """
    cluster.locate("client-a", "a1", A)
    cluster.locate("client-b", "b1", B)
    cluster.locate("pod-a", "a2", "10.0.0.1")
    cluster.locate("pod-b", "b2", "10.0.0.2")
    cluster.create_headless(keys=[ZONE, "*"])
    cluster.publish("web", at("10.0.0.1"), at("10.0.0.2"))
    return cluster


def test_service_has_the_address_of_its_cluster_ip(cluster: DnsCluster) -> None:
    service = cluster.create_service(ipFamilyPolicy="RequireDualStack")
    four, six = service["spec"]["clusterIPs"]
    assert cluster.addresses() == [four]
    assert cluster.addresses(kind="AAAA") == [six]


def test_headless_service_has_the_addresses_of_its_ready_endpoints(cluster: DnsCluster) -> None:
    cluster.create_headless()
    cluster.publish("web", at("10.0.0.1"), at("10.0.0.2", ready=False), at("10.0.0.3", ready=None))
    cluster.publish("web", at("10.0.0.4"), at("10.0.0.1"), name="two")
    cluster.publish("web", at("fd00::1"), name="six", family="IPv6")
    assert cluster.addresses() == ["10.0.0.1", "10.0.0.3", "10.0.0.4"]
    assert cluster.addresses(kind="AAAA") == ["fd00::1"]


def test_answer_is_authoritative_and_carries_its_time_to_live(cluster: DnsCluster) -> None:
    cluster.create_service()
    answer = cluster.ask("web")
    assert answer.flags & dns.flags.AA
    assert [rrset.ttl for rrset in answer.answer] == [5]


def test_named_port_of_a_service_is_a_service_record(cluster: DnsCluster) -> None:
    ip = cluster.create_service()["spec"]["clusterIP"]
    answer = cluster.ask("_http._tcp.web", "SRV")
    assert told(answer) == ["0 100 80 web.default.svc.cluster.local."]
    assert [each.to_text() for rrset in answer.additional for each in rrset] == [ip]


def test_named_port_of_a_headless_service_names_each_endpoint(cluster: DnsCluster) -> None:
    cluster.create_headless()
    cluster.publish("web", at("10.0.0.1", hostname="db-0"), at("10.0.0.2"), port=8080)
    cluster.publish("web", at("fd00::2"), name="six", family="IPv6", port=8080)
    targets = ["db-0", "10-0-0-2", "fd00--2"]
    for name in ("_http._tcp.web", "web"):
        assert told(cluster.ask(name, "SRV")) == [
            f"0 100 8080 {each}.web.default.svc.cluster.local." for each in targets
        ]
    assert cluster.addresses("db-0.web") == ["10.0.0.1"]
    assert cluster.addresses("10-0-0-2.web") == ["10.0.0.2"]
    assert cluster.addresses("fd00--2.web", "AAAA") == ["fd00::2"]


def test_external_name_is_an_alias(cluster: DnsCluster) -> None:
    spec = {"type": "ExternalName", "externalName": "example.org"}
    cluster.api.create("services", "default", {"metadata": {"name": "web"}, "spec": spec})
    for kind in ("A", "AAAA", "CNAME"):
        assert told(cluster.ask("web", kind)) == ["example.org."]


NO_DATA = [
    ("web", "AAAA"),
    ("web", "TXT"),
    ("_tcp.web", "SRV"),
    ("_http._tcp.web", "A"),
    ("default.svc.cluster.local.", "A"),
    ("svc.cluster.local.", "A"),
    ("cluster.local.", "A"),
]


@pytest.mark.parametrize(("name", "kind"), NO_DATA)
def test_existing_name_without_the_record_type_is_not_nxdomain(cluster: DnsCluster, name: str, kind: str) -> None:
    cluster.create_service()
    answer = cluster.ask(name, kind)
    assert (rcode(answer), told(answer)) == ("NOERROR", [])
    assert [(rrset.ttl, rrset[0].minimum) for rrset in answer.authority] == [(5, 5)]


ABSENT = [
    "none",
    "a1.web",
    "_other._tcp.web",
    "_http._udp.web",
    "_udp.web",
    "x.y.z.web",
    "none.svc.cluster.local.",
    "web.none.svc.cluster.local.",
    "other.cluster.local.",
]


@pytest.mark.parametrize("name", ABSENT)
def test_unknown_name_is_nxdomain(cluster: DnsCluster, name: str) -> None:
    cluster.create_service()
    answer = cluster.ask(name)
    assert (rcode(answer), told(answer)) == ("NXDOMAIN", [])
    assert [rrset.to_text().split()[3] for rrset in answer.authority] == ["SOA"]


def test_headless_service_without_endpoints_does_not_exist(cluster: DnsCluster) -> None:
    cluster.create_headless()
    answer = cluster.ask("web")
    assert (rcode(answer), told(answer)) == ("NXDOMAIN", [])


def test_names_outside_of_the_zone_are_refused(cluster: DnsCluster) -> None:
    assert rcode(cluster.ask("example.org.")) == "REFUSED"


def test_zone_has_its_soa_and_ns_records(cluster: DnsCluster) -> None:
    assert told(cluster.ask("dns-version.cluster.local.", "TXT")) == ['"1.1.0"']
    assert told(cluster.ask("cluster.local.", "SOA"))[0].startswith("ns.dns.cluster.local. hostmaster.cluster.local. ")


def test_names_are_case_insensitive_and_returned_as_queried(cluster: DnsCluster) -> None:
    cluster.create_headless()
    cluster.publish("web", at("10.0.0.1"))
    for name in ("web", "WeB", "WEB"):
        answer = cluster.ask(name)
        assert (told(answer), str(answer.question[0].name).partition(".")[0]) == (["10.0.0.1"], name)


def test_query_for_any_type_returns_addresses(cluster: DnsCluster) -> None:
    ip = cluster.create_service()["spec"]["clusterIP"]
    assert cluster.addresses(kind="ANY") == [ip]


def test_client_gets_the_endpoints_of_its_zone(zones: DnsCluster) -> None:
    assert zones.addresses(client=A) == ["10.0.0.1"]
    assert zones.addresses(client=B) == ["10.0.0.2"]
    assert told(zones.ask("_http._tcp.web", "SRV", client=A)) == ["0 100 80 10-0-0-1.web.default.svc.cluster.local."]


def test_unknown_client_gets_all_endpoints(zones: DnsCluster) -> None:
    assert zones.addresses(client="127.0.1.9") == ["10.0.0.1", "10.0.0.2"]


def test_client_on_a_deleted_node_gets_all_endpoints(zones: DnsCluster) -> None:
    zones.locate("client-a", "", A)
    assert zones.addresses(client=A) == ["10.0.0.1", "10.0.0.2"]


def test_name_of_one_endpoint_is_the_same_for_all_clients(zones: DnsCluster) -> None:
    for client in (A, B):
        assert zones.addresses("10-0-0-2.web", client=client) == ["10.0.0.2"]


def test_required_keys_without_a_match_return_no_address(zones: DnsCluster) -> None:
    patched(zones.api, "services", "default", "web", {"spec": {"topologyKeys": ["kubernetes.io/hostname"]}})
    answer = zones.ask("web", client=A)
    assert (rcode(answer), told(answer)) == ("NOERROR", [])


def test_keys_of_a_live_service_are_followed(zones: DnsCluster) -> None:
    for keys, seen in (([ZONE], ["10.0.0.1"]), (["*"], ["10.0.0.1", "10.0.0.2"]), (["rack", ZONE], ["10.0.0.1"])):
        patched(zones.api, "services", "default", "web", {"spec": {"topologyKeys": keys}})
        assert zones.addresses(client=A) == seen


def test_client_that_moves_gets_the_endpoints_of_its_new_zone(zones: DnsCluster) -> None:
    assert zones.addresses(client=A) == ["10.0.0.1"]
    zones.locate("client-a", "b3", A)
    assert zones.addresses(client=A) == ["10.0.0.2"]


def test_endpoint_that_moves_is_returned_in_its_new_zone(zones: DnsCluster) -> None:
    assert zones.addresses(client=A) == ["10.0.0.1"]
    zones.locate("pod-b", "a3", "10.0.0.2")
    assert zones.addresses(client=A) == ["10.0.0.1", "10.0.0.2"]
    zones.locate("pod-a", "b3", "10.0.0.1")
    assert zones.addresses(client=A) == ["10.0.0.2"]


def test_endpoint_is_located_by_its_pod_and_not_by_an_address_that_others_have(cluster: DnsCluster) -> None:
    cluster.locate("client-a", "a1", A)
    cluster.locate("old", "b1", "10.0.0.1")
    cluster.locate("new", "a2", "10.0.0.1")
    cluster.create_headless(keys=[ZONE])
    cluster.publish("web", at("10.0.0.1", pod="new"), at("10.0.0.2"))
    assert cluster.addresses(client=A) == ["10.0.0.1"]


def test_each_change_shows_in_the_next_answer(zones: DnsCluster) -> None:
    for number in range(30):
        ips = [f"10.0.0.{1 + number % 2}", f"10.0.1.{number}"]
        zones.locate("moves", "ab"[number % 2] + "1", ips[1])
        zones.publish("web", *map(at, ips))
        assert zones.addresses(client=A if number % 2 == 0 else B) == ips


def test_deleted_service_disappears_and_new_service_appears(zones: DnsCluster) -> None:
    assert zones.addresses(client=A) == ["10.0.0.1"]
    zones.api.delete("services", "default", "web")
    assert rcode(zones.ask("web", client=A)) == "NXDOMAIN"
    assert rcode(zones.ask("default.svc.cluster.local.", client=A)) == "NXDOMAIN"
    zones.create_headless()
    assert zones.addresses(client=A) == ["10.0.0.1", "10.0.0.2"]


def test_slice_that_changes_its_service_counts_only_for_the_new_one(zones: DnsCluster) -> None:
    zones.create_headless("other")
    assert zones.addresses(client=A) == ["10.0.0.1"]
    labels = {"kubernetes.io/service-name": "other"}
    patched(zones.api, "endpointslices", "default", "web-one", {"metadata": {"labels": labels}})
    assert zones.addresses(client=A) == []
    assert zones.addresses("other", client=A) == ["10.0.0.1", "10.0.0.2"]


def test_keys_are_ignored_without_the_gate() -> None:
    with DnsCluster() as cluster:
        cluster.server.stop()
        cluster.server = DnsServer(cluster.api, features=Features())
        with cluster:
            cluster.locate("client-a", "a1", A)
            cluster.create_headless(keys=[ZONE])
            cluster.publish("web", at("10.0.0.1"))
            assert cluster.addresses(client=A) == ["10.0.0.1"]


def test_order_of_addresses_rotates(cluster: DnsCluster) -> None:
    cluster.create_headless()
    cluster.publish("web", *(at(f"10.0.0.{number}") for number in range(1, 5)))
    firsts = {told(cluster.ask("web"))[0] for _ in range(100)}  # misses one of four with probability 1e-12
    assert firsts == {f"10.0.0.{number}" for number in range(1, 5)}


@pytest.fixture
def large(cluster: DnsCluster) -> DnsCluster:
    """A headless Service of 300 endpoints."""
    cluster.create_headless()
    for part in range(3):
        cluster.publish("web", *(at(f"10.0.{part}.{number}") for number in range(1, 101)), name=str(part))
    return cluster


@pytest.mark.parametrize(("payload", "most"), [(None, 512), (512, 512), (1232, 1232), (4096, 4096), (65535, 4096)])
def test_large_answer_is_truncated_to_the_clients_size(large: DnsCluster, payload: int | None, most: int) -> None:
    answer = large.ask("web", payload=payload)
    assert answer.flags & dns.flags.TC
    assert most - 16 <= len(answer.to_wire(max_size=65535)) <= most
    assert answer.edns == (0 if payload else -1)


def test_large_answer_is_complete_over_tcp(large: DnsCluster) -> None:
    answer = large.ask("web", tcp=True)
    assert not answer.flags & dns.flags.TC
    assert len(set(told(answer))) == 300


def test_truncated_srv_answer_is_empty(large: DnsCluster) -> None:
    cut, whole = large.ask("web", "SRV"), large.ask("web", "SRV", tcp=True)
    assert (told(cut), bool(cut.flags & dns.flags.TC)) == ([], True)
    assert len(told(whole)) == len(whole.additional) == 300


def test_additional_records_are_omitted_if_they_do_not_fit(cluster: DnsCluster) -> None:
    cluster.create_headless()
    cluster.publish("web", *(at(f"10.0.0.{number}") for number in range(1, 8)))
    small, large = cluster.ask("web", "SRV", payload=600), cluster.ask("web", "SRV")
    assert [len(told(each)) for each in (small, large)] == [7, 7]
    assert [len(each.additional) for each in (small, large)] == [0, 7]
    assert not small.flags & dns.flags.TC


def test_edns_is_answered_with_edns_and_unknown_versions_are_refused(cluster: DnsCluster) -> None:
    cluster.create_service()
    answer = cluster.ask("web")
    assert (answer.edns, answer.payload) == (0, 4096)
    assert rcode(cluster.ask("web", use_edns=1)) == "BADVERS"


def exchange(cluster: DnsCluster, packet: bytes) -> bytes:
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.settimeout(5)
        sock.sendto(packet, ("127.0.0.1", cluster.port))
        return sock.recv(65535)


def query(name: str = "web.default.svc.cluster.local.") -> dns.message.Message:
    return dns.message.make_query(name, "A")


def test_malformed_queries_are_refused_and_responses_are_ignored(cluster: DnsCluster) -> None:
    wire = query().to_wire()
    answer = wire[:2] + bytes([wire[2] | 0x80]) + wire[3:]
    notify = wire[:2] + bytes([dns.opcode.NOTIFY << 3]) + wire[3:]
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.settimeout(5)
        for packet in (b"", b"short", answer, wire[:20], notify, wire[:4] + b"\0\0" + wire[6:12]):
            sock.sendto(packet, ("127.0.0.1", cluster.port))
        replies = [sock.recv(65535) for _ in range(3)]
    assert [each[:2] for each in replies] == [wire[:2]] * 3
    assert [each[3] & 0xF for each in replies] == [dns.rcode.FORMERR, dns.rcode.NOTIMP, dns.rcode.FORMERR]


@pytest.mark.parametrize("kind", ["AXFR", "IXFR"])
def test_zone_is_not_transferred(cluster: DnsCluster, kind: str) -> None:
    reply = dns.message.from_wire(exchange(cluster, dns.message.make_query("cluster.local.", kind).to_wire()))
    assert rcode(reply) == "REFUSED"


def test_split_queries_on_one_connection_are_answered(cluster: DnsCluster) -> None:
    ip = cluster.create_service()["spec"]["clusterIP"]
    cluster.settle()
    queries = [query() for _ in range(3)]
    stream = b"".join(struct.pack("!H", len(each.to_wire())) + each.to_wire() for each in queries)
    with socket.create_connection(("127.0.0.1", cluster.port), timeout=5) as sock, sock.makefile("rb") as answers:
        for begin in range(0, len(stream), 7):
            sock.sendall(stream[begin : begin + 7])
        for each in queries:
            answer = dns.message.from_wire(answers.read(*struct.unpack("!H", answers.read(2))))
            assert (answer.id, told(answer)) == (each.id, [ip])


def test_malformed_objects_are_reported_and_do_not_affect_others(
    cluster: DnsCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_headless()
    cluster.publish("web", at("10.0.0.1"))
    with caplog.at_level(logging.ERROR):
        cluster.server._deliver(type("E", (), {"type": "ADDED", "resource": "services", "object": {}})())
        assert cluster.addresses() == ["10.0.0.1"]
    assert "cannot be read and is skipped" in caplog.text


def test_server_can_be_stopped_without_having_been_started() -> None:
    server = DnsServer(DnsCluster().api)
    server.stop()
    server.stop()
