"""The endpoint that the controller writes for one pod."""

from __future__ import annotations

from typing import Any

import pytest

from reference.client import Object
from reference.endpointslice.endpoints import (
    ExcludedPod,
    address_types,
    endpoint_ports,
    pod_addresses,
    port_key,
    projection,
)
from tests.reference.endpointslice.objects import (
    addresses,
    endpoints,
    make_node,
    make_pod,
    make_service,
    plan,
    slices_for,
)


def the_endpoint(service: Object, pod: Object, **options: Any) -> Object:
    (endpoint,) = endpoints(slices_for(service, [pod], **options))
    return endpoint


def test_endpoint_names_address_node_zone_and_pod() -> None:
    assert the_endpoint(make_service(), make_pod("p1", "b2", ips=["10.244.4.7"])) == {
        "addresses": ["10.244.4.7"],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "nodeName": "b2",
        "zone": "b",
        "targetRef": {"kind": "Pod", "namespace": "default", "name": "p1", "uid": "uid-of-p1"},
    }


@pytest.mark.parametrize("publish", [False, True])
@pytest.mark.parametrize(
    ("serving", "terminating", "ready"),
    [(True, False, True), (True, True, False), (False, False, False), (False, True, False)],
)
def test_ready_is_serving_and_not_terminating_or_published_anyway(
    serving: bool, terminating: bool, ready: bool, publish: bool
) -> None:
    service = make_service(publishNotReadyAddresses=publish)
    endpoint = the_endpoint(service, make_pod(ready=serving, terminating=terminating))
    assert endpoint["conditions"] == {"ready": ready or publish, "serving": serving, "terminating": terminating}


def test_pod_without_a_ready_condition_is_not_serving() -> None:
    pod = make_pod()
    pod["status"]["conditions"] = [{"type": "Initialized", "status": "True"}]
    assert the_endpoint(make_service(), pod)["conditions"]["serving"] is False


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_has_ended_is_left_out(phase: str) -> None:
    planned = plan(make_service(), [make_pod(phase=phase)])
    assert not planned.missing_nodes
    assert not endpoints(planned.create)


def test_pod_without_ip_is_left_out() -> None:
    planned = plan(make_service(), [make_pod(ips=[])])
    assert not endpoints(planned.create)
    assert not planned.missing_nodes


def test_pod_on_a_missing_node_is_left_out_and_reported() -> None:
    planned = plan(make_service(), [make_pod("p1", "gone"), make_pod("p2", "a1")])
    assert [each["targetRef"]["name"] for each in endpoints(planned.create)] == ["p2"]
    assert planned.missing_nodes == (ExcludedPod("p1", "gone"),)
    assert planned.failure == "pods left out because their Node does not exist: p1 (node 'gone')"


def test_pod_on_a_missing_node_is_kept_without_zone_if_not_ready_addresses_are_published() -> None:
    planned = plan(make_service(publishNotReadyAddresses=True), [make_pod("p1", "gone")])
    (endpoint,) = endpoints(planned.create)
    assert (endpoint["nodeName"], "zone" in endpoint) == ("gone", False)
    assert not planned.missing_nodes


@pytest.mark.parametrize("zone", ["", None])
def test_endpoint_has_no_zone_if_its_node_has_none(zone: str | None) -> None:
    nodes = {"a1": make_node("a1", "")}
    if zone == "":
        nodes["a1"]["metadata"]["labels"]["topology.kubernetes.io/zone"] = ""
    assert "zone" not in the_endpoint(make_service(), make_pod(), nodes=nodes)


@pytest.mark.parametrize(
    ("hostname", "subdomain", "expected"),
    [("db-0", "web", "db-0"), ("db-0", "other", None), ("db-0", "", None), ("", "web", None)],
)
def test_hostname_is_set_if_the_subdomain_is_the_service(hostname: str, subdomain: str, expected: str | None) -> None:
    pod = make_pod(hostname=hostname, subdomain=subdomain)
    assert the_endpoint(make_service(clusterIP="None"), pod).get("hostname") == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"ipFamilies": ["IPv4"]}, ("IPv4",)),
        ({"ipFamilies": ["IPv6"]}, ("IPv6",)),
        ({"ipFamilies": ["IPv6", "IPv4"]}, ("IPv4", "IPv6")),
        ({"ipFamilies": [], "clusterIP": "fd00:10:96::1"}, ("IPv6",)),
        ({"ipFamilies": [], "clusterIP": "10.96.0.1"}, ("IPv4",)),
        ({"ipFamilies": [], "clusterIP": "None"}, ("IPv4", "IPv6")),
    ],
)
def test_families_follow_ip_families_then_the_cluster_ip(spec: Object, expected: tuple[str, ...]) -> None:
    assert address_types(make_service(**spec)) == expected


def test_dual_stack_service_has_one_set_of_slices_for_each_family() -> None:
    service = make_service(ipFamilies=["IPv4", "IPv6"])
    slices = slices_for(service, [make_pod(ips=["10.244.1.1", "fd00:10:244:1::1"])])
    assert {each["addressType"]: addresses([each]) for each in slices} == {
        "IPv4": ["10.244.1.1"],
        "IPv6": ["fd00:10:244:1::1"],
    }


