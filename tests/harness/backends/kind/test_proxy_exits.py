"""Tests that a proxy crash on a kind cluster is noticed even if the kubelet restarts the proxy."""

from __future__ import annotations

from typing import Any, cast

import pytest

from harness.api.client import Api, Object
from harness.backends.any_cluster.node_evidence import KUBE_PROXY
from harness.backends.kind.workloads import ProxyCrashDetector
from harness.errors import InconclusiveError

RUNS = {"state": {"running": {}}, "restartCount": 0}
END = {"terminated": {"exitCode": 2, "reason": "Error", "containerID": "containerd://1", "finishedAt": "10:00"}}
ENDED = {"state": END, "restartCount": 0}
AGAIN = {"state": {"running": {}}, "restartCount": 1, "lastState": END}
GONE = {**AGAIN, "lastState": {"terminated": {"exitCode": 255, "reason": "Unknown"}}}
KILLED = {**AGAIN, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
WAITS = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 1, "lastState": END}


class ProxyPods:
    """The proxy pods of a cluster, each with one container."""

    def __init__(self) -> None:
        self.containers: dict[str, Object] = {"x": RUNS}
        self.away = False
        self.asked: list[str] = []

    def list(self, resource: str, namespace: str, *, label_selector: str) -> list[Object]:
        if self.away:
            raise InconclusiveError("no answer")
        return [
            {
                "metadata": {"uid": uid, "name": f"kube-proxy-{uid}"},
                "spec": {"nodeName": "b1"},
                "status": {"containerStatuses": [{"name": "main", **each}]},
            }
            for uid, each in self.containers.items()
        ]

    def text(self, path: str) -> str:
        self.asked.append(path)
        return "starting\npanic: no luck\n"


@pytest.fixture
def pods() -> ProxyPods:
    return ProxyPods()


@pytest.fixture
def endings(pods: ProxyPods) -> ProxyCrashDetector:
    return ProxyCrashDetector(cast("Api", cast("Any", pods)), [KUBE_PROXY])


def test_restarted_proxy_is_reported_once_with_the_end_of_its_log(pods: ProxyPods, endings: ProxyCrashDetector) -> None:
    pods.containers["x"] = AGAIN
    assert endings.latest() == "kube-proxy on b1 exited with 2; its log ends with:\nstarting\npanic: no luck"
    assert "previous=true" in pods.asked[-1]
    assert endings.latest() == ""


def test_proxy_that_waits_for_its_restart_is_reported_each_time(pods: ProxyPods, endings: ProxyCrashDetector) -> None:
    for state in (ENDED, WAITS):
        pods.containers["x"] = state
        assert endings.latest().startswith("kube-proxy on b1 exited with 2; ")
    pods.containers["x"] = AGAIN
    assert endings.latest() == ""


def test_reason_of_an_exit_is_reported(pods: ProxyPods, endings: ProxyCrashDetector) -> None:
    pods.containers["x"] = KILLED
    assert endings.latest().startswith("kube-proxy on b1 exited with 137 (OOMKilled); ")


def test_exit_before_the_first_look_is_not_reported() -> None:
    pods = ProxyPods()
    pods.containers["x"] = AGAIN
    assert ProxyCrashDetector(cast("Api", cast("Any", pods)), [KUBE_PROXY]).latest() == ""


@pytest.mark.parametrize("containers", [{"y": RUNS}, {"x": GONE}, {}])
def test_changes_by_scenarios_are_not_crashes(
    containers: dict[str, Object], pods: ProxyPods, endings: ProxyCrashDetector
) -> None:
    pods.containers = containers
    assert endings.latest() == ""


def test_absent_api_server_reports_nothing(pods: ProxyPods, endings: ProxyCrashDetector) -> None:
    pods.containers["x"], pods.away = AGAIN, True
    assert endings.latest() == ""
    pods.away = False
    assert endings.latest()
