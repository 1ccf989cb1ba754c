"""Feature gates are read from metrics. Tests check the queried endpoint, and the reason if none is readable."""

from __future__ import annotations

from typing import cast

import pytest

from explain import objects
from explain.cluster import Cluster
from explain.components import MinimumRelease, proof, read_gates
from explain.diagnosis import diagnose
from explain.what_if import supposed
from harness.api.client import Api, Object
from harness.backends.netns import NetnsBackend
from harness.errors import InconclusiveError, UsageError
from harness.model.release import Release
from tests.explain.cluster_builders import (
    EACH_ZONE,
    ZONES,
    by_annotation,
    node,
    nodes,
    of_slice,
    pod,
    proxy,
    service,
    unhinted,
)
from tests.explain.cluster_builders import objects as objects_of

GATE = 'kubernetes_feature_enabled{name="PreferSameTrafficDistribution",stage="BETA"} 0\n'
NAME = "PreferSameTrafficDistribution"


class FakeApiServer:
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
        cast("Api", FakeApiServer(metrics)),
        version,
        [proxy("a1", "v1.34.1"), proxy("a2", "v1.34.2"), proxy("b1")],
        managers,
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
    assert read_gates(cast("Api", FakeApiServer({})), "v1.37.0", [proxy("a1")], []) == ({}, {})


ZONES_OF_129 = nodes(**{each: node(each, zone, version="v1.29.4") for each, zone in ZONES.items()})
OLD = service({"service.kubernetes.io/topology-aware-hints": "Auto"}, asks="")
PROVEN = {
    "a value of 1.34": (service(), (1, 34), "at least 1.34 (Service shop/web has trafficDistribution PreferSameZone)"),
    "a value of 1.31": (
        service(asks="PreferClose"),
        (1, 31),
        "at least 1.31 (Service shop/web has trafficDistribution",
    ),
    "hints by an annotation of 1.27": (by_annotation(), (1, 29), "at least 1.29 (kubelet v1.29.4)"),
    "an older annotation": (OLD, (1, 29), "at least 1.29 (kubelet v1.29.4)"),
    "nothing": (service(asks=""), (1, 29), "at least 1.29 (kubelet v1.29.4)"),
}


@pytest.mark.parametrize(("asked", "version", "said"), PROVEN.values(), ids=PROVEN)
def test_unknown_control_plane_is_as_new_as_its_objects_prove(
    asked: Object, version: tuple[int, int], said: str
) -> None:
    cluster = Cluster(objects_of(asked, on=ZONES_OF_129, version=""), "released")
    assert cluster.features.version == version
    assert said in cluster.known_at_least
    assert "value-unknown-to-the-controller" not in {each.cause.id for each in diagnose(asked, cluster).findings}


def test_hints_prove_a_release_older_than_that_of_the_field() -> None:
    assert proof([by_annotation()], [of_slice(*EACH_ZONE)]).version == (1, 27)
    assert (
        proof([by_annotation()], [of_slice(*unhinted("a1"))])
        == proof([OLD], [of_slice(*EACH_ZONE)])
        == MinimumRelease()
    )


def test_release_that_is_known_counts_whatever_is_stored() -> None:
    cluster = Cluster(objects_of(service(), version="v1.32.0"), "released")
    assert (cluster.features.version, cluster.known_at_least) == ((1, 32), "")


def test_supposition_proves_nothing() -> None:
    cluster = Cluster(objects_of(service(asks=""), on=ZONES_OF_129, version=""), "released")
    with pytest.raises(UsageError, match="the API server refuses it"):
        supposed(["trafficDistribution=PreferSameNode"], ("shop", "web"), cluster)


def test_the_gates_of_an_api_server_are_among_what_is_read() -> None:
    release = Release("1.34", gates={NAME: False}, follows="released")
    with NetnsBackend(release=release) as backend:
        seen = objects.of_all(backend.api)
    assert seen.gates["kube-apiserver"][NAME] is False
    assert seen.at.startswith("20")
