"""Tests the barrier of kube-controller-manager. The fake controller receives objects late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.control_planes import barrier
from harness.control_planes.barrier import ControllerBarrier
from harness.model.topology import ZONE_LABEL

if TYPE_CHECKING:
    import pytest

IDLE = 'workqueue_adds_total{name="endpoint_slice"} 3\nworkqueue_work_duration_seconds_count{name="endpoint_slice"} 3\n'


class ClusterWithController:
    """An API and a controller that syncs on each change to the Service. It receives the node's zone one sync late."""

    def __init__(self, *_: object) -> None:
        self._labels: dict[str, str] = {}
        self._zone, self._known_zone, self._ready = "0", "0", True
        self._shown: list[dict[str, Any]] = []
        self._writes = 0

    def close(self) -> None:
        """Do nothing."""

    def request(self, *_: object) -> Any:
        return type("Listed", (), {"body": {"items": [], "metadata": {"resourceVersion": str(self._writes)}}})

    def create(self, *_: object) -> None:
        self._writes += 1

    def get(self, *_: object) -> dict[str, Any]:
        return {"metadata": {"labels": self._labels}}

    def list(self, *_: object, **__: object) -> list[dict[str, Any]]:
        """Return the EndpointSlice that the controller wrote last."""
        return self._shown

    def patch(self, resource: str, _namespace: str, _name: str, patch: dict[str, Any], **_: object) -> None:
        """Apply a change.

        A change of the Service makes the controller sync with the state that it has received by then.
        """
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


def test_controller_that_sees_the_node_last_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barrier, "Api", ClusterWithController)
    monkeypatch.setattr(barrier, "_ARRIVAL", 0.01)
    asked = ControllerBarrier({}, scrape=lambda: IDLE, log=str)
    monkeypatch.setattr(barrier, "_RETRY", 0.0)
    assert not asked.passed()
    assert asked.passed()
