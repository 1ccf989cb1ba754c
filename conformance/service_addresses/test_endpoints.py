"""Unusual endpoints: addresses in two slices, and addresses of nodes."""

from __future__ import annotations

import pytest

from conformance.features import (
    CLUSTER_IP,
    EVEN_SHARES,
    EXTERNAL_POLICY,
    INTERNAL_POLICY,
    NODE_PORT,
    UDP_SERVICES,
    ZONE_HINTS,
)
from conformance.second_namespace import namespace_beside
from trafficdist import (
    MUST,
    NO_ANSWER,
    SHOULD,
    Cluster,
    Endpoint,
    ExpectedTraffic,
    Port,
    Rates,
    Service,
    Traffic,
    endpoint,
    expect_concurrent_traffic,
    expect_even_shares,
    expect_traffic,
    external_client,
    manifests,
    node_client,
    placeless,
    requirement,
    same_zone,
)

TWICE = "Kubernetes, EndpointSlices, Duplicate endpoints (a complete list of unique network endpoints)"

# A proxy handles an address either correctly or completely wrongly, so the probes detect only large faults.
RATES = Rates(leak=0.25)


@pytest.mark.takes(4)
@requirement(
    "SERVICE/address-in-two-slices",
    "If an address is in two slices of a Service with different target ports, clients use each of these ports "
    "according to the hints in its slice; if the target ports are equal, the address and other endpoints remain in "
    "use, even if the hints in the two slices differ.",
    level=MUST,
    features={CLUSTER_IP, UDP_SERVICES, ZONE_HINTS},
    source=TWICE,
    kills={"one-endpoint-an-address", "leaves-repeated-endpoints-out"},
)
def test_address_in_two_slices_is_used(three_zones: Cluster) -> None:
    a1, b1 = three_zones.run_servers(on=["a1", "b1"], container_ports=[("t", 9000, "TCP"), ("u", 9000, "UDP")])
    questions = []
    for protocol in ("TCP", "UDP"):
        ports, same, alike = (
            three_zones.create_service(ports=[Port(80, protocol)], traffic_distribution="PreferClose") for _ in range(3)
        )
        one, other = [Port(80, protocol, target=8080)], [Port(80, protocol, target=9000)]
        three_zones.publish(ports, [endpoint(a1, zones=["a"]), endpoint(b1, zones=["c"])], name="one", ports=one)
        three_zones.publish(ports, [endpoint(a1, zones=["b"])], name="other", ports=other)
        three_zones.publish(same, [endpoint(a1, zones=["a"]), endpoint(b1, zones=["b"])], name="one")
        three_zones.publish(same, [endpoint(a1, zones=["a", "c"])], name="other")
        three_zones.publish(alike, [endpoint(a1), endpoint(b1)], name="one")
        three_zones.publish(alike, [endpoint(a1)], name="other")
        questions += [
            ExpectedTraffic(f"other ports over {protocol}", ports, {"a1": {a1}, "b1": {a1}, "c1": {b1}}),
            ExpectedTraffic(f"other hints over {protocol}", same, {"a2": {a1}, "b2": {b1}}),
            ExpectedTraffic(f"no hints over {protocol}", alike, {"a1": {a1, b1}, "c1": {a1, b1}}),
        ]
    expect_concurrent_traffic(three_zones, questions, rates=RATES)


@requirement(
    "SERVICE/repeated-endpoint-counts-once",
    "An endpoint that is in two slices gets the same share of traffic as an endpoint that is in one slice.",
    level=SHOULD,  # the API requires unique endpoints, and equal shares are defined only for unique endpoints
    must_if=EVEN_SHARES,
    features={CLUSTER_IP},
    source=f"{TWICE}; KEP-4444, Default",
    kills={"counts-repeated-endpoints-twice"},
)
def test_repeated_endpoint_gets_one_share(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1), endpoint(b1)], name="one")
    three_zones.publish(service, [endpoint(a1)], name="other")

    expect_even_shares(three_zones, service, {"c1": {a1, b1}})


@requirement(
    "SERVICE/host-network-endpoints",
    "Traffic to endpoints whose addresses are node addresses follows hints and both traffic policies, like traffic to "
    "other endpoints: over TCP and UDP, through cluster IPs and node ports, including traffic from clients on the "
    "endpoint's node.",
    level=MUST,
    features={CLUSTER_IP, EXTERNAL_POLICY, INTERNAL_POLICY, NODE_PORT, UDP_SERVICES, ZONE_HINTS},
    source="core/v1 PodSpec.hostNetwork; discovery/v1 Endpoint.addresses, nodeName; KEP-4444, PreferClose",
    kills={"endpoints-outside-of-pod-cidrs-are-elsewhere", "leaves-endpoints-outside-of-pod-cidrs-out"},
)
def test_endpoints_at_node_addresses_are_used(three_zones: Cluster) -> None:
    a1, b1 = three_zones.run_servers(on=["a1", "b1"], host_network=True)
    questions = []
    for protocol in ("TCP", "UDP"):
        ports = [Port(80, protocol)]
        near = three_zones.create_service(type="NodePort", ports=ports, traffic_distribution="PreferClose")
        local = three_zones.create_service(
            type="NodePort", ports=ports, internal_traffic_policy="Local", external_traffic_policy="Local"
        )
        three_zones.publish(near, [same_zone(a1), same_zone(b1)])
        three_zones.publish(local, [endpoint(a1), endpoint(b1)])
        inside: Traffic = {"a1": {a1}, "a2": {a1}, node_client("a1"): {a1}, node_client("b2"): {b1}, "c1": {a1, b1}}
        outside: Traffic = {external_client("a1"): {a1}, external_client("b2"): {b1}}
        here: Traffic = {external_client("a1"): {a1}, external_client("b2"): NO_ANSWER}
        questions += [
            ExpectedTraffic(f"hints at the cluster IP over {protocol}", near, inside),
            ExpectedTraffic(f"hints at node ports over {protocol}", near, outside, to="node-port"),
            ExpectedTraffic(
                f"Local at the cluster IP over {protocol}", local, {"a1": {a1}, "b1": {b1}, "c1": NO_ANSWER}
            ),
            ExpectedTraffic(f"Local at node ports over {protocol}", local, here, to="node-port"),
        ]
    expect_concurrent_traffic(three_zones, questions, rates=RATES)


