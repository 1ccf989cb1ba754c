"""A running controller and a Service with the topology annotation: changes of Nodes, and Events. Source: KEP-2433."""

from __future__ import annotations

import logging

import pytest

from reference.client import Object
from reference.endpointslice import EndpointSliceController
from tests.reference.api_server_calls import listed, patched
from tests.reference.endpointslice.objects import AUTO, TOPOLOGY_MODE, hinted, make_node
from tests.reference.endpointslice.running_controller import RunningController


def annotate(live: RunningController, value: str | None, name: str = "web") -> None:
    patched(live.api, "services", "default", name, {"metadata": {"annotations": {TOPOLOGY_MODE: value}}})


def create_auto_service(live: RunningController, name: str = "web", **spec: object) -> None:
    live.create_service(name, annotations=AUTO, **spec)


def run_pods(live: RunningController, *nodes: str) -> None:
    for number, node in enumerate(nodes, 1):
        live.run_pod(f"p{number}", node, ips=[f"10.244.1.{number}"])


def events(live: RunningController) -> list[tuple[str, str, str]]:
    live.settle()
    found: list[Object] = listed(live.api, "events", "default")
    return [(each["type"], each["reason"], each["message"]) for each in found]


ENABLED = ("Normal", "TopologyAwareHintsEnabled", "Topology Aware Hints has been enabled, addressType: IPv4")


def test_hints_are_added_and_removed_with_nodes() -> None:
    with RunningController() as live:
        create_auto_service(live)
        run_pods(live, "a1", "b1", "a2")
        assert hinted(live.slices()) == "aba"  # zone a has two of three nodes
        live.api.create("nodes", "", make_node("c1", cpu="16"))
        assert hinted(live.slices()) == "---"
        live.api.delete("nodes", "", "c1")
        assert hinted(live.slices()) == "aba"


def test_node_that_becomes_unready_does_not_count() -> None:
    with RunningController() as live:
        create_auto_service(live)
        run_pods(live, "a1", "b1", "a2")
        assert hinted(live.slices()) == "aba"
        live.api.update_status("nodes", "", {**live.api.get("nodes", "", "b1"), "status": {}})
        assert hinted(live.slices()) == "---"


def test_only_services_whose_hints_can_change_are_synced(caplog: pytest.LogCaptureFixture) -> None:
    with RunningController() as live:
        create_auto_service(live)
        create_auto_service(live, "other", selector={"app": "none"})
        live.create_service("plain", trafficDistribution="PreferSameZone")
        run_pods(live, "a1", "b1", "a2")
        live.settle()
        caplog.set_level(logging.DEBUG, "reference.endpointslice.controller")
        live.api.create("nodes", "", make_node("a3", cpu="100m"))
        live.settle()
        assert caplog.records == []
        live.api.create("nodes", "", make_node("b2", cpu="16"))
        live.settle()
        assert [each.getMessage() for each in caplog.records] == ["Service default/web: sync"]


@pytest.mark.parametrize("value", ["Auto", "auto"])
def test_hints_are_announced_once(value: str) -> None:
    with RunningController() as live:
        run_pods(live, "a1", "b1", "a2")
        live.create_service(annotations={TOPOLOGY_MODE: value})
        live.set_ready("p3", ready=False)
        live.set_ready("p3", ready=True)
        assert [each for each in events(live) if each == ENABLED] == [ENABLED]


def test_refusal_is_a_warning_with_the_reason_once() -> None:
    with RunningController() as live:
        create_auto_service(live)
        assert events(live) == [
            (
                "Warning",
                "TopologyAwareHintsDisabled",
                "Insufficient number of endpoints (0 endpoints, 2 zones), addressType: IPv4",
            )
        ]
        run_pods(live, "a1")
        assert len(events(live)) == 1


def test_removal_of_hints_with_the_annotation_is_announced() -> None:
    with RunningController() as live:
        run_pods(live, "a1", "b1", "a2")
        create_auto_service(live)
        live.settle()
        annotate(live, None)
        gone = ("Warning", "TopologyAwareHintsDisabled", "Topology Aware Hints has been disabled, addressType: IPv4")
        assert events(live) == [ENABLED, gone]
        assert hinted(live.slices()) == "---"


def test_restarted_controller_does_not_announce_existing_hints() -> None:
    with RunningController() as live:
        run_pods(live, "a1", "b1", "a2")
        create_auto_service(live)
        live.settle()
    live.controller = EndpointSliceController(live.interrupted)
    with live:
        assert hinted(live.slices()) == "aba"
        assert events(live) == [ENABLED]


def test_annotation_overrides_the_field_until_it_is_removed() -> None:
    with RunningController() as live:
        run_pods(live, "a1", "a1", "a1")
        live.create_service(trafficDistribution="PreferSameZone")
        assert hinted(live.slices()) == "aaa"
        annotate(live, "Auto")
        assert hinted(live.slices()) == "baa"
        annotate(live, "Disabled")
        assert hinted(live.slices()) == "aaa"
        assert [kind for kind, _, _ in events(live)] == ["Normal", "Warning"]
