"""Tests that a hung proxy is detected even if it reports to be in sync.

The harness reports the proxy and never waits for it again.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.backends import component_sync
from harness.backends.backend import WantedPod
from harness.backends.component_sync import ProxyLiveness
from harness.backends.implementation import reference
from harness.backends.netns import NetnsBackend
from harness.errors import EndedError
from harness.eventually import eventually
from harness.model import manifests
from harness.model.manifests import Endpoint
from harness.model.outcomes import Reached
from harness.model.release import PROXY
from harness.model.topology import grid
from harness.model.workloads import pod_client
from harness.netns import activity
from harness.probes.loop import Probe
from harness.proxies.executable import ExecutableProxy
from harness.recipes.recipe import OF_PROXY, parse_recipe
from harness.run_delay import threads_of
from tests.conformance.mutant_trials import time_scaled

ROOT = Path(__file__).parents[3]
SMALL = [sys.executable, str(ROOT / "examples/small-proxy/small_proxy.py"), "{node}", "{kubeconfig}", "{cluster_cidrs}"]


@pytest.fixture
def cluster() -> Iterator[NetnsBackend]:
    """Boot two nodes. The proxy on each node is a program that does not report its progress."""
    recipe = parse_recipe({"name": "small", "command": [*SMALL, "10300"], "ready": [{"log": "serving"}]}, OF_PROXY)

    def proxy(plane: Any, pod_cidrs: Any) -> ExecutableProxy:
        return ExecutableProxy(plane, recipe, pod_cidrs=pod_cidrs)

    topology = grid("two-nodes", {"a": 1, "b": 1})
    with NetnsBackend(topology, implementation=replace(reference(), proxy=proxy)) as booted:
        yield booted


def reach_a_service(cluster: NetnsBackend) -> None:
    """Create a Service, and wait until each proxy serves it. This shows that the proxies have open watches."""
    cluster.create_namespace("mine")
    (pod,) = cluster.run_pods("mine", [WantedPod("server", "a1")])
    made = cluster.api.create("services", "mine", manifests.service("web"))
    endpoints = [Endpoint(pod.addresses, node="a1", zone="a")]
    cluster.api.create("endpointslices", "mine", manifests.endpoint_slice("web", "web", endpoints))
    nodes = [cluster.namespace_of(pod_client(each)) for each in ("a1", "b1")]
    probes = [Probe(each, "TCP", made["spec"]["clusterIP"], 80) for each in nodes]
    eventually(
        lambda: all(isinstance(each, Reached) for each in cluster.probe(probes)), within=10, describe="a Service"
    )


def hang(cluster: NetnsBackend, node: str, how: signal.Signals) -> None:
    """Stop or continue a node's proxy.

    After a stop, wait until all its threads are stopped, so that none reads an event.
    """
    assert isinstance(cluster.proxy, ExecutableProxy)
    pid = cluster.proxy._programs._parts[0].processes.running[node].pid
    os.kill(pid, how)
    if how is signal.SIGSTOP:
        eventually(
            lambda: {each.state for _, each in threads_of(Path(f"/proc/{pid}"))} <= {"T"},
            within=10,
            describe="all its threads to stand still",
        )


def test_hung_proxy_is_found_once_and_not_waited_for_again(
    cluster: NetnsBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    reach_a_service(cluster)
    cluster.check_instruments()
    hang(cluster, "b1", signal.SIGSTOP)
    cluster.settle()
    said = r"service-proxy has stopped processing changes: a new Service is not reachable from b1 after 30 s, though"
    with time_scaled(0.03), pytest.raises(EndedError, match=said) as ended:
        cluster.check_instruments()
    assert ended.value.component == PROXY
    with monkeypatch.context() as never_looks:
        never_looks.setattr(component_sync, "CHECK_SECONDS", 1e6)
        never_looks.setattr(ProxyLiveness, "unresponsive", None)
        with pytest.raises(EndedError, match=said):
            cluster.settle()
    hang(cluster, "b1", signal.SIGCONT)
    monkeypatch.setattr(component_sync, "CHECK_SECONDS", 0.0)
    cluster.settle()
    cluster.check_instruments()


def test_stopped_proxy_is_found_during_a_wait(cluster: NetnsBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    reach_a_service(cluster)
    hang(cluster, "b1", signal.SIGSTOP)
    monkeypatch.setattr(activity, "HUNG_EVERY", 0.1)
    made = cluster.api.create("services", "mine", manifests.service("late"))
    probe = Probe(cluster.namespace_of(pod_client("b1")), "TCP", made["spec"]["clusterIP"], 80)
    said = "on b1 it has not run for 5 s, was never ready to run, and has not read the API server's data"
    with pytest.raises(EndedError, match=said) as ended:
        eventually(
            lambda: isinstance(cluster.probe([probe])[0], Reached),
            within=20,
            describe=lambda: (
                f"the end of one that stood still for {cluster._hung._still} looks, at last with {cluster._hung._last}"
            ),
        )
    assert ended.value.component == PROXY
    with pytest.raises(EndedError, match=said):
        cluster.settle()
    hang(cluster, "b1", signal.SIGCONT)


def test_node_without_proxy_is_not_checked(cluster: NetnsBackend) -> None:
    reach_a_service(cluster)
    cluster.stop_component(PROXY, ["b1"])
    cluster.check_instruments()


def test_stopped_node_is_not_checked(cluster: NetnsBackend) -> None:
    reach_a_service(cluster)
    cluster.stop_node("b1")
    cluster.check_instruments()


def test_instrument_check_ignores_proxies_that_never_served(cluster: NetnsBackend) -> None:
    hang(cluster, "a1", signal.SIGSTOP)
    hang(cluster, "b1", signal.SIGSTOP)
    cluster.check_instruments()
    hang(cluster, "a1", signal.SIGCONT)
    hang(cluster, "b1", signal.SIGCONT)
    assert not [each for each in cluster.api.list("namespaces") if each["metadata"]["name"].startswith("td-liveness")]
