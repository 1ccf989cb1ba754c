"""The controller handles outages of the API server. Source: KEP-4444 and KEP-3015, Troubleshooting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.eventually import eventually
from reference.apiserver import ApiServer
from reference.client import Event, Object
from reference.client.reconnecting_client import ReconnectingClient
from reference.endpointslice import EndpointSliceController
from tests.reference.api_server_calls import listed
from tests.reference.endpointslice.objects import endpoints, make_node, release
from tests.reference.endpointslice.running_controller import RunningController


class ControllerWithOutages(RunningController):
    """A controller with an API server that tests stop and restart."""

    def __init__(self) -> None:
        super().__init__()
        self.client = ReconnectingClient(self.api)
        self.controller = EndpointSliceController(self.client, conditions=True)

    def replace(self, api: ApiServer) -> None:
        self.api = api
        self.client.connect(api)


@pytest.fixture
def live() -> Iterator[ControllerWithOutages]:
    with ControllerWithOutages() as live:
        live.create_service(trafficDistribution="PreferSameNode")
        live.run_pod("p1", "a1")
        live.run_pod("p2", "b1", ips=["10.244.2.1"])
        assert live.pods_in_slices() == ["p1", "p2"]
        yield live


def test_changes_during_the_outage_are_processed(live: ControllerWithOutages) -> None:
    live.client.disconnect()
    live.api.delete("pods", "default", "p1", grace_seconds=0)
    live.run_pod("p3", "a2", ips=["10.244.1.3"])
    live.create_service("late", trafficDistribution="PreferSameZone")
    live.replace(live.api)
    assert live.pods_in_slices() == ["p2", "p3"]
    assert len(endpoints(live.slices("late"))) == 2


def test_slices_of_a_service_deleted_during_the_outage_are_deleted(live: ControllerWithOutages) -> None:
    live.client.disconnect()
    live.api.delete("services", "default", "web")
    live.replace(live.api)
    assert live.slices() == []


def test_slice_deleted_during_the_outage_is_created_again(live: ControllerWithOutages) -> None:
    live.client.disconnect()
    for each in listed(live.api, "endpointslices", "default"):
        live.api.delete("endpointslices", "default", each["metadata"]["name"])
    live.replace(live.api)
    assert live.pods_in_slices() == ["p1", "p2"]


def test_outage_without_changes_causes_no_writes(live: ControllerWithOutages) -> None:
    before = live.slices(), live.api.get("services", "default", "web")
    live.client.disconnect()
    live.replace(live.api)
    assert (live.slices(), live.api.get("services", "default", "web")) == before


def test_failed_write_is_retried_after_the_outage(live: ControllerWithOutages) -> None:
    """The server stops after the controller has received a change and before the controller writes."""
    arrived = Event("MODIFIED", "pods", unready(live.api.get("pods", "default", "p1")))
    live.client.disconnect()
    live.controller._deliver(arrived)
    assert not live.controller.synced()
    live.set_ready("p1", ready=False)
    live.replace(live.api)
    assert [each["conditions"]["ready"] for each in endpoints(live.slices())].count(True) == 1


def unready(pod: Object) -> Object:
    return {**pod, "status": {**pod["status"], "conditions": [{"type": "Ready", "status": "False"}]}}


def test_controller_is_not_synced_while_its_write_waits_for_the_server() -> None:
    away = ReconnectingClient()
    live = RunningController()
    live.create_service()
    controller = EndpointSliceController(away)
    controller.start()
    assert not controller.synced()
    away.connect(live.api)
    eventually(controller.synced, describe="the controller to be synced", every=0.001)
    assert len(listed(live.api, "endpointslices", "default")) == 1
    controller.stop()


def test_older_api_server_hides_hints_and_the_newer_shows_them_again(live: ControllerWithOutages) -> None:
    live.client.disconnect()
    live.replace(ApiServer(release("1.29"), predecessor=live.api))
    assert not any("hints" in each and "forNodes" in (each["hints"] or {}) for each in endpoints(live.slices()))
    live.client.disconnect()
    live.replace(ApiServer(predecessor=live.api))
    live.api.create("nodes", "", make_node("c1"))
    assert all("forNodes" in each["hints"] for each in endpoints(live.slices()))
