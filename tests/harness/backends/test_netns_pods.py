"""Tests the servers in an embedded cluster: their addresses on nodes, and the names of their ports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.backends.netns import NetnsBackend
from harness.judging.history import History
from trafficdist import (
    Cluster,
    ExpectedTraffic,
    Port,
    at_port,
    endpoint,
    expect_concurrent_traffic,
    expect_flow_answered,
    node_client,
)

UDP, TCP = Port(80, "UDP", "udp"), Port(80, name="tcp")


@pytest.fixture(scope="module")
def backend(netns_allowed: None) -> Iterator[NetnsBackend]:
    with NetnsBackend() as booted:
        yield booted


@pytest.fixture
def cluster(backend: NetnsBackend, tmp_path: Path) -> Iterator[Cluster]:
    with (
        closing(History(tmp_path / "history.jsonl")) as history,
        closing(Cluster(backend, "shop", history=history, test="T/one")) as made,
    ):
        yield made


def test_server_on_the_host_network_answers_at_its_nodes_addresses(cluster: Cluster) -> None:
    (a1,) = cluster.run_servers(["a1"], host_network=True)
    assert a1.addresses == cluster.backend.booted.node_addresses("a1")
    assert cluster.api.get("pods", cluster.namespace, "a1")["spec"]["hostNetwork"] is True

    service = cluster.create_service(ports=[TCP, UDP], dual_stack=True)
    cluster.publish(service, [endpoint(a1)])
    families = ("IPv4", "IPv6")
    questions = [
        ExpectedTraffic(
            f"{port.name} {family}", service, {"b1": {a1}, node_client("a1"): {a1}}, family=family, port=port
        )
        for port in (TCP, UDP)
        for family in families
    ]
    expect_concurrent_traffic(cluster, questions)


def test_node_outlives_its_server(cluster: Cluster) -> None:
    for _ in range(2):  # the ports are free for the second server
        (a1,) = cluster.run_servers(["a1"], host_network=True)
        cluster.delete_pod(a1)
    assert cluster.backend.booted.node_addresses("a1")


def test_each_port_of_a_server_has_a_name(cluster: Cluster) -> None:
    (a1,) = cluster.run_servers(["a1"], container_ports=[("web", 9000, "TCP")], tells_port=True)
    service = cluster.create_service(ports=[Port(80, name="one"), Port(81, name="other", target=9000)])
    cluster.publish(service, [endpoint(a1)])
    expected = {80: at_port(a1, 8080), 81: at_port(a1, 9000)}
    expect_concurrent_traffic(
        cluster,
        [ExpectedTraffic(str(port.port), service, {"b1": {expected[port.port]}}, port=port) for port in service.ports],
    )


def test_unanswered_flow_is_answered_later(cluster: Cluster) -> None:
    (a1,) = cluster.run_servers(["a1"])
    service = cluster.create_service(ports=[UDP])
    with expect_flow_answered(cluster, service, "b1", {a1}):
        cluster.publish(service, [endpoint(a1)])


def test_flow_that_another_pod_answers_fails(cluster: Cluster) -> None:
    cluster.converges_within = 0.1
    a1, b1 = cluster.run_servers(["a1", "b1"])
    service = cluster.create_service(ports=[UDP])
    cluster.publish(service, [endpoint(a1)])
    with (
        pytest.raises(AssertionError, match="server of the flow of c1: expected 'b1', observed 'a1'"),
        expect_flow_answered(cluster, service, "c1", {b1}),
    ):
        pass
