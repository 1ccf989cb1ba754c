"""A node's connection tracking is emptied between scenarios, and no other one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.backends.netns import NetnsBackend
from harness.model.topology import grid
from harness.model.workloads import pod_client
from harness.netns.namespace import Namespace
from harness.probes.loop import Probe


@pytest.fixture
def backend() -> Iterator[NetnsBackend]:
    with NetnsBackend(grid("two", {"a": 2}), families=("IPv4",)) as backend:
        yield backend


def tracked(namespace: Namespace) -> int:
    with namespace.entered():
        return int(Path("/proc/sys/net/netfilter/nf_conntrack_count").read_text(encoding="ascii"))


def connect(backend: NetnsBackend, node: str) -> None:
    """Pass a node's rules, to an address at which there is nobody."""
    client = backend.namespace_of(pod_client(node))
    backend.probe([Probe(client, "UDP", backend.free_addresses()["IPv4"], 80, timeout=0.01)])


def test_nodes_forget_the_connections_of_a_scenario(backend: NetnsBackend) -> None:
    nodes = [backend.network.nodes[name].namespace for name in ("a1", "a2")]
    for name in ("a1", "a2"):
        connect(backend, name)
    assert all(tracked(each) for each in nodes)
    backend.forget_connections()
    assert not any(tracked(each) for each in nodes)


def test_nodes_of_another_cluster_keep_theirs(backend: NetnsBackend) -> None:
    with NetnsBackend(grid("one", {"a": 1}), families=("IPv4",)) as other:
        connect(other, "a1")
        backend.forget_connections()
        assert tracked(other.network.nodes["a1"].namespace)
