"""Tests that a recipe's proxy can be stopped and started on single nodes, through the affinity of its DaemonSet."""

from __future__ import annotations

from typing import Any, cast

import pytest

from harness.api.client import Api, Object, Response
from harness.backends.kind import proxy_pods
from harness.backends.kind.proxy_pods import ProxyPods
from harness.errors import UnavailableError
from harness.recipes.installation import Workload

AGENT = Workload("DaemonSet", "kube-system", "agent")
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


class FakeCluster:
    """A DaemonSet and its controller, on nodes w1 and w2."""

    def __init__(self) -> None:
        self.spec: Object = {"selector": {"matchLabels": {"app": "agent"}}, "template": {"spec": {}}}
        self.patches: list[Any] = []
        self.broken = False

    @property
    def excluding(self) -> set[str]:
        if not self.patches or not (affinity := self.patches[-1]["spec"]["template"]["spec"]["affinity"]):
            return set()
        (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        return {each["values"][0] for each in term["matchFields"]}

    def request(self, method: str, path: str, body: Any = None, **_: Any) -> Response:
        assert path == "/apis/apps/v1/namespaces/kube-system/daemonsets/agent"
        if method == "PATCH":
            self.patches.append(body)
        return Response(200, {"spec": self.spec})

    def list(self, resource: str, namespace: str, *, label_selector: str) -> list[Object]:
        assert label_selector == "app=agent"
        status = {} if self.broken else READY
        on = [node for node in ("w1", "w2") if node not in self.excluding]
        return [{"metadata": {}, "spec": {"nodeName": node}, "status": status} for node in on]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def proxies(cluster: FakeCluster) -> ProxyPods:
    return ProxyPods(cast("Api", cast("Any", cluster)), "mine", [AGENT])


def test_node_is_excluded_and_returns(cluster: FakeCluster, proxies: ProxyPods) -> None:
    proxies.stop(["w2"])
    assert cluster.excluding == {"w2"}
    proxies.start(["w2"])
    assert [len(each["spec"]["template"]["spec"]) for each in cluster.patches] == [1, 1, 1]
    assert cluster.excluding == set()


def test_close_restores_the_installed_state(cluster: FakeCluster, proxies: ProxyPods) -> None:
    proxies.stop(["w1", "w2"])
    proxies.close()
    assert cluster.patches[-1]["spec"]["updateStrategy"] == {"type": "RollingUpdate"}
    assert cluster.excluding == set()
    before = len(cluster.patches)
    proxies.close()
    assert len(cluster.patches) == before


def test_proxy_that_does_not_return_is_named(
    cluster: FakeCluster, proxies: ProxyPods, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_pods, "POD_SECONDS", 0.1)
    cluster.broken = True
    with pytest.raises(UnavailableError, match=r"mine on w1; .*DaemonSet kube-system/agent: not ready on w1"):
        proxies.start(["w1"])
