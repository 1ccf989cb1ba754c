"""The conditions that a running controller writes. Source: KEP-4444, Status Reporting."""

from __future__ import annotations

from typing import Any

from harness.eventually import eventually
from reference.client import ApiError, Object
from reference.endpointslice import EndpointSliceController
from tests.reference.api_server_calls import patched
from tests.reference.endpointslice.objects import TOPOLOGY_MODE, make_node
from tests.reference.endpointslice.running_controller import NODES, RunningController

ANNOTATION = "trafficdist.dev/programmed-resource-version"
FOREIGN = {
    "type": "example.org/TrafficDistributionAccepted",
    "status": "True",
    "reason": "Accepted",
    "lastTransitionTime": "2025-01-01T00:00:00Z",
}
PREFIX = "TrafficDistribution"


def acknowledge(live: RunningController, *nodes: str, revision: int | None = None) -> None:
    """Write acknowledgement Leases for the proxies on these nodes.

    By default the Leases have the revision of the newest slice.
    """
    newest = max(int(each["metadata"]["resourceVersion"]) for each in live.slices())
    annotations = {ANNOTATION: str(newest if revision is None else revision)}
    for node in nodes:
        name = f"service-proxy-{node}"
        try:
            patched(live.api, "leases", "kube-system", name, {"metadata": {"annotations": annotations}})
        except ApiError:
            live.api.create("leases", "kube-system", {"metadata": {"name": name, "annotations": annotations}})


def conditions(live: RunningController, name: str = "web") -> dict[str, tuple[str, str]]:
    """Return status and reason of each of our conditions. The keys are condition types without their common prefix."""
    live.settle()
    found = live.api.get("services", "default", name)["status"].get("conditions") or []
    return {each["type"].removeprefix(PREFIX): (each["status"], each.get("reason", "")) for each in found}


def message(live: RunningController, kind: str) -> str:
    live.settle()
    found: list[Object] = live.api.get("services", "default", "web")["status"]["conditions"]
    return next(str(each["message"]) for each in found if each["type"] == PREFIX + kind)


def set_conditions(live: RunningController, *found: Object) -> None:
    service = live.api.get("services", "default", "web")
    status = {**service["status"], "conditions": list(found)}
    live.api.update_status("services", "default", {**service, "status": status})


def preferring_service(live: RunningController, value: str = "PreferSameZone", **fields: Any) -> None:
    live.create_service(trafficDistribution=value, **fields)
    live.run_pod()


def test_value_is_accepted_programmed_and_honored() -> None:
    with RunningController(conditions=True) as live:
        preferring_service(live)
        assert conditions(live) == {
            "Accepted": ("True", "Supported"),
            "Programmed": ("True", "HintsPopulated"),
            "Honored": ("Unknown", "NeverAcknowledged"),
        }
        acknowledge(live, *NODES)
        assert conditions(live)["Honored"] == ("True", "Acknowledged")


def test_nodes_that_have_not_acknowledged_the_newest_hints_are_named() -> None:
    with RunningController(conditions=True) as live:
        preferring_service(live)
        acknowledge(live, *NODES)
        live.run_pod("p2", "b1", ips=["10.244.2.1"])
        assert conditions(live)["Honored"] == ("False", "NotYetAcknowledged")
        acknowledge(live, "a1", "b1")
        assert message(live, "Honored") == "not yet acknowledged by a2"
        acknowledge(live, "a2")
        assert conditions(live)["Honored"][0] == "True"


def test_new_node_or_lost_lease_resets_honored_to_unknown() -> None:
    with RunningController(conditions=True) as live:
        preferring_service(live)
        acknowledge(live, *NODES)
        assert conditions(live)["Honored"][0] == "True"
        live.api.create("nodes", "", make_node("c1"))
        assert (conditions(live)["Honored"][0], message(live, "Honored")) == ("Unknown", "no acknowledgement from c1")
        live.api.delete("nodes", "", "c1")
        assert conditions(live)["Honored"][0] == "True"
        live.api.delete("leases", "kube-system", "service-proxy-a2")
        assert message(live, "Honored") == "no acknowledgement from a2"


