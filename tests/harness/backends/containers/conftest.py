"""Fixtures that use an embedded cluster like one with local node containers, with its API and real packets."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest

from emulator.kubelet.kubelet import Kubelet
from harness.backends.containers.reachability import ABILITIES
from harness.backends.implementation import Implementation, reference
from harness.backends.kind.backend import KindContainersBackend
from harness.backends.netns import NetnsBackend
from harness.judging.history import History
from harness.model.abilities import Ability
from harness.netns.fabric import NetworkPeer, PodIdentity
from harness.netns.namespace import Namespace
from harness.scenario.cluster import Cluster
from tests.harness.backends.any_cluster.conftest import RUN_ID, ReplaceableComponents, target_of

Inhabited = Callable[..., Callable[..., Cluster]]


class EmbeddedNetns:
    """The netns of an embedded cluster and of the pods that its kubelet runs."""

    def __init__(self, backend: NetnsBackend) -> None:
        self._network = backend.network
        self._pods: dict[str, NetworkPeer] = {}
        add = backend.network.add_pod

        def noted(node: str, *, name: str = "", of: PodIdentity | None = None) -> NetworkPeer:
            host = add(node, name=name, of=of)
            if of is not None:
                self._pods[of.uid] = host
            return host

        backend.network.add_pod = noted  # type: ignore[method-assign]

    def node(self, name: str, addresses: Collection[str]) -> Namespace:
        assert set(addresses) == set(self._network.nodes[name].addresses.values())
        return _same(self._network.nodes[name].namespace)

    def pods(self, uids: Collection[str]) -> dict[str, Namespace]:
        return {uid: _same(self._pods[uid].namespace) for uid in uids if uid in self._pods}

    def outside(self, nodes: Mapping[str, NetworkPeer], cidrs: Mapping[str, Sequence[str]]) -> nullcontext[NetworkPeer]:
        """Return the external client, which ends with the network."""
        return nullcontext(self._network.external)


def _same(place: Namespace) -> Namespace:
    return Namespace(os.dup(place.fd))


@pytest.fixture
def inhabited(tmp_path: Path, netns_allowed: None) -> Iterator[Inhabited]:
    """Boot an embedded cluster. Return a factory of scenarios that probe it with packets."""
    with ExitStack() as stack:

        def boot(implementation: Implementation | None = None, *abilities: Ability) -> Callable[..., Cluster]:
            booted = stack.enter_context(NetnsBackend(implementation=implementation or reference()))
            places = EmbeddedNetns(booted)
            stack.enter_context(Kubelet(booted.kubeconfig(), booted.network, trust=booted.control_plane.kubelets))
            share = target_of(booted.kubeconfig(), tmp_path, *ABILITIES, *abilities)
            components: Any = ReplaceableComponents(booted)
            backend = KindContainersBackend(share, share.plain_api(), components=components, places=places).start()
            stack.callback(backend.close)
            history = stack.enter_context(History(tmp_path / "history.jsonl"))
            numbers = itertools.count(1)

            def cluster(**declared: float) -> Cluster:
                namespace = f"td-{RUN_ID}-main-{next(numbers)}"
                made = Cluster(backend, namespace, history=history, test="TEST/test", **declared)
                stack.callback(made.close)
                return made

            return cluster

        yield boot
