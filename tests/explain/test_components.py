"""Feature gates are read from metrics. Tests check the queried endpoint, and the reason if none is readable."""

from __future__ import annotations

from typing import cast

from explain import objects
from explain.components import read_gates
from harness.api.client import Api
from harness.backends.netns import NetnsBackend
from harness.errors import InconclusiveError
from harness.model.release import Release
from tests.explain.building import pod, proxy

GATE = 'kubernetes_feature_enabled{name="PreferSameTrafficDistribution",stage="BETA"} 0\n'
NAME = "PreferSameTrafficDistribution"


class Server:
    """An API server that serves these metrics, by path. The server rejects requests for other pods."""

    def __init__(self, metrics: dict[str, str]) -> None:
        self.metrics = metrics

    def text(self, path: str, *, timeout: float = 0.0) -> str:
        if path != "/metrics" and path not in self.metrics:
            raise InconclusiveError(f"no answer within {timeout:g} s")
        return self.metrics.get(path, "")


def read(metrics: dict[str, str], version: str = "v1.34.1", *, manager: bool = True) -> tuple[object, dict[str, str]]:
    managers = [{**pod("kcm-1", "a1"), "metadata": {"name": "kcm-1", "namespace": "kube-system"}}] if manager else []
    return read_gates(
        cast("Api", Server(metrics)), version, [proxy("a1", "v1.34.1"), proxy("a2", "v1.34.2"), proxy("b1")], managers
    )


PODS = "/api/v1/namespaces/kube-system/pods"


def test_each_component_is_asked_at_its_own_place() -> None:
    paths = {
        "kube-apiserver": "/metrics",
        "kube-controller-manager": f"{PODS}/https:kcm-1:10257/proxy/metrics",
        "kube-proxy 1.34": f"{PODS}/kube-proxy-a1:10249/proxy/metrics",
    }
    assert read(dict.fromkeys(paths.values(), GATE)) == ({name: {NAME: False} for name in paths}, {})


def test_unreadable_component_is_reported_with_the_remedy() -> None:
    found, unread = read({})
    assert found == {}
    assert {name: words in unread[f"feature gates of {name}"] for name, words in {
        "kube-apiserver": "permission to get /metrics (nonResourceURLs)",
        "kube-controller-manager": "permission to get pods/proxy in namespace kube-system, and --bind-address",
        "kube-proxy 1.34": "metricsBindAddress other than 127.0.0.1",
    }.items()} == dict.fromkeys(["kube-apiserver", "kube-controller-manager", "kube-proxy 1.34"], True)  # fmt: skip
    assert "is not in a pod" in read({}, manager=False)[1]["feature gates of kube-controller-manager"]


def test_gates_that_are_permanent_are_not_asked_for() -> None:
    assert read_gates(cast("Api", Server({})), "v1.37.0", [proxy("a1")], []) == ({}, {})


def test_the_gates_of_an_api_server_are_among_what_is_read() -> None:
    release = Release("1.34", gates={NAME: False}, follows="released")
    with NetnsBackend(release=release) as backend:
        seen = objects.of_all(backend.api)
    assert seen.gates["kube-apiserver"][NAME] is False
    assert seen.at.startswith("20")