def test_unready_endpoints_make_programmed_false() -> None:
    with RunningController(conditions=True) as live:
        preferring_service(live)
        assert conditions(live)["Programmed"][0] == "True"
        live.set_ready("p1", ready=False)
        assert conditions(live)["Programmed"] == ("False", "NoReadyEndpoints")
        assert conditions(live)["Honored"] == ("False", "NotProgrammed")


def test_slice_that_is_refused_is_not_programmed() -> None:
    with RunningController(conditions=True) as live:
        preferring_service(live)
        live.run_pod("p2", ips=["127.0.0.1"])
        assert conditions(live)["Programmed"] == ("False", "SyncFailed")


def test_annotation_on_a_live_service_overrides_until_it_is_removed() -> None:
    with RunningController(conditions=True) as live:
        preferring_service(live)
        for value, expected in (("Auto", "OverriddenByAnnotation"), ("Disabled", "HintsPopulated")):
            annotations = {TOPOLOGY_MODE: value}
            patched(live.api, "services", "default", "web", {"metadata": {"annotations": annotations}})
            assert conditions(live)["Accepted"] == ("True", "Supported")
            assert conditions(live)["Programmed"][1] == expected


def test_unknown_value_under_the_annotation_is_not_accepted() -> None:
    with RunningController(conditions=True) as live:
        preferring_service(live)
        live.change_service(trafficDistribution="example.org/Other")
        patched(live.api, "services", "default", "web", {"metadata": {"annotations": {TOPOLOGY_MODE: "Auto"}}})
        assert conditions(live)["Accepted"] == ("False", "Unsupported")


def test_removing_the_field_removes_only_own_conditions() -> None:
    with RunningController(conditions=True) as live:
        preferring_service(live)
        live.settle()
        set_conditions(live, FOREIGN)
        assert list(conditions(live)) == [FOREIGN["type"], "Accepted", "Programmed", "Honored"]
        live.change_service(trafficDistribution=None)
        assert list(conditions(live)) == [FOREIGN["type"]]


def test_service_without_the_field_is_never_written() -> None:
    with RunningController(conditions=True) as live:
        before = live.create_service()
        live.run_pod()
        acknowledge(live, *NODES)
        live.settle()
        assert live.api.get("services", "default", "web") == before


def test_controller_writes_no_conditions_by_default() -> None:
    with RunningController() as live:
        preferring_service(live)
        assert conditions(live) == {}


def test_conflict_is_retried_on_the_newer_service() -> None:
    with RunningController(conditions=True) as live:
        original = live.interrupted.update_status

        def meddle(*arguments: Any) -> Object:
            live.interrupted.update_status = original
            set_conditions(live, FOREIGN)
            return original(*arguments)

        live.interrupted.update_status = meddle
        preferring_service(live)
        assert list(conditions(live)) == [FOREIGN["type"], "Accepted", "Programmed", "Honored"]


def test_status_is_written_only_when_it_changes() -> None:
    with RunningController(conditions=True) as live:
        preferring_service(live)
        acknowledge(live, *NODES)
        live.settle()
        before = live.api.get("services", "default", "web")
    live.controller = EndpointSliceController(live.interrupted, conditions=True)
    with live:
        live.label_node("a2", "a")
        acknowledge(live, *NODES, revision=10**9)
        live.settle()
        assert live.api.get("services", "default", "web") == before


def test_deleted_service_is_forgotten() -> None:
    with RunningController(conditions=True) as live:
        preferring_service(live)
        live.settle()
        live.api.delete("services", "default", "web")
        eventually(live.controller.synced, describe="the controller to be synced", every=0.001)
        assert live.slices() == []
