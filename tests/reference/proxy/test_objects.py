"""Parsing of Kubernetes objects, with Kubernetes' defaults for missing fields."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.release import PROXY
from harness.model.release_features import lacking
from reference.client import Object
from reference.features import Features, parse_version
from reference.proxy.decision import Behaviour, Endpoint, OwnNode, ServicePort
from reference.proxy.objects import DEPRECATED_ANNOTATION, Node, read_node, read_slice, service_ports


def service(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    spec = {"clusterIP": "10.96.0.1", "ports": [{"port": 80, "protocol": "TCP"}], **spec}
    metadata = {"namespace": "default", "name": "web", "labels": labels or {}, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": spec}


def slice_of(*endpoints: Object, **fields: Any) -> Object:
    return {
        "metadata": {"namespace": "default", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": list(endpoints),
        **fields,
    }


def only_endpoint(obj: Object) -> Endpoint:
    read = read_slice(slice_of(obj))
    assert read is not None
    (endpoint,) = read.endpoints(("", "TCP"))
    return endpoint


def test_a_plain_service_has_one_port_in_one_family() -> None:
    port = ServicePort("default", "web", "", "TCP", 80, cluster_ips=("10.96.0.1",))

    assert service_ports(service()) == {"IPv4": [port]}


def test_a_dual_stack_service_has_each_familys_addresses_in_that_family() -> None:
    both = service(
        clusterIPs=["10.96.0.1", "fd00:10:96::1"],
        externalIPs=["198.19.1.1", "fd00:198:19:1:0::1"],
        ports=[{"name": "http", "port": 80, "nodePort": 30080}],
    )

    ports = service_ports(both)

    assert (ports["IPv4"][0].cluster_ips, ports["IPv4"][0].external_ips) == (("10.96.0.1",), ("198.19.1.1",))
    assert (ports["IPv6"][0].cluster_ips, ports["IPv6"][0].external_ips) == (("fd00:10:96::1",), ("fd00:198:19:1::1",))
    assert ports["IPv6"][0].node_port == 30080


@pytest.mark.parametrize(
    "obj",
    [
        service(clusterIP="None"),
        service(clusterIP=""),
        service(type="ExternalName"),
        service({"service.kubernetes.io/headless": ""}),
        service({"service.kubernetes.io/service-proxy-name": "other"}),
    ],
)
def test_headless_external_name_and_foreign_services_have_no_ports(obj: Object) -> None:
    assert service_ports(obj) == {}


def test_load_balancer_ips_count_unless_the_load_balancer_is_a_proxy() -> None:
    ingress = [{"ip": "198.18.1.1"}, {"ip": "198.18.1.2", "ipMode": "VIP"}, {"ip": "198.18.1.3", "ipMode": "Proxy"}]
    balanced = service() | {"status": {"loadBalancer": {"ingress": [*ingress, {"hostname": "lb.example"}]}}}

    assert service_ports(balanced)["IPv4"][0].load_balancer_ips == ("198.18.1.1", "198.18.1.2")


def test_source_ranges_are_those_of_the_family_of_a_load_balancer() -> None:
    ranges = ["10.0.0.7/8 ", "fd00::/8", "192.0.2.1/32"]

    balanced = service_ports(service(type="LoadBalancer", loadBalancerSourceRanges=ranges))
    inside = service_ports(service(type="ClusterIP", loadBalancerSourceRanges=ranges))

    assert balanced["IPv4"][0].source_ranges == ("10.0.0.0/8", "192.0.2.1/32")
    assert inside["IPv4"][0].source_ranges == ()


def test_a_present_deprecated_annotation_hides_the_new_one() -> None:
    both = {DEPRECATED_ANNOTATION: "", "service.kubernetes.io/topology-mode": "Auto"}

    assert service_ports(service(annotations=both))["IPv4"][0].topology_annotation == ""


def test_missing_conditions_mean_ready_serving_and_not_terminating() -> None:
    assert only_endpoint({"addresses": ["10.244.1.2"]}) == Endpoint("10.244.1.2", 8080)


def test_only_the_first_address_of_an_endpoint_counts() -> None:
    assert only_endpoint({"addresses": ["10.244.1.2", "10.244.1.3"]}).address == "10.244.1.2"


@pytest.mark.parametrize("hints", [None, {}, {"forZones": []}, {"forZones": None}])
def test_empty_hints_are_no_hints(hints: Any) -> None:
    assert only_endpoint({"addresses": ["10.244.1.2"], "hints": hints}).zone_hints == frozenset()


def test_hints_are_sets_of_names() -> None:
    hints = {"forZones": [{"name": "a"}, {"name": "b"}, {"name": "a"}], "forNodes": [{"name": "a1"}]}

    endpoint = only_endpoint({"addresses": ["10.244.1.2"], "hints": hints, "zone": "c", "nodeName": "c1"})

    assert (endpoint.zone_hints, endpoint.node_hints, endpoint.node) == ({"a", "b"}, {"a1"}, "c1")


def test_each_port_of_a_slice_has_the_endpoints_with_its_number() -> None:
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2, "protocol": "UDP"}, {"name": "none", "port": None}]

    read = read_slice(slice_of({"addresses": ["10.244.1.2"]}, ports=ports))

    assert read is not None
    assert {key: [each.port for each in read.endpoints(key)] for key in read.numbers} == {
        ("a", "TCP"): [1],
        ("b", "UDP"): [2],
    }


def test_slices_without_service_of_host_names_or_for_other_proxies_are_ignored() -> None:
    foreign = slice_of()
    foreign["metadata"]["labels"]["service.kubernetes.io/headless"] = ""

    assert read_slice(slice_of(metadata={"namespace": "default", "name": "x"})) is None
    assert read_slice(slice_of(addressType="FQDN")) is None
    assert read_slice(foreign) is None


def test_invalid_address_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match=r"'10\.244\.1\.300' is not an IP address"):
        only_endpoint({"addresses": ["10.244.1.300"]})


def test_node_has_zone_addresses_and_pod_cidrs() -> None:
    node = {
        "metadata": {"name": "a1", "labels": {"topology.kubernetes.io/zone": "a", "kubernetes.io/hostname": "x"}},
        "spec": {"podCIDRs": ["10.244.1.0/24"]},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}, {"type": "Hostname", "address": "x"}]},
    }

    assert read_node(node) == Node(OwnNode("a1", "a"), ("10.0.0.2",), ("10.244.1.0/24",))
    assert read_node({"metadata": {"name": "a1"}}) == Node(OwnNode("a1", ""))


@pytest.mark.parametrize(
    ("version", "gates", "served"),
    [("1.35", {}, True), ("1.38", {}, True), ("1.40", {}, False), ("1.40", {"AllowServiceExternalIPs": True}, True)],
)
def test_proxies_of_1_40_leave_external_ips_alone_by_default(
    version: str, gates: dict[str, bool], *, served: bool
) -> None:
    behaviour = Behaviour.of(Features(parse_version(version), gates))
    ports = service_ports(service(externalIPs=["198.18.0.7"]), behaviour)["IPv4"]
    assert [bool(port.external_ips) for port in ports] == [served]
    assert ("ExternalIPs" in lacking(version, gates, PROXY)) is not served
