"""Tests the error for an unready proxy on kind.

The error names the component, the pod and the node, and quotes the log.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from harness.api.client import Api, Object, Response
from harness.backends.kind.workloads import lacking, selector_of, trouble
from harness.recipes.installation import Workload

AGENT = Workload("DaemonSet", "kube-system", "agent")
SEE = "see `kubectl logs --previous`"
LOG = "starting\nE1124 10:00:00.000000       1 main.go:1] no such table\nbye\n"


def api(status: Object | None, pods: list[Object] = [], log: str = "") -> Api:  # noqa: B006
    """Return an API with a DaemonSet, or without one if there is no status.

    `asked` collects the paths of requested logs.
    """

    class FakeApi:
        asked: list[str] = []  # noqa: RUF012

        def request(self, method: str, path: str) -> Response:
            assert (method, path) == ("GET", "/apis/apps/v1/namespaces/kube-system/daemonsets/agent")
            spec = {"selector": {"matchLabels": {"app": "agent"}}}
            found = {"metadata": {"generation": 2}, "spec": spec, "status": status}
            return Response(404, {}) if status is None else Response(200, found)

        def list(self, resource: str, namespace: str, *, label_selector: str) -> list[Object]:
            assert (resource, namespace, label_selector) == ("pods", "kube-system", "app=agent")
            return pods

        def text(self, path: str) -> str:
            self.asked.append(path)
            return log

    return cast("Api", FakeApi())


def counts(wanted: int, ready: int, updated: int) -> Object:
    return {
        "observedGeneration": 2,
        "desiredNumberScheduled": wanted,
        "numberReady": ready,
        "updatedNumberScheduled": updated,
    }


def pod(name: str, node: str, state: Object, restarts: int = 0) -> Object:
    container = {"name": "main", "ready": False, "image": "mine:1", "restartCount": restarts, "state": state}
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"nodeName": node},
        "status": {"containerStatuses": [container]},
    }


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (None, "it does not exist"),
        ({"observedGeneration": 1}, "its controller has not processed it yet"),
        (counts(0, 0, 0), "it has no pod on any node"),
        (counts(3, 1, 3), "1 of 3 pods are ready"),
        (counts(3, 3, 2), "2 of 3 pods are ready"),
        (counts(3, 3, 3), ""),
    ],
)
def test_workload_is_ready_when_all_pods_of_its_template_are(status: Object | None, said: str) -> None:
    assert lacking(api(status), AGENT) == said


def test_crashing_pod_is_reported_with_node_and_previous_log() -> None:
    crashing = pod("agent-x", "t-worker2", {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}, 3)
    cluster = api(counts(2, 0, 2), [pod("agent-a", "t-worker", {"running": {}}), crashing], LOG)
    text, log = trouble(cluster, AGENT, {"t-worker": "a1", "t-worker2": "b1"})
    assert text.splitlines() == [
        "DaemonSet kube-system/agent: 0 of 2 pods are ready",
        f"on b1: pod kube-system/agent-x on node t-worker2: its container crashes repeatedly (back-off): {SEE}",
        "the first error of its log, in line 2 of 3: E1124 10:00:00.000000       1 main.go:1] no such table",
    ]
    assert log == {"agent-b1.log": LOG}
    assert cast("Any", cluster).asked[-1].endswith("/agent-x/log?container=main&limitBytes=1000000&previous=true")


def test_missing_image_is_reported_with_the_recipe_key() -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}
    said = trouble(api(counts(1, 0, 1), [pod("agent-x", "w", waiting)]), AGENT, {})[0]
    assert "image mine:1 cannot be pulled (no such host): build or pull it" in said
    assert "key kind.images" in said


def test_unready_pod_is_reported_with_its_current_log() -> None:
    said = trouble(api(counts(1, 0, 1), [pod("agent-x", "w", {"running": {}})], "waiting\n"), AGENT, {"w": "a1"})[0]
    assert said.splitlines()[1:] == [
        "on a1: pod kube-system/agent-x: it does not become ready",
        "its log has no error, and ends with: waiting",
    ]


def test_selector_is_that_of_its_pods() -> None:
    assert selector_of(api(counts(1, 1, 1)), AGENT) == "app=agent"
