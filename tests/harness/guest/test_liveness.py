"""Tests that a lost node is noticed before the control plane reports it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from harness.api.client import Api
from harness.eventually import eventually
from harness.guest.liveness import doubt
from harness.model import manifests
from harness.model.topology import Node
from reference.apiserver.server import HttpServer

NODES = {"a1": "a1", "b1": "b1"}
LEASES = "kube-node-lease"


@pytest.fixture
def cluster(api: Api) -> Api:
    """Start two nodes with kubelets, one with a Lease."""
    for name in NODES:
        api.create("nodes", "", manifests.node(Node(name, name[0]), ["10.0.0.1"], ["10.244.1.0/24"]))
    api.create("namespaces", "", {"metadata": {"name": LEASES}})
    api.create("leases", LEASES, {"metadata": {"name": "b1"}, "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}})
    return api


@pytest.fixture
def kubelet(cluster: Api, server: HttpServer) -> Iterator[None]:
    """Renew the Lease of b1, as its kubelet does."""
    ended = threading.Event()

    def renew() -> None:
        second = 0
        while not ended.wait(0.02):
            second = (second + 1) % 60
            spec = {"renewTime": f"2026-01-01T00:01:{second:02}.000000Z"}
            cluster.patch("leases", LEASES, "b1", {"spec": spec})

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    eventually(
        lambda: "00:01:" in cluster.get("leases", LEASES, "b1")["spec"]["renewTime"], within=5, describe="a renewal"
    )
    yield
    ended.set()
    thread.join()


@pytest.mark.usefixtures("kubelet")
def test_live_nodes_are_not_reported(cluster: Api) -> None:
    assert doubt(cluster, NODES, within=5) == ""


def test_silent_kubelet_is_noticed(cluster: Api) -> None:
    assert "node b1 does not respond (its kubelet last renewed" in doubt(cluster, NODES, within=0.1)


def test_unready_node_is_named_with_its_message(cluster: Api) -> None:
    condition = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
    cluster.patch("nodes", "", "b1", {"status": {"conditions": [condition]}}, subresource="status")
    assert "node b1 is not ready (Kubelet stopped posting node status.)" in doubt(cluster, NODES)


def test_deleted_node_is_reported(cluster: Api) -> None:
    cluster.delete("nodes", "", "a1")
    assert "node a1 was removed from the cluster" in doubt(cluster, NODES)
