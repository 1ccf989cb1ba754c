"""Fixtures that use an embedded cluster as a foreign one: through its kubeconfig, with a kubelet that runs the pods."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from emulator.kubelet.images import REGISTRY
from emulator.kubelet.kubelet import Kubelet
from harness.api.client import Api
from harness.backends.any_cluster.target import ALWAYS, ClusterTarget, match_nodes
from harness.backends.implementation import Implementation, reference
from harness.backends.kind.backend import KindBackend
from harness.backends.netns import NetnsBackend
from harness.judging.history import History
from harness.model.abilities import Ability
from harness.model.release import Component, Release
from harness.model.topology import THREE_ZONES
from harness.scenario.cluster import Cluster

RUN_ID = "abcd1234"
RESTARTS = (Ability.RESTART_API_SERVER, Ability.RESTART_CONTROLLER, Ability.RESTART_PROXY, Ability.CHANGE_RELEASE)

Stranger = Callable[..., Callable[[], Cluster]]


class ReplaceableComponents:
    """The components of an embedded cluster. Scenarios can replace these components through the API."""

    def __init__(self, backend: NetnsBackend) -> None:
        self._backend = backend

    def start(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        self._backend.start_component(component, release, nodes)

    def stop(self, component: Component, nodes: Sequence[str]) -> None:
        self._backend.stop_component(component, nodes)

    def controller_metrics(self) -> str:
        return self._backend.controller_metrics()

    def stop_node(self, node: str) -> None:
        self._backend.stop_node(node)

    def start_node(self, node: str) -> None:
        self._backend.start_node(node)

    def close(self) -> None:
        """Do nothing: the fixture that booted the embedded cluster closes it."""


@pytest.fixture
def stranger(tmp_path: Path, netns_allowed: None) -> Iterator[Stranger]:
    """Boot an embedded cluster. Return a factory of scenarios that use only its API."""
    with ExitStack() as stack:

        def boot(implementation: Implementation | None = None, *abilities: Ability) -> Callable[[], Cluster]:
            booted = stack.enter_context(NetnsBackend(implementation=implementation or reference()))
            stack.enter_context(Kubelet(booted.kubeconfig(), booted.network, trust=booted.control_plane.kubelets))
            share = target_of(booted.kubeconfig(), tmp_path, *abilities)
            backend = KindBackend(share, share.plain_api(), components=ReplaceableComponents(booted)).start()
            stack.callback(backend.close)
            history = stack.enter_context(History(tmp_path / "history.jsonl"))
            numbers = itertools.count(1)

            def cluster() -> Cluster:
                made = Cluster(backend, f"td-{RUN_ID}-main-{next(numbers)}", history=history, test="TEST/test")
                stack.callback(made.close)
                return made

            return cluster

        yield boot


def target_of(kubeconfig: dict[str, object], folder: Path, *abilities: Ability) -> ClusterTarget:
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig))
    api = Api(kubeconfig)
    names = match_nodes(THREE_ZONES, api.list("nodes"))
    api.close()
    offered = ALWAYS | frozenset(abilities)
    return ClusterTarget(str(file), "", RUN_ID, names, THREE_ZONES, offered, REGISTRY)
