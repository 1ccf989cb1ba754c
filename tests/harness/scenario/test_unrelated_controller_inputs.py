"""Unrelated inputs of controllers are written in addition to a scenario's objects. Expectations ignore them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.backends.backend import WantedPod
from harness.model import manifests
from harness.model.manifests import MANAGED_BY_LABEL
from harness.scenario.unrelated_objects import UnrelatedControllerInputs
from harness.variation.axes import parse_draw

SERVICE = manifests.service("web-1", selector={"app": "web"}, ipFamilies=["IPv4"])


class FakeCluster:
    """A backend, its API and its pods in one."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.pods: list[WantedPod] = []
        self.api = self.booted = self

    def create(self, resource: str, namespace: str, obj: dict[str, Any]) -> None:
        self.objects[resource, obj["metadata"]["name"]] = obj

    def delete(self, resource: str, namespace: str, name: str) -> None:
        del self.objects[resource, name]

    def find(self, protocol: type) -> FakeCluster:
        return self

    def create_pod(self, namespace: str, wanted: WantedPod) -> None:
        self.pods.append(wanted)


def inputs(cluster: FakeCluster, draw: str) -> UnrelatedControllerInputs:
    return UnrelatedControllerInputs(cluster, "td-1", parse_draw(draw))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["control-plane", "unready"])
def test_nodes_end_with_the_scenario(value: str) -> None:
    cluster = FakeCluster()
    made = inputs(cluster, f"bystanders={value}")
    assert len(cluster.objects) == 3
    made.close()
    assert not cluster.objects


def test_some_pods_have_company_that_is_not_ready() -> None:
    cluster = FakeCluster()
    made = inputs(cluster, "beside=pods")
    for number in range(9):
        made.accompany_pod(WantedPod(f"p{number}", "a1", {"app": "web"}, (), ready=True))
    assert [(each.name, each.node, each.ready) for each in cluster.pods][:1] == [("drawn-p0", "a1", False)]
    assert len(cluster.pods) == 4


def test_some_pods_have_company_without_named_ports() -> None:
    cluster = FakeCluster()
    made = inputs(cluster, "targets=lacking")
    made.accompany_pod(WantedPod("p1", "a1", {"app": "web"}, (("http", 8080, "TCP"),), host_network=True))
    assert cluster.pods == [WantedPod("drawn-p1", "a1", {"app": "web"}, ready=False)]
    slices = [
        {"metadata": {"name": name}, "endpoints": [{"targetRef": {"name": pod}}]}
        for name, pod in (("own", "p1"), ("other", "drawn-p1"))
    ]
    empty: dict[str, Any] = {"metadata": {"name": "empty"}, "endpoints": []}
    assert made.without_own([*slices, empty]) == [slices[0], empty]


def test_expectations_ignore_unrelated_slices_and_pods() -> None:
    cluster = FakeCluster()
    made = inputs(cluster, "beside=slices")
    made.accompany_service(SERVICE)
    slices = list(cluster.objects.values())
    assert [each["metadata"]["labels"].get(MANAGED_BY_LABEL) for each in slices] == [None, "example.org"]
    pods = [{"targetRef": {"name": name}} for name in ("drawn-p1", "p1")]
    own = {"metadata": {"name": "web-1-x"}, "endpoints": pods}
    assert made.without_own([*slices, own]) == [{**own, "endpoints": pods[1:]}]


def test_slices_of_a_service_are_deleted_once() -> None:
    made = inputs(FakeCluster(), "beside=deleted")
    assert [made.is_to_disturb(name) for name in ("web-1", "web-1", "web-2")] == [True, False, True]


def test_plain_draw_has_no_unrelated_inputs() -> None:
    cluster = FakeCluster()
    made = inputs(cluster, "plain")
    made.accompany_service(SERVICE)
    made.accompany_pod(WantedPod("p1", "a1", {"app": "web"}, (), ready=True))
    made.close()
    assert (cluster.objects, cluster.pods, made.is_to_disturb("web-1")) == ({}, [], False)
