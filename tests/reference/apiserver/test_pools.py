from __future__ import annotations

from typing import Any

import pytest

from reference.apiserver import ApiServer
from reference.apiserver.pools import AddressPool, ExhaustedError, NumberPool, Pools, band
from reference.client import ApiError
from reference.features import Features
from tests.reference.api_server_calls import patched


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def test_freed_number_is_reused_last() -> None:
    pool = NumberPool(1, 3)
    assert [pool.take_any(), pool.take_any()] == [1, 2]
    pool.give(1)
    assert [pool.take_any(), pool.take_any()] == [3, 1]
    with pytest.raises(ExhaustedError):
        pool.take_any()


def test_freed_number_ahead_is_skipped() -> None:
    pool = NumberPool(1, 3)
    pool.take(1)
    pool.give(1)
    assert pool.take_any() == 2


def test_freed_number_of_the_upper_band_comes_before_the_lower_band() -> None:
    pool = NumberPool(1, 4, start=3)
    assert [pool.take_any(), pool.take_any()] == [3, 4]
    for number in (4, 3):
        pool.give(number)
    assert [pool.take_any() for _ in range(4)] == [4, 3, 1, 2]
    for number in (1, 3):
        pool.give(number)
    assert [pool.take_any(), pool.take_any()] == [3, 1]
    with pytest.raises(ExhaustedError):
        pool.take_any()


def test_low_addresses_are_used_last() -> None:
    pool = AddressPool("10.96.0.0/27")
    assert pool.take("") == "10.96.0.17"
    assert [pool.take("") for _ in range(14)][-1] == "10.96.0.1"


def test_low_node_ports_are_used_last() -> None:
    pool = Pools([], Features()).ports
    assert pool.take(30000)
    assert [pool.take_any() for _ in range(30086, 32768)] == list(range(30086, 32768))
    assert pool.take_any() == 30001


def test_api_server_leaves_low_node_ports_to_those_who_name_them() -> None:
    for minor, first in ((27, 30000), (28, 30086), (37, 30086)):
        api = ApiServer(Features((1, minor)))
        assert api.create("services", "default", service("a", type="NodePort"))["spec"]["ports"][0]["nodePort"] == first
        named = service("b", type="NodePort", ports=[{"port": 80, "nodePort": 30085}])
        assert api.create("services", "default", named)["spec"]["ports"][0]["nodePort"] == 30085


@pytest.mark.parametrize(
    ("size", "reserved"), [(1, 0), (16, 0), (17, 16), (128, 16), (544, 17), (2768, 86), (4096, 128), (65536, 128)]
)
def test_band_of_node_ports_is_a_thirty_second_of_the_range_within_limits(size: int, reserved: int) -> None:
    assert band(size, 32, 128) == reserved


def test_network_and_broadcast_address_are_not_valid() -> None:
    pool = AddressPool("10.96.0.0/28")
    for address in ("10.96.0.0", "10.96.0.15", "10.97.0.1"):
        with pytest.raises(ValueError, match="is not in the valid range"):
            pool.take(address)


def test_new_service_does_not_get_the_address_of_a_deleted_one(api: ApiServer) -> None:
    first = api.create("services", "default", service("a"))["spec"]["clusterIP"]
    api.delete("services", "default", "a")
    assert api.create("services", "default", service("a"))["spec"]["clusterIP"] != first


def test_dual_stack_service_gets_an_address_of_each_family(api: ApiServer) -> None:
    spec = api.create("services", "default", service("a", ipFamilyPolicy="RequireDualStack"))["spec"]
    assert spec["clusterIPs"][0].startswith("10.96.")
    assert spec["clusterIPs"][1].startswith("fd00:10:96::")


def test_requested_address_is_honoured_once(api: ApiServer) -> None:
    assert api.create("services", "default", service("a", clusterIP="10.96.7.7"))["spec"]["clusterIPs"] == ["10.96.7.7"]
    with pytest.raises(ApiError, match="provided IP is already allocated") as refused:
        api.create("services", "default", service("b", clusterIP="10.96.7.7"))
    assert refused.value.status["details"]["causes"][0]["field"] == "spec.clusterIPs"


def test_refused_and_dry_run_writes_allocate_nothing(api: ApiServer) -> None:
    ports = [{"port": 80, "nodePort": 30001}]
    api.create("services", "default", service("a", type="NodePort", ports=ports))
    for _ in range(2):  # if a rejected write kept its address, the second attempt would fail differently
        with pytest.raises(ApiError, match="provided port is already allocated"):
            api.create("services", "default", service("b", type="NodePort", ports=ports, clusterIP="10.96.9.9"))
    assert api.create("services", "default", service("c", clusterIP="10.96.9.9"))


def test_node_port_out_of_range_is_refused(api: ApiServer) -> None:
    with pytest.raises(ApiError, match="The range of valid ports is 30000-32767") as refused:
        api.create("services", "default", service("a", type="NodePort", ports=[{"port": 80, "nodePort": 80}]))
    assert refused.value.status["details"]["causes"][0]["field"] == "spec.ports[0].nodePort"


def test_tcp_and_udp_of_one_port_share_the_node_port(api: ApiServer) -> None:
    ports = [{"port": 53, "name": "t"}, {"port": 53, "name": "u", "protocol": "UDP"}, {"port": 80, "name": "h"}]
    created = api.create("services", "default", service("a", type="NodePort", ports=ports))
    tcp, udp, other = (each["nodePort"] for each in created["spec"]["ports"])
    assert tcp == udp != other


def test_update_keeps_address_and_node_port(api: ApiServer) -> None:
    created = api.create("services", "default", service("a", type="NodePort"))
    patched(api, "services", "default", "a", {"metadata": {"labels": {"x": "y"}}})
    assert api.get("services", "default", "a")["spec"] == created["spec"]


def test_change_of_type_frees_the_node_port(api: ApiServer) -> None:
    port = api.create("services", "default", service("a", type="NodePort"))["spec"]["ports"][0]["nodePort"]
    api.update("services", "default", service("a", type="ClusterIP"))
    other = service("b", type="NodePort", ports=[{"port": 80, "nodePort": port}])
    assert api.create("services", "default", other)["spec"]["ports"][0]["nodePort"] == port


def test_local_load_balancer_gets_a_health_check_port(api: ApiServer) -> None:
    local = service("a", type="LoadBalancer", externalTrafficPolicy="Local")
    spec = api.create("services", "default", local)["spec"]
    assert 30000 <= spec["healthCheckNodePort"] <= 32767
    assert spec["healthCheckNodePort"] != spec["ports"][0]["nodePort"]
