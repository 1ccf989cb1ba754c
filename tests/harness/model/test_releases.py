"""Tests that a scenario replaces only components that need another release, and restores only replaced components."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.backends.backend import WantedPod
from harness.backends.netns import NetnsBackend
from harness.backends.releases import Releases
from harness.errors import EndedError, UnavailableError
from harness.judging.history import History
from harness.model.abilities import Ability
from harness.model.release import API_SERVER, CONTROLLER, PROXY, Component, Release, release
from harness.model.topology import Node, Topology
from harness.model.workloads import Pod
from harness.scenario.cluster import Cluster

OLD, BOOTED = release("1.33"), release("1.34")


class _RecordingBackend(NetnsBackend):
    """A cluster without components. The cluster records the requests of a scenario."""

    def __init__(self) -> None:
        self.topology = Topology("two", (Node("a1", "a"), Node("b1", "b")))
        self.release = Release("1.34", follows="released")
        self.abilities = frozenset(Ability)
        self.api: Any = None
        self.asked: list[str] = []
        self.ended = ""

    def start_component(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        on = f" on {' '.join(nodes)}" if component is PROXY else ""
        self.asked.append(f"{component} {release}{on}")
        if release.version == "1.99":
            raise UnavailableError("there is no 1.99")

    def check_instruments(self) -> None:
        if self.ended:
            raise EndedError("it crashed", self.ended)

    def stop_component(self, component: Component, nodes: Sequence[str]) -> None:
        self.asked.append(f"no {component}")

    def run_pods(self, namespace: str, wanted: Sequence[WantedPod]) -> list[Pod]:
        self.asked.append("pods")
        return []

    def create_namespace(self, namespace: str) -> None: ...
    def delete_namespace(self, namespace: str) -> None: ...
    def settle(self, within: float = 0) -> None: ...
    def forget_connections(self) -> None: ...


@pytest.fixture
def backend() -> _RecordingBackend:
    return _RecordingBackend()


@pytest.fixture
def new_cluster(backend: _RecordingBackend, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    with History(tmp_path / "history.jsonl") as history:
        yield partial(Cluster, backend, "td-1", history=history, test="t")


@pytest.fixture
def cluster(new_cluster: Callable[..., Cluster]) -> Cluster:
    return new_cluster()


def test_component_with_the_requested_release_is_unchanged(cluster: Cluster, backend: _RecordingBackend) -> None:
    for component in Component:
        cluster.bring_to(component, BOOTED)
    cluster.close()
    assert backend.asked == []


def test_only_proxies_of_other_releases_are_replaced(cluster: Cluster, backend: _RecordingBackend) -> None:
    cluster.restart(PROXY, OLD, on=["b1"])
    cluster.bring_to(PROXY, BOOTED)
    cluster.bring_to(PROXY, OLD)
    assert backend.asked == [f"{PROXY} 1.33 on b1", f"{PROXY} 1.34 on b1", f"{PROXY} 1.33 on a1 b1"]


def test_restart_happens_for_any_running_release(cluster: Cluster, backend: _RecordingBackend) -> None:
    cluster.restart(CONTROLLER, BOOTED)
    assert backend.asked == [f"{CONTROLLER} 1.34"]


def test_only_changed_components_are_restored_at_the_end(cluster: Cluster, backend: _RecordingBackend) -> None:
    cluster.restart(PROXY, OLD, on=["a1"])
    cluster.stop(CONTROLLER)
    cluster.bring_to(API_SERVER, OLD)
    cluster.bring_to(API_SERVER, BOOTED)
    backend.asked.clear()
    cluster.close()
    assert backend.asked == [f"{CONTROLLER} 1.34", f"{PROXY} 1.34 on a1"]


def test_component_that_did_not_start_is_restored(cluster: Cluster, backend: _RecordingBackend) -> None:
    with pytest.raises(UnavailableError, match=r"no 1\.99"):
        cluster.restart(CONTROLLER, release("1.99"))
    cluster.close()
    assert backend.asked == [f"{CONTROLLER} 1.99", f"{CONTROLLER} 1.34"]


# Several scenarios in sequence on one cluster


@pytest.fixture
def left(new_cluster: Callable[..., Cluster], backend: _RecordingBackend) -> Releases:
    """Return the releases after a scenario that downgrades all components. At its end it restarts the proxy of b1."""
    releases: Releases = {}
    first = new_cluster(releases=releases)
    for component in (API_SERVER, CONTROLLER, PROXY):
        first.bring_to(component, OLD)
    first.stop(PROXY, on=["b1"])
    backend.asked.clear()
    first.close()
    assert backend.asked == [f"{PROXY} 1.34 on b1"]
    backend.asked.clear()
    return releases


def test_releases_that_the_next_scenario_wants_are_not_restored_in_between(
    new_cluster: Callable[..., Cluster], backend: _RecordingBackend, left: Releases
) -> None:
    following = new_cluster(releases=left)
    for component, wanted in ((API_SERVER, OLD), (CONTROLLER, BOOTED), (PROXY, OLD)):
        following.bring_to(component, wanted)
    following.run_servers(["a1"])
    assert backend.asked == [f"{CONTROLLER} 1.34", f"{PROXY} 1.33 on b1", "pods"]


def test_other_scenarios_begin_with_the_releases_at_boot(
    new_cluster: Callable[..., Cluster], backend: _RecordingBackend, left: Releases
) -> None:
    following = new_cluster(releases=left)
    following.run_servers(["a1"])
    restored = [f"{API_SERVER} 1.34", f"{CONTROLLER} 1.34", f"{PROXY} 1.34 on a1"]
    assert backend.asked == [*restored, "pods"]
    following.run_servers(["b1"])
    following.close()
    new_cluster(releases=left).run_servers(["b1"])
    assert backend.asked == [*restored, "pods", "pods", "pods"]


FIRST: dict[str, Callable[[Cluster], object]] = {
    "asks the API": lambda cluster: cluster.api,
    "settles": lambda cluster: cluster.backend.settle(),
    "writes": lambda cluster: cluster.backend.begin_to_write("nodes"),
}


@pytest.mark.parametrize("first", FIRST)
def test_any_other_action_first_restores_components_of_earlier_scenarios(
    new_cluster: Callable[..., Cluster], backend: _RecordingBackend, left: Releases, first: str
) -> None:
    following = new_cluster(releases=left)
    following.bring_to(PROXY, OLD)
    FIRST[first](following)
    assert backend.asked[:3] == [f"{PROXY} 1.33 on b1", f"{API_SERVER} 1.34", f"{CONTROLLER} 1.34"]


@pytest.mark.parametrize("change", [Cluster.restart, Cluster.stop])
def test_a_restart_or_a_stop_begins_with_the_releases_at_boot(
    new_cluster: Callable[..., Cluster], backend: _RecordingBackend, left: Releases, change: Callable[..., None]
) -> None:
    change(new_cluster(releases=left), CONTROLLER)
    assert backend.asked[:3] == [f"{API_SERVER} 1.34", f"{CONTROLLER} 1.34", f"{PROXY} 1.34 on a1"]
    assert len(backend.asked) == 4


def test_component_that_exited_is_restored_before_the_next_scenario(
    new_cluster: Callable[..., Cluster], backend: _RecordingBackend
) -> None:
    releases: Releases = {}
    first = new_cluster(releases=releases)
    for component in (CONTROLLER, PROXY):
        first.bring_to(component, OLD)
    backend.ended = PROXY
    first.close()
    backend.ended = ""
    following = new_cluster(releases=releases)
    for component in (CONTROLLER, PROXY):
        following.bring_to(component, OLD)
    assert backend.asked[2:] == [f"{PROXY} 1.34 on a1 b1", f"{PROXY} 1.33 on a1 b1"]


def test_failed_restore_is_retried(
    new_cluster: Callable[..., Cluster], backend: _RecordingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases: Releases = {CONTROLLER: {"a1": OLD, "b1": OLD}}
    with monkeypatch.context() as patched:
        patched.setattr(backend, "start_component", _refuse)
        with pytest.raises(UnavailableError):
            new_cluster(releases=releases).run_servers(["a1"])
    new_cluster(releases=releases).run_servers(["a1"])
    assert backend.asked == [f"{CONTROLLER} 1.34", "pods"]


def _refuse(*_: object) -> None:
    raise UnavailableError("it does not start")
