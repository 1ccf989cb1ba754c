"""The running controller with a real API server."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from reference.client import Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.plan import plan_service
from reference.features import Features
from tests.reference.api_server_calls import listed, patched
from tests.reference.endpointslice.objects import addresses, endpoints, make_node, release
from tests.reference.endpointslice.running_controller import RunningController, failing

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"


def test_objects_from_before_the_start_are_processed() -> None:
    live = RunningController()
    live.create_service()
    live.run_pod()
    with live:
        assert live.pods_in_slices() == ["p1"]


def test_controller_is_not_synced_before_it_has_seen_the_state() -> None:
    assert not EndpointSliceController(RunningController().api).synced()


def test_readiness_shows_in_the_slice_as_soon_as_the_controller_is_synced() -> None:
    with RunningController() as live:
        live.create_service()
        live.run_pod()
        for ready in (False, True) * 50:
            live.set_ready("p1", ready=ready)
            assert live.the_endpoint()["conditions"]["ready"] is ready


def test_deleted_pod_is_terminating_and_then_gone() -> None:
    with RunningController() as live:
        live.create_service()
        live.run_pod()
        live.api.delete("pods", "default", "p1")
        assert live.the_endpoint()["conditions"] == {"ready": False, "serving": True, "terminating": True}
        live.api.delete("pods", "default", "p1", grace_seconds=0)
        assert live.pods_in_slices() == []


def test_hints_follow_the_field() -> None:
    with RunningController() as live:
        live.create_service()
        live.run_pod()
        assert "hints" not in live.the_endpoint()
        live.change_service(trafficDistribution="PreferSameNode")
        assert live.the_endpoint()["hints"] == {"forZones": [{"name": "a"}], "forNodes": [{"name": "a1"}]}
        live.change_service(trafficDistribution=None)
        assert "hints" not in live.the_endpoint()


def test_controller_of_an_older_release_does_not_know_newer_values() -> None:
    with RunningController(features=release("1.33")) as live:
        live.create_service(trafficDistribution="PreferSameNode")
        live.run_pod()
        assert "hints" not in live.the_endpoint()


def test_slice_size_is_configurable() -> None:
    with RunningController(max_endpoints_per_slice=2) as live:
        live.create_service()
        for number in range(5):
            live.run_pod(f"p{number}", ips=[f"10.244.1.{number + 1}"])
        assert sorted(len(each["endpoints"]) for each in live.slices()) == [1, 2, 2]


def test_relabelled_node_changes_only_the_slices_of_its_pods() -> None:
    with RunningController() as live:
        live.create_service("web", trafficDistribution="PreferSameZone")
        live.create_service("db", selector={"app": "db"})
        live.run_pod("p1", "a1")
        live.run_pod("p2", "b1", ips=["10.244.2.1"], labels={"app": "db"})
        other = live.slices("db")
        live.label_node("a1", "z")
        assert (live.the_endpoint()["zone"], live.the_endpoint()["hints"]) == ("z", {"forZones": [{"name": "z"}]})
        assert live.slices("db") == other


def test_slices_of_a_deleted_service_are_deleted_and_come_back_with_it() -> None:
    with RunningController() as live:
        live.create_service()
        live.run_pod()
        assert live.slices()
        live.api.delete("services", "default", "web")
        assert live.slices() == []
        service = live.create_service()
        assert live.slices()[0]["metadata"]["ownerReferences"][0]["uid"] == service["metadata"]["uid"]


def test_slices_of_a_service_deleted_while_the_controller_was_away_are_deleted() -> None:
    with RunningController() as live:
        live.create_service()
        assert live.slices()
    live.api.delete("services", "default", "web")
    successor = EndpointSliceController(live.api)
    live.controller = successor
    with live:
        assert live.slices() == []


def foreign_slice(name: str = "by-hand") -> Object:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "web", MANAGED_BY: "me"}},
        "addressType": "IPv4",
        "ports": [],
        "endpoints": [{"addresses": ["10.1.1.1"]}],
    }


def test_foreign_slices_are_never_changed() -> None:
    with RunningController() as live:
        foreign = live.api.create("endpointslices", "default", foreign_slice())
        live.create_service()
        live.run_pod()
        live.api.delete("services", "default", "web")
        assert live.slices() == [foreign]


def test_changed_slice_is_corrected() -> None:
    with RunningController() as live:
        live.create_service()
        live.run_pod()
        (made,) = live.slices()
        live.api.update("endpointslices", "default", {**made, "endpoints": []})
        assert live.pods_in_slices() == ["p1"]


def test_deleted_slice_is_created_again() -> None:
    with RunningController() as live:
        live.create_service()
        live.run_pod()
        (made,) = live.slices()
        live.api.delete("endpointslices", "default", made["metadata"]["name"])
        assert live.pods_in_slices() == ["p1"]


def test_slice_taken_over_by_another_controller_is_replaced() -> None:
    with RunningController() as live:
        live.create_service()
        live.run_pod()
        (made,) = live.slices()
        name = made["metadata"]["name"]
        patched(live.api, "endpointslices", "default", name, {"metadata": {"labels": {MANAGED_BY: "me"}}})
        assert sorted(each["metadata"]["labels"][MANAGED_BY] for each in live.slices()) == [
            "endpointslice-controller.k8s.io",
            "me",
        ]


def test_pod_on_a_missing_node_is_reported_and_comes_in_with_its_node() -> None:
    with RunningController() as live:
        live.create_service()
        live.run_pod("p1", "c1")
        live.run_pod("p2", "a1", ips=["10.244.1.2"])
        assert live.pods_in_slices() == ["p2"]
        (failure,) = live.failures()
        assert "their Node does not exist: p1 (node 'c1')" in failure
        live.api.create("nodes", "", make_node("c1"))
        assert live.pods_in_slices() == ["p1", "p2"]


def test_pods_of_a_deleted_node_are_left_out() -> None:
    with RunningController() as live:
        live.create_service()
        live.run_pod("p1", "b1")
        assert live.pods_in_slices() == ["p1"]
        live.api.delete("nodes", "", "b1")
        assert live.pods_in_slices() == []


def test_slice_that_the_api_server_refuses_is_reported_once_and_not_waited_for() -> None:
    with RunningController() as live:
        live.create_service()
        live.run_pod("p1", ips=["127.0.0.1"])  # endpoints may not have loopback addresses
        live.run_pod("p2", ips=["10.244.1.2"])
        live.settle()
        (failure,) = live.failures()
        assert "Error updating Endpoint Slices for Service default/web" in failure
        assert "127.0.0.1" in failure
        live.api.delete("pods", "default", "p1", grace_seconds=0)
        assert live.pods_in_slices() == ["p2"]


def test_failure_is_a_warning_on_the_service() -> None:
    with RunningController() as live:
        service = live.create_service()
        live.run_pod("p1", "c1")
        live.settle()
        (event,) = listed(live.api, "events", "default")
        assert (event["type"], event["reason"], event["source"]["component"]) == (
            "Warning",
            "FailedToUpdateEndpointSlices",
            "endpoint-slice-controller",
        )
        assert event["involvedObject"]["uid"] == service["metadata"]["uid"]


def test_conflict_is_retried_on_the_newer_slice() -> None:
    with RunningController() as live:
        live.create_service()
        live.settle()

        def meddle(obj: Object) -> None:
            live.interrupted.before.clear()
            labels = {**obj["metadata"]["labels"], "meddled": "yes"}
            current = live.api.get("endpointslices", "default", obj["metadata"]["name"])
            live.api.update(
                "endpointslices", "default", {**current, "metadata": {**current["metadata"], "labels": labels}}
            )

        live.interrupted.before["update"] = meddle
        live.run_pod()
        assert live.pods_in_slices() == ["p1"]
        assert "meddled" not in live.slices()[0]["metadata"]["labels"]


@pytest.mark.parametrize("reason", ["InternalError", "ServiceUnavailable", "Timeout", "AlreadyExists"])
def test_transient_failures_are_retried(reason: str) -> None:
    with RunningController() as live:
        live.interrupted.before["create"] = failing([reason] * 4)
        live.create_service()
        live.run_pod()
        assert live.pods_in_slices() == ["p1"]
        assert live.failures() == [f"Error updating Endpoint Slices for Service default/web: refused: {reason}"]


def test_slice_deleted_meanwhile_is_not_a_failure() -> None:
    with RunningController() as live:
        live.create_service()
        live.settle()
        live.interrupted.before["delete"] = lambda obj: live.api.delete(
            "endpointslices", "default", obj["metadata"]["name"]
        )
        live.api.delete("services", "default", "web")
        assert live.slices() == []
        assert live.failures() == []


def test_changes_during_a_write_cause_one_more_write() -> None:
    with RunningController() as live:
        live.create_service()
        for number in range(20):
            live.run_pod(f"p{number}", ips=[f"10.244.1.{number + 1}"])
        live.settle()
        live.interrupted.writes.clear()
        with live.api.registry.store.lock:  # the controller receives events, but its writes wait
            for number in range(20):
                live.set_ready(f"p{number}", ready=False)
        assert not any(each["conditions"]["ready"] for each in endpoints(live.slices()))
        assert live.interrupted.writes in (["update"], ["update", "update"])


def test_idle_controller_writes_nothing() -> None:
    with RunningController() as live:
        live.create_service("web", trafficDistribution="PreferSameNode")
        live.create_service("odd", clusterIP="None", ports=[])
        live.run_pod()
        before = (live.slices(), live.slices("odd"))
    live.controller = EndpointSliceController(live.interrupted)
    live.interrupted.writes.clear()
    with live:
        live.change_service("web", sessionAffinity="ClientIP")
        assert (live.slices(), live.slices("odd")) == before
        assert live.interrupted.writes == []


def test_echo_of_an_own_write_causes_no_sync(caplog: pytest.LogCaptureFixture) -> None:
    with RunningController() as live:
        live.create_service()
        live.run_pod()
        live.settle()
        caplog.set_level(logging.DEBUG, "reference.endpointslice.controller")
        live.set_ready("p1", ready=False)
        live.settle()
        live.api.delete("services", "default", "web")
        live.settle()
        assert live.interrupted.writes[-2:] == ["update", "delete"]
        assert [each.getMessage() for each in caplog.records] == ["Service default/web: sync"] * 2


def test_stopped_controller_leaves_slices_and_writes_no_more() -> None:
    with RunningController() as live:
        live.create_service()
        live.run_pod()
        before = live.slices()
    live.set_ready("p1", ready=False)
    live.controller.stop()
    assert listed(live.api, "endpointslices", "default") == before


def test_controller_can_start_only_once() -> None:
    with RunningController() as live, pytest.raises(RuntimeError):
        live.controller.start()


def test_parallel_writers_create_the_same_slices_as_sequential_ones() -> None:
    with RunningController(max_endpoints_per_slice=7) as live:
        services = [live.create_service(f"web{n}", trafficDistribution="PreferSameNode") for n in range(5)]

        def work(number: int) -> None:
            for round_ in range(6):
                name = f"p{number}-{round_}"
                live.run_pod(name, ("a1", "b1")[number % 2], ips=[f"10.244.{number + 1}.{round_ + 1}"])
                live.set_ready(name, ready=round_ % 2 == 0)
                live.label_node("a1", "az"[round_ % 2])
                if round_ % 3 == 2:
                    live.api.delete("pods", "default", name, grace_seconds=0)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        nodes = {node["metadata"]["name"]: node for node in listed(live.api, "nodes")}
        pods = listed(live.api, "pods", "default")
        for service in services:
            slices = live.slices(service["metadata"]["name"])
            assert plan_service(service, pods, nodes, slices, features=Features(), max_endpoints=7).is_empty
            assert len(addresses(slices)) == 16


def test_time_of_a_change_outlives_a_conflict_and_ends_with_the_next_change() -> None:
    became_ready = "2026-01-02T03:04:05Z"
    annotation = "endpoints.kubernetes.io/last-change-trigger-time"
    with RunningController() as live:
        service = live.create_service()
        assert live.slices()[0]["metadata"]["annotations"] == {annotation: service["metadata"]["creationTimestamp"]}
        pod = live.run_pod("p1", ready=False)
        assert live.slices()[0]["metadata"].get("annotations", {}) == {}
        live.interrupted.before["update"] = failing(["Conflict"] * 2, code=409)
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": became_ready}]
        live.api.update_status("pods", "default", {**pod, "status": {**pod["status"], "conditions": conditions}})
        assert live.slices()[0]["metadata"]["annotations"] == {annotation: became_ready}

        live.api.delete("pods", "default", "p1")
        assert live.slices()[0]["metadata"].get("annotations", {}) == {}
