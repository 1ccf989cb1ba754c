"""The barrier of kube-controller-manager, on a controller that hears of each kind of object in its own time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.control_planes import barrier
from harness.control_planes.barrier import ControllerBarrier
from harness.model.topology import ZONE_LABEL

if TYPE_CHECKING:
    import pytest

IDLE = 'workqueue_adds_total{name="endpoint_slice"} 3\nworkqueue_work_duration_seconds_count{name="endpoint_slice"} 3\n'


class Controlled:
    """An API with a controller that syncs at each change of the Service, and hears of the node's zone one sync late."""

    def __init__(self, *_: object) -> None:
        self._labels: dict[str, str] = {}
        self._zone, self._known_zone, self._ready = "0", "0", True
        self._shown: list[dict[str, Any]] = []
        self._writes = 0

    def close(self) -> None:
        """Nothing is open."""

    def request(self, *_: object) -> Any:
        """Return the list of nodes."""
        return type("Listed", (), {"body": {"items": [], "metadata": {"resourceVersion": str(self._writes)}}})

    def create(self, *_: object) -> None:
        """Accept any object."""
        self._writes += 1

    def get(self, *_: object) -> dict[str, Any]:
        """Return the Service."""
        return {"metadata": {"labels": self._labels}}

    def list(self, *_: object, **__: object) -> list[dict[str, Any]]:
        """Return the slice as the controller has written it."""
        return self._shown

    def patch(self, resource: str, _namespace: str, _name: str, patch: dict[str, Any], **_: object) -> None:
        """Take a change; one of the Service makes the controller sync by what it has heard of."""
        self._writes += 1
        if resource == "nodes":
            self._zone = patch["metadata"]["labels"][ZONE_LABEL]
        elif resource == "pods":
            conditions = patch["status"]["conditions"]
            self._ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        else:
            self._labels |= patch["metadata"].get("labels", {})
            endpoint = {"conditions": {"ready": self._ready}, "zone": self._known_zone}
            self._shown = [{"metadata": {"labels": dict(self._labels), "generation": 1}, "endpoints": [endpoint]}]
            self._known_zone = self._zone


def test_a_controller_that_hears_of_the_node_last_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barrier, "Api", Controlled)
    monkeypatch.setattr(barrier, "_ARRIVAL", 0.01)
    asked = ControllerBarrier({}, scrape=lambda: IDLE, log=str)
    monkeypatch.setattr(barrier, "_RETRY", 0.0)
    assert not asked.passed()
    assert asked.passed()
