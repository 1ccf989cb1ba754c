"""A scenario replaces what has to be replaced: not what runs as it should, before it or after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.backends.netns import NetnsBackend
from harness.errors import UnavailableError
from harness.judging.history import History
from harness.model.abilities import Ability
from harness.model.release import API_SERVER, CONTROLLER, PROXY, Component, Release, release
from harness.model.topology import Node, Topology
from harness.scenario.cluster import Cluster

OLD, BOOTED = release("1.33"), release("1.34")


class _Backend(NetnsBackend):
    """A cluster of which nothing is there but what is asked of it."""

    def __init__(self) -> None:
        self.topology = Topology("two", (Node("a1", "a"), Node("b1", "b")))
        self.release = Release("1.34", follows="released")
        self.abilities = frozenset(Ability)
        self.api: Any = None
        self.asked: list[str] = []

    def start_component(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        on = f" on {' '.join(nodes)}" if component is PROXY else ""
        self.asked.append(f"{component} {release}{on}")
        if release.version == "1.99":
            raise UnavailableError("there is no 1.99")

    def stop_component(self, component: Component, nodes: Sequence[str]) -> None:
        self.asked.append(f"no {component}")

    def create_namespace(self, namespace: str) -> None: ...
    def delete_namespace(self, namespace: str) -> None: ...
    def settle(self, within: float = 0) -> None: ...
    def forget_connections(self) -> None: ...


@pytest.fixture
def backend() -> _Backend:
    return _Backend()


@pytest.fixture
def cluster(backend: _Backend, tmp_path: Path) -> Iterator[Cluster]:
    with History(tmp_path / "history.jsonl") as history:
        yield Cluster(backend, "td-1", history=history, test="t")


def test_what_is_of_the_release_already_is_left_alone(cluster: Cluster, backend: _Backend) -> None:
    for component in Component:
        cluster.bring_to(component, BOOTED)
    cluster.close()
    assert backend.asked == []


def test_only_proxies_of_other_releases_are_replaced(cluster: Cluster, backend: _Backend) -> None:
    cluster.restart(PROXY, OLD, on=["b1"])
    cluster.bring_to(PROXY, BOOTED)
    cluster.bring_to(PROXY, OLD)
    assert backend.asked == [f"{PROXY} 1.33 on b1", f"{PROXY} 1.34 on b1", f"{PROXY} 1.33 on a1 b1"]


def test_a_restart_is_one_whatever_runs(cluster: Cluster, backend: _Backend) -> None:
    cluster.restart(CONTROLLER, BOOTED)
    assert backend.asked == [f"{CONTROLLER} 1.34"]


def test_in_the_end_only_what_is_not_as_it_was_is_given_back(cluster: Cluster, backend: _Backend) -> None:
    cluster.restart(PROXY, OLD, on=["a1"])
    cluster.stop(CONTROLLER)
    cluster.bring_to(API_SERVER, OLD)
    cluster.bring_to(API_SERVER, BOOTED)
    backend.asked.clear()
    cluster.close()
    assert backend.asked == [f"{CONTROLLER} 1.34", f"{PROXY} 1.34 on a1"]


def test_a_component_that_did_not_start_is_given_back(cluster: Cluster, backend: _Backend) -> None:
    with pytest.raises(UnavailableError, match=r"no 1\.99"):
        cluster.restart(CONTROLLER, release("1.99"))
    cluster.close()
    assert backend.asked == [f"{CONTROLLER} 1.99", f"{CONTROLLER} 1.34"]
