"""Tests that each failed window has a packet path, and that the path lists its unavailable parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.backends.implementation import reference
from harness.backends.kubeconfig import KubeconfigBackend
from harness.backends.netns import NetnsBackend
from harness.errors import UnavailableError
from harness.scenario.measuring import measure
from harness.scenario.service import Service
from harness.scenario.service_address import service_address
from tests.harness.tracing.scenarios import paths, scenario
from trafficdist import Cluster, Pod, endpoint, node_client


def served(cluster: Cluster, *on: str) -> tuple[Service, list[Pod]]:
    """Create a Service with a pod on each of these nodes."""
    service = cluster.create_service()
    pods = cluster.run_servers(on=on)
    cluster.publish(service, [endpoint(pod) for pod in pods])
    cluster.settle()
    return service, pods


def test_each_failed_window_has_its_path_and_one_that_passed_has_none(tmp_path: Path) -> None:
    with scenario(tmp_path, reference()) as (cluster, _):
        service, _pods = served(cluster, "b1")
        asks = service_address(cluster, service).path
        measure(cluster, "right", [asks("a1", frozenset({"b1"}))])
        assert paths(cluster) == {}
        for label in ("a1", node_client("a1"), "a1"):
            with pytest.raises(AssertionError):
                measure(cluster, "wrong", [asks("b1", frozenset({"b1"})), asks(label, frozenset({"a1"}))])
        assert list(paths(cluster)) == ["path-a1.txt", "path-node-a1.txt", "path-a1-2.txt"]


def test_failure_that_does_not_recur_is_reported_as_such(tmp_path: Path) -> None:
    with scenario(tmp_path, reference()) as (cluster, _):
        service, (a1, _b1) = served(cluster, "a1", "b1")
        with pytest.raises(AssertionError):
            measure(cluster, "wrong", [service_address(cluster, service).path("a1", frozenset({"a1"}))])
        cluster.publish(service, [endpoint(a1)])
        cluster.settle()
        said = paths(cluster)["path-a1.txt"]
    assert re.search(r"repeated 50 times after .*The outcome in the window did not occur again", said), said
    assert re.search(r"\n *\d+\. a1 answers\n", said), said


def test_client_that_missed_an_endpoint_has_the_path_of_any_packet(tmp_path: Path) -> None:
    with scenario(tmp_path, reference()) as (cluster, _):
        service, _pods = served(cluster, "b1")
        with pytest.raises(AssertionError):
            measure(cluster, "missed", [service_address(cluster, service).path("a1", frozenset({"a1", "b1"}))])
        assert (
            "repeated once after the window, with tracing on node a1. No single packet was wrong"
            in paths(cluster)["path-a1.txt"]
        )


def test_cluster_without_tracing_reports_the_remaining_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise UnavailableError("there is no trace here")

    with scenario(tmp_path, reference()) as (cluster, _):
        service, _pods = served(cluster, "b1")
        with pytest.raises(AssertionError):
            measure(cluster, "wrong", [service_address(cluster, service).path("a1", frozenset({"a1"}))])
        monkeypatch.setattr(NetnsBackend, "follow", refused)
        monkeypatch.setattr(NetnsBackend, "explain", KubeconfigBackend.explain)
        said = paths(cluster)["path-a1.txt"]
    assert "Missing here: the path of the packet: there is no trace here" in said
    assert "Decisions that follow from its objects:" in said
    assert said.count("  Service   ClusterIP 10.96.1.1\n") == 1


def test_kernel_without_trace_leaves_the_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise UnavailableError("the kernel cannot trace packets here")

    with scenario(tmp_path, reference()) as (cluster, _):
        service, _pods = served(cluster, "b1")
        with pytest.raises(AssertionError):
            measure(cluster, "wrong", [service_address(cluster, service).path("a1", frozenset({"a1"}))])
        monkeypatch.setattr("harness.tracing.probe_tracing.tracing", refused)
        said = paths(cluster)["path-a1.txt"]
    assert "Missing here: the kernel cannot trace packets here" in said
    assert re.search(r"1\. client a1 sends 10\S+ → 10\.96\.1\.1:80, tcp", said), said
    assert re.search(r"server b1, in over eth0: \S+ → b1 \(\S+:8080\) tcp SYN\n", said), said


def test_windows_without_time_for_a_trace_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.scenario.evidence.SECONDS", -1.0)
    with scenario(tmp_path, reference()) as (cluster, _):
        service, _pods = served(cluster, "b1")
        with pytest.raises(AssertionError):
            measure(cluster, "wrong", [service_address(cluster, service).path("a1", frozenset({"a1"}))])
        assert paths(cluster)["path-a1.txt"].endswith("not traced: other windows took -1 s\n")
