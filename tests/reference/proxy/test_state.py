"""The state of a node's proxy and its decisions, without a kernel."""

from __future__ import annotations

from typing import Any

import pytest

from reference.client import Object
from reference.proxy.decision import NEWEST, Forward
from reference.proxy.state import LocalEndpoints, State

FRONTEND = ("10.96.0.1", "TCP", 80)


def make_service(name: str = "web", **spec: Any) -> Object:
    spec = {"clusterIP": "10.96.0.1", "ports": [{"port": 80, "protocol": "TCP"}], **spec}
    return {"metadata": {"namespace": "default", "name": name}, "spec": spec}


def slice_with(*addresses: str, family: str = "IPv4") -> Object:
    labels = {"kubernetes.io/service-name": "web"}
    return {
        "metadata": {"namespace": "default", "name": f"web-{family}", "labels": labels},
        "addressType": family,
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address]} for address in addresses],
    }


def state_with(*slices: Object) -> State:
    state = State("a1", NEWEST)
    state.receive("services", make_service(), deleted=False)
    for each in slices:
        state.receive("endpointslices", each, deleted=False)
    state.compute()
    return state


def targets(state: State) -> Any:
    return dict(state.ruleset("IPv4", ()).services)


def test_unreadable_slice_does_not_change_the_rules() -> None:
    state = state_with(slice_with("10.244.1.2"))

    state.receive("endpointslices", slice_with("10.244.1.300"), deleted=False)
    state.compute()

    assert targets(state) == {FRONTEND: (("10.244.1.2", 8080),)}
    assert "'10.244.1.300' is not an IP address" in str(state.unreadable["default", "web"])


def test_unreadable_slice_explains_only_its_own_service() -> None:
    state = state_with(slice_with("10.244.1.300"))
    state.receive("services", make_service("other"), deleted=False)
    state.compute()

    assert "cannot be read, so the rules are unchanged: '10.244.1.300' is" in state.explain("default", "web")
    assert list(state.decisions()) == ["default/other:80/TCP IPv4"]


def test_a_service_that_could_be_read_in_part_leaves_nothing_behind() -> None:
    state = State("a1", NEWEST)
    state.receive("endpointslices", slice_with("10.244.1.2"), deleted=False)
    state.receive("endpointslices", slice_with("fd00::g", family="IPv6"), deleted=False)
    dual = make_service(clusterIPs=["10.96.0.1", "fd00:10:96::1"])
    state.receive("services", dual, deleted=False)
    state.compute()
    assert (targets(state), list(state.unreadable)) == ({}, [("default", "web")])

    state.receive("services", dual, deleted=True)
    state.compute()
    assert targets(state) == {}


def test_health_check_port_moves_to_its_next_service_for_any_order_of_changes() -> None:
    state = State("a1", NEWEST)
    checked = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000}
    state.receive("services", make_service("old", **checked), deleted=False)
    state.compute()
    state.health_checks.clear()

    state.receive("services", make_service("new"), deleted=False)
    state.receive("services", make_service("old", **checked), deleted=True)
    state.receive("services", make_service("new", **checked), deleted=False)
    state.compute()

    assert state.health_checks == {31000: LocalEndpoints("default", "new", {"IPv4": 0})}


def test_slices_may_come_before_their_service() -> None:
    state = State("a1", NEWEST)
    state.receive("endpointslices", slice_with("10.244.1.2"), deleted=False)
    state.compute()
    assert targets(state) == {}

    assert targets(state_with(slice_with("10.244.1.2"))) == {FRONTEND: (("10.244.1.2", 8080),)}


def test_unreadable_node_changes_nothing() -> None:
    state = state_with(slice_with("10.244.1.2"))
    labels = {"topology.kubernetes.io/zone": "a"}
    node: Object = {"metadata": {"name": "a1", "labels": labels}}
    odd = {**node, "status": {"addresses": [{"type": "InternalIP", "address": "a1.example"}]}}

    with pytest.raises(ValueError, match="not an IP address"):
        state.receive("nodes", odd, deleted=False)

    assert state.explain("default", "web").startswith("node a1, zone (none)")


def test_decisions_are_reported_for_each_service_port() -> None:
    state = state_with(slice_with("10.244.1.2", "10.244.2.2"))

    (told,) = state.decisions().values()

    assert isinstance(told.cluster_ip, Forward)
    assert "all 2 ready endpoints" in state.explain("default", "web")


def test_only_changed_slices_trigger() -> None:
    def triggered_by(each: Object, second: int) -> Object:
        annotations = {"endpoints.kubernetes.io/last-change-trigger-time": f"1970-01-01T00:00:0{second}Z"}
        return {**each, "metadata": {**each["metadata"], "annotations": annotations}}

    state = state_with(triggered_by(slice_with("10.244.1.2"), 1))
    for each in (
        triggered_by(slice_with("10.244.1.2"), 2),  # unchanged
        slice_with("10.244.1.2", "10.244.1.3"),  # changed, without a time
        triggered_by(slice_with("fd00:10:244::2", family="IPv6"), 3),
        triggered_by(slice_with("10.244.1.3"), 4),
    ):
        state.receive("endpointslices", each, deleted=False)
    assert state.triggered == [("IPv4", 1.0), ("IPv6", 3.0), ("IPv4", 4.0)]
