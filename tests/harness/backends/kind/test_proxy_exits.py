"""A proxy that ends by itself on a kind cluster is noticed, though its kubelet starts it again."""

from __future__ import annotations

from typing import Any, cast

import pytest

from harness.api.client import Api, Object
from harness.backends.any_cluster.node_evidence import KUBE_PROXY
from harness.backends.kind.proxy_exits import ProxyExits
from harness.errors import InconclusiveError

RUNS = {"state": {"running": {}}, "restartCount": 0}
END = {"terminated": {"exitCode": 2, "reason": "Error", "containerID": "containerd://1", "finishedAt": "10:00"}}
ENDED = {"state": END, "restartCount": 0}
AGAIN = {"state": {"running": {}}, "restartCount": 1, "lastState": END}
GONE = {**AGAIN, "lastState": {"terminated": {"exitCode": 255, "reason": "Unknown"}}}
KILLED = {**AGAIN, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
WAITS = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 1, "lastState": END}


class Pods:
    """The proxies of a cluster, each with one container."""

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
def pods() -> Pods:
    return Pods()


@pytest.fixture
def endings(pods: Pods) -> ProxyExits:
    return ProxyExits(cast("Api", cast("Any", pods)), [KUBE_PROXY])


def test_one_that_was_started_again_is_told_once_with_the_end_of_its_log(pods: Pods, endings: ProxyExits) -> None:
    pods.containers["x"] = AGAIN
    assert endings.latest() == "kube-proxy on b1 exited with 2; its log ends with:\nstarting\npanic: no luck"
    assert "previous=true" in pods.asked[-1]
    assert endings.latest() == ""


def test_one_that_does_not_run_again_yet_is_told_each_time_and_then_no_more(pods: Pods, endings: ProxyExits) -> None:
    for state in (ENDED, WAITS):
        pods.containers["x"] = state
        assert endings.latest().startswith("kube-proxy on b1 exited with 2; ")
    pods.containers["x"] = AGAIN
    assert endings.latest() == ""


def test_reason_of_an_end_is_told(pods: Pods, endings: ProxyExits) -> None:
    pods.containers["x"] = KILLED
    assert endings.latest().startswith("kube-proxy on b1 exited with 137 (OOMKilled); ")


def test_one_that_had_ended_before_it_was_ready_is_not_told() -> None:
    pods = Pods()
    pods.containers["x"] = AGAIN
    assert ProxyExits(cast("Api", cast("Any", pods)), [KUBE_PROXY]).latest() == ""


@pytest.mark.parametrize("containers", [{"y": RUNS}, {"x": GONE}, {}])
def test_what_scenarios_do_is_no_end(containers: dict[str, Object], pods: Pods, endings: ProxyExits) -> None:
    pods.containers = containers
    assert endings.latest() == ""


def test_an_api_server_that_is_away_says_nothing(pods: Pods, endings: ProxyExits) -> None:
    pods.containers["x"], pods.away = AGAIN, True
    assert endings.latest() == ""
    pods.away = False
    assert endings.latest()
