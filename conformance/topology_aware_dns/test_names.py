"""DNS names of Services: which names exist, their records, and the results of real resolvers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from functools import partial

from conformance.features import SERVICE_DNS, TOPOLOGY_AWARE_DNS
from conformance.kep_536_topology_keys.topology import ANY, ZONE
from conformance.service_addresses.test_robustness import write_odd_objects
from conformance.topology_aware_dns.pods import Pods, begin, create_headless, expect_rows, kinds, publish, run
from trafficdist import (
    DNS_SERVER,
    MAY,
    MUST,
    SHOULD,
    Cluster,
    Endpoint,
    Pod,
    Port,
    Service,
    addresses_of,
    ask_dns,
    dns_name_of,
    endpoint,
    expect_dns_answer,
    expect_eventually,
    expect_running,
    requirement,
    resolvers,
)

SPEC = "Kubernetes, DNS-Based Service Discovery 1.1.0"
HTTP, QUERIES = Port(name="http"), Port(53, "UDP", name="queries")
MANY = 300
EXISTS, ABSENT = "NOERROR", "NXDOMAIN"
EITHER = frozenset({EXISTS, ABSENT})
SEMANTIC_VERSION = re.compile(r'"\d+\.\d+\.\d+[-+.0-9A-Za-z]*"')


@requirement(
    "DNS/service-has-its-cluster-ips",
    "The name of a Service has an A record for its IPv4 cluster IP, an AAAA record for its IPv6 cluster IP, and an SRV "
    "record for each named port, whatever endpoints the Service has.",
    level=MUST,
    features={SERVICE_DNS},
    source=f"{SPEC}, Records for a Service with ClusterIP",
    kills={"dns-has-one-family", "dns-has-no-ports", "dns-has-the-first-port-only"},
    answers={"DNS"},
)
def test_service_has_its_cluster_ips(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service = three_zones.create_service(dual_stack=True, ports=[HTTP, QUERIES])
    a1, name = pods["a1"], dns_name_of(service)

    for kind, family in (("A", "IPv4"), ("AAAA", "IPv6")):
        expect_dns_answer(three_zones, a1, name, kind, rcode=EXISTS, data=[service.cluster_ip(family)])
    for labels, port in ((("_http", "_tcp"), 80), (("_queries", "_udp"), 53)):
        expect_dns_answer(three_zones, a1, dns_name_of(service, *labels), "SRV", rcode=EXISTS, data=[f"{port} {name}"])
    for labels in (("_http", "_udp"), ("_queries", "_tcp")):
        expect_dns_answer(three_zones, a1, dns_name_of(service, *labels), "SRV", data=[])


@requirement(
    "DNS/headless-service-has-its-ready-endpoints",
    "The name of a headless Service resolves to the addresses of its ready endpoints, and to no others.",
    level=MUST,
    features={SERVICE_DNS},
    source=f"{SPEC}, Records for a Headless Service",
    kills={
        "dns-knows-endpoints-once",
        "dns-knows-slices-since-its-start",
        "dns-needs-a-ready-condition",
        "dns-tells-of-unready-endpoints",
    },
)
def test_headless_service_has_its_ready_endpoints(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service = create_headless(three_zones)
    publish(three_zones, service, pods, "a1 b1 c1")
    expect_rows(three_zones, service, pods, {"a1": "a1 b1 c1"})

    leaving = endpoint(pods["b1"], ready=False, serving=True, terminating=True)
    three_zones.publish(service, [endpoint(pods["a1"]), leaving, endpoint(pods["c1"], ready=False)])
    expect_rows(three_zones, service, pods, {"a1": "a1", "c1": "a1"})


@requirement(
    "DNS/endpoint-has-its-hostname",
    "For a headless Service, an endpoint with a hostname has its own DNS name below the Service's name, and SRV "
    "records point to that name; a name that two endpoints share has the addresses of both.",
    level=MUST,
    features={SERVICE_DNS},
    source=f"{SPEC}, Records for a Headless Service",
    kills={"dns-forgets-hostnames"},
)
def test_endpoint_has_its_hostname(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service = create_headless(three_zones, ports=[HTTP])
    three_zones.publish(service, [endpoint(pods["a1"], extra={"hostname": "db-0"})])

    name, a1 = dns_name_of(service, "db-0"), pods["a1"]
    for kind, address in zip(kinds(three_zones), a1.addresses.values(), strict=True):
        expect_dns_answer(three_zones, a1, name, kind, rcode=EXISTS, data=[address])
    expect_dns_answer(three_zones, a1, dns_name_of(service, "_http", "_tcp"), "SRV", data=[f"8080 {name}"])

    both = [pods["a1"], pods["b1"]]
    three_zones.publish(service, [endpoint(each, extra={"hostname": "db-1"}) for each in both])
    for kind, family in zip(kinds(three_zones), three_zones.families, strict=True):
        data = [each.addresses[family] for each in both]
        expect_dns_answer(three_zones, a1, dns_name_of(service, "db-1"), kind, rcode=EXISTS, data=data)


@requirement(
    "DNS/absent-names-do-not-exist",
    "A query for a name that does not exist gets NXDOMAIN and an SOA record.",
    level=MUST,
    features={SERVICE_DNS},
    source="RFC 2308, 2.1 and 3",
    kills={"dns-knows-every-name"},
)
def test_absent_names_do_not_exist(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service = three_zones.create_service(ports=[HTTP])
    publish(three_zones, service, pods, "a1")
    a1, name = pods["a1"], dns_name_of(service)

    for absent in (
        f"none.{name}",
        f"none-{name}",
        dns_name_of(service, "_none", "_tcp"),
        f"{service.name}.none.svc.cluster.local.",
    ):
        expect_dns_answer(three_zones, a1, absent, rcode=ABSENT, data=[], soa=True)
    three_zones.delete_service(service)
    expect_dns_answer(three_zones, a1, name, rcode=ABSENT, data=[], soa=True)


@requirement(
    "DNS/names-have-no-records-of-other-types",
    "A query for a record type that an existing name does not have gets NOERROR, an empty answer section and an SOA "
    "record in the authority section, so that clients do not conclude that the name does not exist.",
    level=MUST,
    features={SERVICE_DNS},
    source="RFC 2308, 2.2 and 3; RFC 4074, 4.2 (AAAA of a name with an A record alone)",
    kills={"dns-denies-names-without-records"},
    fixes={"family": "the scenario compares IPv4 records", "ports": "the records depend on the ports"},
)
def test_names_have_no_records_of_other_types(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service, headless = three_zones.create_service(ports=[HTTP]), three_zones.create_service(clusterIP="None")
    publish(three_zones, service, pods, "a1")  # some DNS servers omit Services without a ready endpoint
    three_zones.publish(headless, [Endpoint({"IPv4": pods["a1"].addresses["IPv4"]})])

    expect_dns_answer(three_zones, pods["a1"], dns_name_of(headless), rcode=EXISTS, data=[pods["a1"].addresses["IPv4"]])
    for name in (dns_name_of(service), dns_name_of(headless)):
        for kind in ("AAAA", "TXT"):
            expect_dns_answer(three_zones, pods["a1"], name, kind, rcode=EXISTS, data=[], soa=True)


@requirement(
    "DNS/headless-service-without-endpoints-has-no-records",
    "A headless Service without ready endpoints has no addresses: a query for its name gets NXDOMAIN or an empty "
    "answer, with an SOA record.",
    level=MUST,
    features={SERVICE_DNS},
    source=f"{SPEC}, Records for a Headless Service (a record for each ready endpoint); RFC 2308, 3",
    kills={"dns-tells-of-unready-endpoints"},
)
def test_headless_service_without_endpoints_has_no_records(three_zones: Cluster) -> None:
    pods, service = run(three_zones), create_headless(three_zones)
    for endpoints in ([], [endpoint(pods["a1"], ready=False)]):
        publish(three_zones, service, pods, "a1")
        expect_rows(three_zones, service, pods, {"b1": "a1"})  # the DNS server now knows the Service
        three_zones.publish(service, endpoints)
        for kind in kinds(three_zones):
            expect_dns_answer(three_zones, pods["b1"], dns_name_of(service), kind, rcode=EITHER, data=[], soa=True)


@requirement(
    "DNS/headless-service-without-endpoints-does-not-exist",
    "A query for a headless Service without ready endpoints gets NXDOMAIN.",
    level=SHOULD,
    features={SERVICE_DNS},
    source=f"{SPEC}, Records for a Headless Service (the answer should be NXDOMAIN)",
    kills={"dns-knows-services-without-endpoints"},
)
def test_headless_service_without_endpoints_does_not_exist(three_zones: Cluster) -> None:
    pods, service = run(three_zones), create_headless(three_zones)
    publish(three_zones, service, pods, "a1")
    expect_rows(three_zones, service, pods, {"b1": "a1"})  # the DNS server now knows the Service
    three_zones.publish(service, [])
    for kind in kinds(three_zones):
        expect_dns_answer(three_zones, pods["b1"], dns_name_of(service), kind, rcode=ABSENT, data=[], soa=True)


@requirement(
    "DNS/large-answers-come-whole-over-tcp",
    "An answer larger than the client accepts over UDP (512 bytes, or its EDNS buffer size) is marked as truncated, "
    "and is complete over TCP.",
    level=MUST,
    features={SERVICE_DNS},
    source="RFC 1035, 4.2; RFC 7766, 5; RFC 6891, 6.2",
    kills={"dns-never-cuts", "dns-never-cuts-over-ipv6", "dns-cuts-over-tcp"},
    fixes={"family": "the scenario compares IPv4 records", "ports": "the records depend on the ports"},
)
def test_large_answers_come_whole_over_tcp(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service = three_zones.create_service(clusterIP="None")
    ips = [f"10.246.{number // 250}.{number % 250 + 1}" for number in range(MANY)]
    for part in range(3):
        chosen = [Endpoint({"IPv4": each}) for each in ips[part::3]]
        three_zones.publish(service, chosen, name=str(part))
    a1, name = pods["a1"], dns_name_of(service)

    expect_dns_answer(three_zones, a1, name, query={"tcp": True}, rcode=EXISTS, data=ips, cut=False)
    expect_dns_answer(three_zones, a1, name, query={"payload": 0}, rcode=EXISTS, cut=True, edns=False)
    expect_dns_answer(three_zones, a1, name, query={"payload": 1232}, rcode=EXISTS, cut=True, edns=True)
    small = three_zones.create_service(clusterIP="None")
    three_zones.publish(small, [Endpoint({"IPv4": each}) for each in ips[:60]])
    expect_dns_answer(three_zones, a1, dns_name_of(small), query={"payload": 0}, rcode=EXISTS, cut=True)
    expect_dns_answer(three_zones, a1, dns_name_of(small), query={"tcp": True}, data=ips[:60], cut=False)


@requirement(
    "DNS/answers-may-be-kept-for-a-short-time",
    "Records have a TTL of at most 30 seconds, so that clients learn of changes soon.",
    level=MAY,
    features={SERVICE_DNS},
    source=f"{SPEC}, Definitions (a TTL, of any length)",
    kills={"dns-is-kept-for-a-day"},
)
def test_answers_may_be_kept_for_a_short_time(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service = create_headless(three_zones)
    publish(three_zones, service, pods, "a1")
    expect_rows(three_zones, service, pods, {"b1": "a1"})

    what = f"records of service {service.name} live for at most 30 s"
    for kind, family in itertools.product(kinds(three_zones), three_zones.families):
        answer = ask_dns(three_zones, pods["b1"], dns_name_of(service), kind, family=family)
        three_zones.expect_equal(what, expected=True, observed=bool(answer.data) and answer.ttl <= 30)


@requirement(
    "DNS/names-are-the-same-in-any-case",
    "A DNS server answers queries for a name in upper case, in lower case and in mixed case alike.",
    level=MUST,
    features={SERVICE_DNS},
    source="RFC 4343, 3",
    kills={"dns-mistakes-the-case-of-names"},
    fixes={"family": "the scenario compares IPv4 records", "ports": "the records depend on the ports"},
)
def test_names_are_the_same_in_any_case(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service = three_zones.create_service()
    publish(three_zones, service, pods, "a1")
    for name in (dns_name_of(service), dns_name_of(service).upper(), dns_name_of(service).title()):
        expect_dns_answer(three_zones, pods["a1"], name, rcode=EXISTS, data=[service.cluster_ip("IPv4")])


@requirement(
    "DNS/serves-unchanged-resolvers",
    "Standard resolvers (the C library's, Python's, and dig if installed), in pods with the resolv.conf that kubelets "
    "write, resolve a Service's short names.",
    level=MUST,
    features={SERVICE_DNS},
    source=f"{SPEC}; RFC 6891, 6.1.2 (unknown EDNS options are ignored); RFC 2308, 2.1 (absent names end no search)",
    kills={"dns-fails-at-cookies"},
)
def test_dns_serves_unchanged_resolvers_with_addresses(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service = create_headless(three_zones)
    publish(three_zones, service, pods, "a1 b1")
    expect_rows(three_zones, service, pods, {"a1": "a1 b1"})
    _expect_resolved(three_zones, service, pods, {"a1": "a1 b1", "c1": "a1 b1"})


def _expect_resolved(cluster: Cluster, service: Service, pods: Pods, told: Mapping[str, str]) -> None:
    """Expect each resolver, in the pod on each node, to resolve each short name to the pods on the given nodes."""
    names = (service.name, f"{service.name}.{service.namespace}")  # the second name needs the second search domain
    for resolver, name in itertools.product(resolvers(), names):
        for node, near in told.items():
            expected = addresses_of([pods[each] for each in near.split()])
            what = f"answer to {resolver.name} in a pod on {node} for {name}"
            expect_eventually(cluster, what, partial(resolver.resolve, cluster, pods[node], name), expected=expected)


@requirement(
    "KEP-536/dns-serves-unchanged-resolvers",
    "Standard resolvers (the C library's, Python's, and dig if installed), in pods with the resolv.conf that kubelets "
    "write, resolve a Service's short names to the endpoints near the pod.",
    level=MUST,
    features={SERVICE_DNS, TOPOLOGY_AWARE_DNS},
    source="KEP-536, DNS server changes (different clients may get different DNS responses)",
    kills={"dns-ignores-topology-keys", "dns-fails-at-cookies"},
)
def test_dns_serves_unchanged_resolvers(three_zones: Cluster) -> None:
    pods = begin(three_zones)
    service = create_headless(three_zones, ZONE, ANY)
    publish(three_zones, service, pods, "a1 a2 b1")

    told = {"a1": "a1 a2", "b2": "b1", "c1": "a1 a2 b1"}
    expect_rows(three_zones, service, pods, told)
    _expect_resolved(three_zones, service, pods, told)


@requirement(
    "DNS/tells-the-version-of-its-schema",
    "In the cluster's DNS zone, the name dns-version has one TXT record: the semantic version of the DNS schema.",
    level=MUST,
    features={SERVICE_DNS},
    source=f"{SPEC}, Record for Schema Version (there must be)",
    kills={"dns-tells-no-version"},
)
def test_version_of_the_schema_is_told(three_zones: Cluster) -> None:
    pods = run(three_zones)
    for family in three_zones.families:
        versions = ask_dns(three_zones, pods["a1"], "dns-version.cluster.local.", "TXT", family=family).data
        said = [each for each in versions if SEMANTIC_VERSION.fullmatch(each)]
        what = "answer to TXT dns-version.cluster.local., one version"
        three_zones.expect_equal(what, expected=1, observed=len(said))


@requirement(
    "DNS/external-name-is-an-alias",
    "The name of an ExternalName Service has a CNAME record, which comes first in answers to address queries.",
    level=MUST,
    features={SERVICE_DNS},
    source=f"{SPEC}, Records for External Name Services (must exist)",
    kills={"dns-resolves-no-aliases"},
)
def test_external_name_is_an_alias(three_zones: Cluster) -> None:
    pods, target = run(three_zones), "www.example.invalid."
    service = three_zones.create_service(type="ExternalName", externalName=target.rstrip("."))

    for kind in ("CNAME", "A", "AAAA"):  # a DNS server need not resolve names outside the cluster domain
        expect_eventually(
            three_zones,
            f"answer to {kind} {dns_name_of(service)} has {target}",
            partial(_has_record, three_zones, pods["a1"], dns_name_of(service), kind, target),
            expected=True,
        )


def _has_record(cluster: Cluster, client: Pod, name: str, kind: str, data: str) -> bool:
    return all(data in ask_dns(cluster, client, name, kind, family=family).data for family in cluster.families)


@requirement(
    "DNS/unnamed-ports-have-no-records",
    "A port without a name has no SRV record, but the Service still has its address records.",
    level=MUST,
    features={SERVICE_DNS},
    source=f"{SPEC}, SRV Records (unnamed ports do not have an SRV record)",
    kills={"dns-names-ports-by-their-numbers"},
    fixes={"family": "the scenario compares IPv4 records", "ports": "the records depend on the ports"},
)
def test_unnamed_ports_have_no_records(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service = three_zones.create_service()
    publish(three_zones, service, pods, "a1")
    a1, name = pods["a1"], dns_name_of(service)

    expect_dns_answer(three_zones, a1, name, rcode=EXISTS, data=[service.cluster_ip("IPv4")])
    for port in ("_80", "_http"):
        expect_dns_answer(three_zones, a1, dns_name_of(service, port, "_tcp"), "SRV", data=[])


@requirement(
    "DNS/server-keeps-running",
    "A DNS server keeps running and applying changes, whatever slices and Services the API server stores in this and "
    "all other scenarios of the run.",
    level=MUST,
    features={SERVICE_DNS},
    source=f"{SPEC}; discovery/v1 Endpoint.addresses (consumers must handle different types of addresses)",
    kills={"dns-crashes-on-slices-of-names", "dns-hangs-on-slices-of-names"},
    last=True,
    fixes={"family": "the scenario compares IPv4 records"},
)
def test_dns_server_keeps_running(three_zones: Cluster) -> None:
    """Create slices without ports, endpoints or a Service, and Services without ports, an address or endpoints."""
    pods = run(three_zones)
    with expect_running(three_zones, DNS_SERVER):
        write_odd_objects(three_zones)
        three_zones.settle()
        service = three_zones.create_service()
        publish(three_zones, service, pods, "a1")
        expect_dns_answer(
            three_zones, pods["a1"], dns_name_of(service), rcode=EXISTS, data=[service.cluster_ip("IPv4")]
        )
