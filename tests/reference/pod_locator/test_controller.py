"""The PodLocator controller with a real API server. Source: KEP-536, New PodLocator controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Self

import pytest

from harness.eventually import eventually
from reference.apiserver import ApiServer
from reference.client import Event, Object
from reference.client.reconnecting_client import ReconnectingClient
from reference.pod_locator import PodLocatorController
from tests.reference.api_server_calls import listed, patched

ZONE = "topology.kubernetes.io/zone"


class RunningController:
    """An API server with nodes a1 and b1, and a controller. Tests can start the controller and stop the server."""

    def __init__(self) -> None:
        self.api = ApiServer()
        self.client = ReconnectingClient(self.api)
        self.controller = PodLocatorController(self.client)
        self.writes: list[Event] = []
        for name in ("a1", "b1"):
            self.create_node(name)
        self.api.subscribe(["podlocators"], self.writes.append)

    def __enter__(self) -> Self:
        self.controller.start()
        self.settle()
        return self

    def __exit__(self, *_: object) -> None:
        self.controller.stop()

    def settle(self) -> None:
        eventually(self.controller.synced, describe="the controller to be synced", every=0.0002)

    def create_node(self, name: str) -> None:
        self.api.create("nodes", "", {"metadata": {"name": name, "labels": {ZONE: name[0]}}})

    def label_node(self, name: str, labels: Mapping[str, str | None]) -> None:
        patched(self.api, "nodes", "", name, {"metadata": {"labels": dict(labels)}})

    def create_pod(self, name: str = "web", node: str = "a1") -> None:
        spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
        self.api.create("pods", "default", {"metadata": {"name": name}, "spec": spec})

    def report(self, name: str = "web", *ips: str, phase: str = "Running") -> None:
        status = {"phase": phase, "podIPs": [{"ip": each} for each in ips] or None, "podIP": ips[0] if ips else None}
        patched(self.api, "pods", "default", name, {"status": status}, subresource="status")

    def delete_pod(self, name: str = "web") -> None:
        self.api.delete("pods", "default", name, grace_seconds=0)

    def locators(self) -> dict[str, Object]:
        """Wait until the controller is idle, and return the locators."""
        self.settle()
        return {
            each["metadata"]["name"]: {name: each[name] for name in ("ips", "nodeName", "nodeLabels")}
            for each in listed(self.api, "podlocators", "default")
        }

    def written_by(self, change: Callable[[], None]) -> list[tuple[str, str]]:
        """Make a change. Return the type and name of each locator write that follows."""
        self.settle()
        self.writes.clear()
        change()
        self.settle()
        return [(each.type, each.object["metadata"]["name"]) for each in self.writes]


@pytest.fixture
def live() -> Iterator[RunningController]:
    with RunningController() as live:
        yield live


def on(node: str, *ips: str) -> Object:
    labels = {ZONE: node[0]} if node else {}
    return {"ips": [{"ip": each} for each in ips], "nodeName": node, "nodeLabels": labels}


def test_controller_is_not_synced_before_it_has_seen_the_state() -> None:
    assert not PodLocatorController(ApiServer()).synced()


def test_pods_from_before_the_start_get_locators() -> None:
    live = RunningController()
    live.create_pod()
    live.report("web", "10.0.0.1", "fd00::1")
    with live:
        assert live.locators() == {"web": on("a1", "10.0.0.1", "fd00::1")}


def test_locator_is_created_and_deleted_with_its_pod(live: RunningController) -> None:
    live.create_pod()
    assert live.locators() == {"web": on("a1")}
    live.delete_pod()
    assert live.locators() == {}


def test_locator_follows_addresses(live: RunningController) -> None:
    live.create_pod()
    live.report("web", "10.0.0.1")
    assert live.locators() == {"web": on("a1", "10.0.0.1")}
    live.report("web", "10.0.0.2", "fd00::2")
    assert live.locators() == {"web": on("a1", "10.0.0.2", "fd00::2")}


def test_unscheduled_pod_has_no_node_until_it_is_scheduled(live: RunningController) -> None:
    live.create_pod(node="")
    assert live.locators() == {"web": on("")}
    patched(live.api, "pods", "default", "web", {"spec": {"nodeName": "b1"}})
    assert live.locators() == {"web": on("b1")}


def test_ended_pod_has_no_addresses_and_keeps_its_node(live: RunningController) -> None:
    live.create_pod()
    live.report("web", "10.0.0.1")
    live.report("web", "10.0.0.1", phase="Succeeded")
    assert live.locators() == {"web": on("a1")}


def test_terminating_pod_keeps_its_locator(live: RunningController) -> None:
    live.create_pod()
    live.report("web", "10.0.0.1")
    live.api.delete("pods", "default", "web", grace_seconds=30)
    assert live.locators() == {"web": on("a1", "10.0.0.1")}


def test_node_labels_reach_all_locators_on_the_node_and_no_other(live: RunningController) -> None:
    for name, node in (("one", "a1"), ("two", "a1"), ("three", "b1")):
        live.create_pod(name, node)
    written = live.written_by(lambda: live.label_node("a1", {"rack": "r1", ZONE: None}))
    assert sorted(written) == [("MODIFIED", "one"), ("MODIFIED", "two")]
    assert live.locators()["one"]["nodeLabels"] == {"rack": "r1"}


def test_deleted_node_leaves_neither_name_nor_labels_and_a_new_one_brings_both(live: RunningController) -> None:
    live.create_pod()
    live.report("web", "10.0.0.1")
    live.api.delete("nodes", "", "a1")
    assert live.locators() == {"web": on("", "10.0.0.1")}
    live.create_node("a1")
    assert live.locators() == {"web": on("a1", "10.0.0.1")}


def test_irrelevant_changes_cause_no_write(live: RunningController) -> None:
    live.create_pod()
    live.report("web", "10.0.0.1")

    def change() -> None:
        conditions = [{"type": "Ready", "status": "True"}]
        patched(live.api, "pods", "default", "web", {"status": {"conditions": conditions}}, subresource="status")
        patched(live.api, "pods", "default", "web", {"metadata": {"labels": {"app": "web"}}})
        patched(live.api, "nodes", "", "a1", {"status": {"conditions": conditions}}, subresource="status")

    assert live.written_by(change) == []


def test_a_second_controller_writes_nothing(live: RunningController) -> None:
    live.create_pod()
    live.report("web", "10.0.0.1")

    def start() -> None:
        second = PodLocatorController(live.api)
        second.start()
        eventually(second.synced, describe="the second controller to be synced")
        second.stop()

    assert live.written_by(start) == []


def test_burst_of_changes_of_one_pod_causes_fewer_writes(live: RunningController) -> None:
    live.create_pod()

    def change() -> None:
        with live.api.registry.store.lock:  # the controller's writes wait, and its queue fills
            for number in range(1, 50):
                live.report("web", f"10.0.0.{number}")

    assert len(live.written_by(change)) <= 2
    assert live.locators() == {"web": on("a1", "10.0.0.49")}


def test_changes_of_locators_by_others_are_corrected(live: RunningController) -> None:
    live.create_pod()
    live.settle()
    patched(live.api, "podlocators", "default", "web", {"nodeName": "b1"})
    assert live.locators() == {"web": on("a1")}
    live.api.delete("podlocators", "default", "web")
    assert live.locators() == {"web": on("a1")}
    live.api.create("podlocators", "default", {"metadata": {"name": "nobody"}})
    assert live.locators() == {"web": on("a1")}


def test_metadata_of_others_is_kept(live: RunningController) -> None:
    live.create_pod()
    live.settle()
    patched(live.api, "podlocators", "default", "web", {"metadata": {"annotations": {"note": "x"}}})
    live.report("web", "10.0.0.1")
    live.settle()
    assert live.api.get("podlocators", "default", "web")["metadata"]["annotations"] == {"note": "x"}


def test_recreated_pod_has_its_locator(live: RunningController) -> None:
    for number, node in enumerate(("a1", "b1") * 20):
        live.create_pod(node=node)
        live.report("web", f"10.0.0.{number}")
        live.delete_pod()
    live.create_pod(node="b1")
    assert live.locators() == {"web": on("b1")}


def test_changes_during_a_server_outage_are_processed(live: RunningController) -> None:
    for name in ("stays", "goes"):
        live.create_pod(name)
    live.settle()
    live.client.disconnect()
    live.delete_pod("goes")
    live.create_pod("comes", "b1")
    live.api.delete("podlocators", "default", "stays")
    live.client.connect(live.api)
    assert live.locators() == {"stays": on("a1"), "comes": on("b1")}


def test_deleting_a_namespace_deletes_its_locators(live: RunningController) -> None:
    live.api.create("namespaces", "", {"metadata": {"name": "shop"}})
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "a1"}
    for number in range(20):
        live.api.create("pods", "shop", {"metadata": {"name": f"p{number}"}, "spec": spec})
    live.settle()
    live.api.delete("namespaces", "", "shop")
    live.settle()
    assert listed(live.api, "podlocators", "shop") == []
    assert "shop" not in {each["metadata"]["name"] for each in listed(live.api, "namespaces")}
