"""Names of Services: those that exist, their records, and the results of real resolvers."""

from __future__ import annotations

import itertools
from functools import partial

from conformance.features import SERVICE_DNS, TOPOLOGY_AWARE_DNS
from conformance.kep_536_topology_keys.places import ANY, ZONE
from conformance.topology_aware_dns.pods import begin, create_headless, expect_rows, kinds, publish, run
from harness import (
    MUST,
    SHOULD,
    Cluster,
    Endpoint,
    Port,
    addresses_of,
    ask_dns,
    dns_name_of,
    endpoint,
    expect_becomes,
    expect_dns_answer,
    requirement,
    resolvers,
)

SPEC = "Kubernetes, DNS-Based Service Discovery 1.1.0"
HTTP = Port(name="http")
MANY = 300
EXISTS, ABSENT = "NOERROR", "NXDOMAIN"


@requirement(
    "DNS/service-has-its-cluster-ips",
    "The name of a Service has its cluster IP as an A record, an IPv6 one as an AAAA record, and each named port as an "
    "SRV record, whatever its endpoints.",
    level=MUST,
    features={SERVICE_DNS},
    source=f"{SPEC}, Records for a Service with ClusterIP",
    kills={"dns-has-one-family", "dns-has-no-ports"},
)
def test_service_has_its_cluster_ips(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service = three_zones.create_service(dual_stack=True, ports=[HTTP])
    a1, name = pods["a1"], dns_name_of(service)

    for kind, family in (("A", "IPv4"), ("AAAA", "IPv6")):
        expect_dns_answer(three_zones, a1, name, kind, rcode=EXISTS, data=[service.cluster_ip(family)])
    expect_dns_answer(three_zones, a1, dns_name_of(service, "_http", "_tcp"), "SRV", rcode=EXISTS, data=[f"80 {name}"])


@requirement(
    "DNS/headless-service-has-its-ready-endpoints",
    "The name of a headless Service has the addresses of its ready endpoints, and of no others.",
    level=MUST,
    features={SERVICE_DNS},
    source=f"{SPEC}, Records for a Headless Service",
    kills={"dns-tells-of-unready-endpoints", "dns-knows-endpoints-once"},
)
def test_headless_service_has_its_ready_endpoints(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service = create_headless(three_zones)
    publish(three_zones, service, pods, "a1 b1 c1")
    expect_rows(three_zones, service, pods, {"a1": "a1 b1 c1"})

    leaving = endpoint(pods["b1"], ready=False, serving=True, terminating=True)
    three_zones.publish(service, [endpoint(pods["a1"]), leaving, endpoint(pods["c1"], ready=False)])
    for kind in kinds(three_zones):
        expect_rows(three_zones, service, pods, {"a1": "a1", "c1": "a1"}, kind=kind)


@requirement(
    "DNS/endpoint-has-its-hostname",
    "An endpoint of a headless Service that has a hostname has a name of its own below the Service's, to which SRV "
    "records point.",
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


@requirement(
    "DNS/absent-names-do-not-exist",
    "A name that nothing has is answered with NXDOMAIN and an SOA record; one that exists without such a record, or a "
    "headless Service without endpoints, with neither error nor records.",
    level=MUST,
    features={SERVICE_DNS},
    source=f"RFC 2308, 2; {SPEC}",
    kills={"dns-knows-every-name", "dns-denies-names-without-records"},
)
def test_absent_names_do_not_exist(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service, empty = three_zones.create_service(ports=[HTTP]), create_headless(three_zones)
    a1, name = pods["a1"], dns_name_of(service)

    for exists, kind in ((name, "TXT"), (name, "AAAA"), (dns_name_of(empty), "A")):
        expect_dns_answer(three_zones, a1, exists, kind, rcode=EXISTS, data=[], soa=True)
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
    "DNS/large-answers-come-whole-over-tcp",
    "An answer that is larger than the client takes over UDP says that it was cut, and comes whole over TCP; with EDNS "
    "a client takes what it says.",
    level=MUST,
    features={SERVICE_DNS},
    source="RFC 1035, 4.2; RFC 7766, 5; RFC 6891, 6.2",
    kills={"dns-never-cuts", "dns-cuts-over-tcp", "dns-ignores-edns"},
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
    expect_dns_answer(three_zones, a1, dns_name_of(small), query={"payload": 1232}, data=ips[:60], cut=False)


@requirement(
    "DNS/answers-may-be-kept-for-a-short-time",
    "Records carry a time to live of more than 0 and at most 30 seconds, so that clients learn of changes.",
    level=SHOULD,
    features={SERVICE_DNS},
    source=f"{SPEC} (TTL is up to the implementation); KEP-536, DNS server changes",
    kills={"dns-is-kept-for-a-day"},
)
def test_answers_may_be_kept_for_a_short_time(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service = create_headless(three_zones)
    publish(three_zones, service, pods, "a1")

    def seconds() -> bool:
        return 0 < ask_dns(three_zones, pods["b1"], dns_name_of(service), kinds(three_zones)[0]).ttl <= 30

    expect_becomes(three_zones, f"A records of service {service.name} live for 1 to 30 s", seconds, expected=True)


@requirement(
    "DNS/names-are-the-same-in-any-case",
    "Names mean the same in capitals and small letters.",
    level=MUST,
    features={SERVICE_DNS},
    source="RFC 4343, 3",
    kills={"dns-mistakes-the-case-of-names"},
)
def test_names_are_the_same_in_any_case(three_zones: Cluster) -> None:
    pods = run(three_zones)
    service = three_zones.create_service()
    for name in (dns_name_of(service), dns_name_of(service).upper(), dns_name_of(service).title()):
        expect_dns_answer(three_zones, pods["a1"], name, rcode=EXISTS, data=[service.cluster_ip("IPv4")])


@requirement(
    "KEP-536/dns-serves-unchanged-resolvers",
    "Resolvers of programs (the C library's, Python's, dig's where it is there), in pods with the resolv.conf that "
    "kubelets write, resolve a Service's short names to the endpoints near to them.",
    level=MUST,
    features={SERVICE_DNS, TOPOLOGY_AWARE_DNS},
    source="KEP-536, DNS server changes (different clients may get different DNS responses)",
    kills={"dns-ignores-topology-keys", "dns-fails-at-cookies"},
)
def test_dns_serves_unchanged_resolvers(three_zones: Cluster) -> None:
    pods = begin(three_zones)
    service = create_headless(three_zones, ZONE, ANY)
    publish(three_zones, service, pods, "a1 a2 b1")

    names = (service.name, f"{service.name}.{service.namespace}")  # the second is in the second domain of the search
    for resolver, name in itertools.product(resolvers(), names):
        for node, told in {"a1": "a1 a2", "b2": "b1", "c1": "a1 a2 b1"}.items():
            expected = addresses_of([pods[each] for each in told.split()])
            what = f"answer to {resolver.name} in a pod on {node} for {name}"
            look = partial(resolver.resolve, three_zones, pods[node], name)
            expect_becomes(three_zones, what, look, expected=expected)