def test_pod_without_an_address_of_a_family_is_only_in_the_other() -> None:
    slices = slices_for(make_service(ipFamilies=["IPv4", "IPv6"]), [make_pod(ips=["10.244.1.1"])])
    assert {each["addressType"]: addresses([each]) for each in slices} == {"IPv4": ["10.244.1.1"], "IPv6": []}


@pytest.mark.parametrize(
    ("ip", "family", "expected"),
    [
        ("10.244.001.009", "IPv4", ["10.244.1.9"]),
        ("FD00:10:244:0:0::1", "IPv6", ["fd00:10:244::1"]),
        ("::ffff:10.0.0.1", "IPv4", ["10.0.0.1"]),
        ("fe80::1%eth0", "IPv6", []),
        ("no address", "IPv4", []),
    ],
)
def test_addresses_are_written_in_canonical_form(ip: str, family: Any, expected: list[str]) -> None:
    assert pod_addresses(make_pod(ips=[ip]), family) == expected


def test_pod_ip_counts_when_there_are_no_pod_ips() -> None:
    pod = make_pod()
    del pod["status"]["podIPs"]
    assert addresses(slices_for(make_service(), [pod])) == ["10.244.1.1"]


def service_port(**fields: Any) -> Object:
    return make_service(ports=[{"name": "http", "protocol": "TCP", "port": 80, **fields}])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"targetPort": 8080}, {"name": "http", "port": 8080, "protocol": "TCP"}),
        ({}, {"name": "http", "port": 80, "protocol": "TCP"}),
        ({"name": ""}, {"name": "", "port": 80, "protocol": "TCP"}),
        ({"protocol": "UDP"}, {"name": "http", "port": 80, "protocol": "UDP"}),
        ({"appProtocol": "h2c"}, {"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "h2c"}),
        ({"targetPort": "web"}, {"name": "http", "port": 8081, "protocol": "TCP"}),
        ({"targetPort": "web", "protocol": "UDP"}, {"name": "http", "port": 8082, "protocol": "UDP"}),
        ({"targetPort": "sidecar"}, {"name": "http", "port": 8083, "protocol": "TCP"}),
    ],
)
def test_port_is_the_target_port_of_the_pod(fields: Object, expected: Object) -> None:
    pod = make_pod(
        ports=[
            {"name": "web", "containerPort": 8081},
            {"name": "web", "containerPort": 8082, "protocol": "UDP"},
        ],
        initContainers=[
            {"name": "once", "ports": [{"name": "sidecar", "containerPort": 9}]},
            {"name": "proxy", "restartPolicy": "Always", "ports": [{"name": "sidecar", "containerPort": 8083}]},
        ],
    )
    assert endpoint_ports(service_port(**fields), pod) == [expected]


def test_port_name_that_the_pod_lacks_is_left_out() -> None:
    service = make_service(ports=[{"name": "x", "port": 1, "targetPort": "no"}, {"name": "y", "port": 2}])
    assert endpoint_ports(service, make_pod()) == [{"name": "y", "port": 2, "protocol": "TCP"}]


def test_pods_with_different_port_sets_are_in_different_slices() -> None:
    service = service_port(targetPort="web")
    pods = [
        make_pod("p1", ips=["10.244.1.1"], ports=[{"name": "web", "containerPort": 8081}]),
        make_pod("p2", ips=["10.244.1.2"], ports=[{"name": "web", "containerPort": 8082}]),
        make_pod("p3", ips=["10.244.1.3"], ports=[{"name": "web", "containerPort": 8081}]),
    ]
    found = {each["ports"][0]["port"]: addresses([each]) for each in slices_for(service, pods)}
    assert found == {8081: ["10.244.1.1", "10.244.1.3"], 8082: ["10.244.1.2"]}


def test_port_sets_are_equal_whatever_order_and_spelled_out_defaults() -> None:
    spelled = [{"name": "", "port": 2, "protocol": "TCP"}, {"name": "a", "port": 1, "protocol": "UDP"}]
    assert port_key(spelled) == port_key([{"name": "a", "port": 1, "protocol": "UDP"}, {"port": 2}])


def test_two_pods_with_the_same_address_are_two_endpoints() -> None:
    pods = [make_pod("p1", ips=["10.0.0.1"]), make_pod("p2", ips=["10.0.0.1"])]
    assert addresses(slices_for(make_service(), pods)) == ["10.0.0.1", "10.0.0.1"]


@pytest.mark.parametrize(
    "change",
    [
        {"ready": False},
        {"terminating": True},
        {"node": "a2"},
        {"ips": ["10.244.1.9"]},
        {"phase": "Failed"},
        {"hostname": "h"},
        {"subdomain": "web"},
        {"labels": {"app": "web", "more": "x"}},
    ],
)
def test_projection_differs_with_all_that_slices_depend_on(change: Any) -> None:
    assert projection(make_pod(**change)) != projection(make_pod())


def test_projection_ignores_fields_that_slices_do_not_contain() -> None:
    pod = make_pod()
    pod["status"]["startTime"] = "2026-01-01T00:00:00Z"
    pod["metadata"]["resourceVersion"] = "77"
    assert projection(pod) == projection(make_pod())
