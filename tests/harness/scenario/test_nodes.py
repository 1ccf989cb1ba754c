"""Tests nodes that a scenario creates or changes.

Such nodes look as if a kubelet had reported them, and are restored afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.api.client import Api
from harness.backends.netns import NetnsBackend
from harness.backends.scenario_backend import ScenarioBackend
from harness.control_planes.embedded import EmbeddedControlPlane
from harness.errors import UsageError
from harness.judging.history import History
from harness.model import manifests
from harness.model.manifests import has_condition
from harness.model.topology import ONE_ZONE, Node
from harness.scenario.nodes import Nodes
from harness.variation.axes import PLAIN
from harness.variation.objects import LabelVariation


class _PartialBackend(NetnsBackend):
    """The parts of the embedded cluster that `Nodes` uses."""

    def __init__(self, api: Api) -> None:
        self.topology = ONE_ZONE
        self.api = api
        self.settled = 0

    def settle(self, within: float | None = None) -> None:
        self.settled += 1


@pytest.fixture
def api() -> Iterator[Api]:
    """Return an API server with one node."""
    control_plane = EmbeddedControlPlane()
    control_plane.start()
    opened = Api(control_plane.kubeconfig())
    opened.create("nodes", "", manifests.node(Node("a1", "a"), ["10.0.0.1"], ["10.244.1.0/24"]))
    yield opened
    opened.close()
    control_plane.stop()


@pytest.fixture
def nodes(api: Api, tmp_path: Path) -> Iterator[Nodes]:
    """Return the nodes of a scenario on this API server."""
    with History(tmp_path / "history.jsonl") as history:
        yield Nodes(ScenarioBackend(_PartialBackend(api)), history, LabelVariation(PLAIN))


def test_created_node_reports_the_requested_fields(api: Api, nodes: Nodes) -> None:
    nodes.create("d1", "d", cpu_milli=1500, labels={"node-role.kubernetes.io/master": ""})
    made = api.get("nodes", "", "d1")
    assert made["metadata"]["labels"]["topology.kubernetes.io/zone"] == "d"
    assert "node-role.kubernetes.io/master" in made["metadata"]["labels"]
    assert made["status"]["allocatable"]["cpu"] == "1500m"


def test_a_node_can_be_made_without_zone_cpu_or_readiness(api: Api, nodes: Nodes) -> None:
    nodes.create("x1", "", cpu_milli=0, ready=False)
    made = api.get("nodes", "", "x1")
    assert "labels" not in made["metadata"]
    assert "cpu" not in made["status"]["allocatable"]
    assert made["status"]["conditions"][0]["status"] == "False"


def test_restoring_deletes_created_nodes_and_resets_other_reports(api: Api, nodes: Nodes) -> None:
    before = api.get("nodes", "", "a1")["status"]
    nodes.create("d1", "d")
    nodes.report("a1", cpu_milli=0)
    nodes.report("a1", ready=False)
    assert "cpu" not in api.get("nodes", "", "a1")["status"]["allocatable"]

    nodes.restore()
    assert [each["metadata"]["name"] for each in api.list("nodes")] == ["a1"]
    assert api.get("nodes", "", "a1")["status"] == before


@pytest.mark.parametrize(("change", "cpu"), [(lambda nodes: nodes.resize("a1", 1000), "1"), (Nodes.restore, "4")])
def test_changed_core_count_comes_with_a_readiness_change(
    nodes: Nodes, api: Api, monkeypatch: pytest.MonkeyPatch, change: Callable[[Nodes], None], cpu: str
) -> None:
    """Released controllers read the CPU only when readiness changes."""
    nodes.report("a1", cpu_milli=2000)
    reported: list[Any] = []
    patch = api.patch

    def noting(*arguments: Any, subresource: str = "") -> Any:
        stored = patch(*arguments, subresource=subresource)
        reported.extend([stored] if subresource == "status" else [])
        return stored

    monkeypatch.setattr(api, "patch", noting)
    change(nodes)
    seen = [(has_condition(each, "Ready"), each["status"]["allocatable"]["cpu"]) for each in reported]
    assert seen == [(False, cpu), (True, cpu)]


def test_restoring_ends_a_cordon(api: Api, nodes: Nodes) -> None:
    nodes.cordon("a1")
    assert api.get("nodes", "", "a1")["spec"]["unschedulable"]
    nodes.restore()
    assert "unschedulable" not in api.get("nodes", "", "a1")["spec"]


def test_only_a_stopped_node_is_started(nodes: Nodes) -> None:
    with pytest.raises(UsageError, match="node a1 is not powered off"):
        nodes.start("a1")


def test_deleted_node_can_be_created_again(api: Api, nodes: Nodes) -> None:
    nodes.create("d1", "d")
    nodes.delete("d1")
    nodes.create("d1", "e")
    assert api.get("nodes", "", "d1")["metadata"]["labels"]["topology.kubernetes.io/zone"] == "e"


def test_a_node_with_a_proxy_is_not_deleted(nodes: Nodes) -> None:
    with pytest.raises(UsageError, match="node a1 runs pods and a proxy"):
        nodes.delete("a1")


def test_components_see_node_changes_before_later_writes_and_the_reverse(api: Api, tmp_path: Path) -> None:
    backend = _PartialBackend(api)
    of_scenario = ScenarioBackend(backend)
    settled = []
    with History(tmp_path / "history.jsonl") as history:
        nodes = Nodes(of_scenario, history, LabelVariation(PLAIN))
        for write in (
            lambda: nodes.create("d1", "d"),
            lambda: nodes.report("d1", ready=False),
            lambda: of_scenario.begin_to_write("services"),
            lambda: of_scenario.begin_to_write("services"),
            lambda: nodes.delete("d1"),
            of_scenario.settle,
            lambda: of_scenario.begin_to_write("services"),
        ):
            write()
            settled.append(backend.settled)
        nodes.restore()
        assert backend.settled == settled[-1]
        nodes.create("e1", "e")
        nodes.restore()
    assert settled == [0, 0, 1, 1, 2, 3, 3]
    assert backend.settled == settled[-1] + 2