@requirement(
    "SLICE/first-address-of-an-endpoint-is-used",
    "A proxy uses the first address of an endpoint with several addresses.",
    level=SHOULD,  # additional addresses have no defined semantics; kube-proxy is documented to ignore them
    features={CLUSTER_IP},
    source="discovery/v1 Endpoint.addresses (no semantics for additional addresses; kube-proxy does not look at them)",
    kills={"uses-every-address"},
)
def test_first_address_of_an_endpoint_is_used(three_zones: Cluster) -> None:
    service = three_zones.create_service(ipFamilies=["IPv4"])
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    both = {"addresses": [a1.addresses["IPv4"], b1.addresses["IPv4"]]}
    three_zones.publish(service, [endpoint(a1, extra=both), endpoint(c1)])

    expect_traffic(three_zones, service, {"a2": {a1, c1}, "b1": {a1, c1}})


@requirement(
    "SLICE/slices-of-names-are-not-used",
    "A Service gets no endpoints from slices with address type FQDN, whatever their addresses look like; while it has "
    "such slices, changes to its other slices take effect.",
    level=MUST,
    features={CLUSTER_IP},
    source="discovery/v1 EndpointSlice.addressType (kube-proxy and others do not process FQDN); Endpoint.addresses",
    kills={"reads-slices-of-names", "stops-at-slices-of-names"},
)
def test_slices_of_names_are_not_used(three_zones: Cluster) -> None:
    service = three_zones.create_service(ipFamilies=["IPv4"])
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    three_zones.publish(service, [endpoint(a1)])
    for name, address in (("numbers", b1.addresses["IPv4"]), ("names", "web.example.org")):
        named = endpoint(b1, extra={"addresses": [address]})
        slice_name = f"{service.name}-{name}"
        written = manifests.endpoint_slice(slice_name, service.name, [named], ports=service.ports)
        three_zones.api.create("endpointslices", three_zones.namespace, {**written, "addressType": "FQDN"})

    expect_traffic(three_zones, service, {"a2": {a1}, "b1": {a1}})
    three_zones.publish(service, [endpoint(c1)])
    expect_traffic(three_zones, service, {"a2": {c1}, "b1": {c1}})


@requirement(
    "SLICE/large-slices-are-read-whole",
    "A proxy uses the ready endpoints of a slice with 1,000 endpoints, whether they are first or last in the slice, "
    "and uses other endpoints when these become ready instead.",
    level=MUST,
    features={CLUSTER_IP},
    source="discovery/v1 EndpointSlice.endpoints (a maximum of 1000 endpoints); EndpointConditions.ready",
    kills={"first-hundred-of-a-slice"},
)
def test_large_slices_are_read_whole(three_zones: Cluster) -> None:
    service = three_zones.create_service(ipFamilies=["IPv4"])
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    starting = [Endpoint({"IPv4": f"198.18.{number // 250}.{number % 250 + 1}"}, ready=False) for number in range(997)]
    for used in (b1, c1):
        ready = [placeless(each, ready=each in (a1, used)) for each in (a1, b1, c1)]
        three_zones.publish(service, [ready[0], *starting, *ready[1:]])
        expect_traffic(three_zones, service, {"a2": {a1, used}, "c1": {a1, used}}, rates=RATES)


@requirement(
    "SERVICE/namespaces-are-apart",
    "Services with the same name in two namespaces each have their own ports, policy and endpoints, and one is still "
    "served after the other is deleted.",
    level=MUST,
    features={CLUSTER_IP, INTERNAL_POLICY},
    source="Kubernetes, Namespaces (names of resources need to be unique within a namespace, but not across)",
    kills={"ignores-internal-local", "looks-at-no-namespace"},
)
def test_namespaces_are_apart(three_zones: Cluster) -> None:
    service = three_zones.create_service("alike", internal_traffic_policy="Local")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    with namespace_beside(three_zones) as beside:
        wanted = manifests.service("alike", ports=[Port(81)])
        other = Service(three_zones.api.create("services", beside, wanted), (Port(81),))
        slice_name, family = f"{service.name}-slice-beside", other.object["spec"]["ipFamilies"][0]
        written = manifests.endpoint_slice(slice_name, "alike", [endpoint(b1)], family=family, ports=[Port(81)])
        three_zones.api.create("endpointslices", beside, written)
        own = ExpectedTraffic("this namespace", service, {"a1": {a1}, "b1": NO_ANSWER})
        expect_concurrent_traffic(
            three_zones, [own, ExpectedTraffic("another one", other, {"a1": {b1}, "b1": {b1}})], rates=RATES
        )
    expect_concurrent_traffic(three_zones, [own], rates=RATES)
