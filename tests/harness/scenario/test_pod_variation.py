"""Drawn labels, target ports and networks of pods."""

from __future__ import annotations

from typing import Any

import pytest

from harness.backends.backend import WantedPod
from harness.model import manifests
from harness.model.abilities import Ability
from harness.model.manifests import Port
from harness.scenario.pod_variation import PodVariation
from harness.variation.axes import parse_draw

WEB = {"app": "web"}


class FakeCluster:
    """A backend, its API and its pods in one. It records pods and the patches of their labels."""

    abilities = frozenset({Ability.HOST_NETWORK})

    def __init__(self) -> None:
        self.api = self.booted = self
        self.labels: dict[str, list[dict[str, str | None]]] = {}
        self.ready: dict[str, bool] = {}

    def part(self, protocol: type) -> FakeCluster:
        return self

    def settle(self) -> None:
        pass

    def create_pod(self, namespace: str, wanted: WantedPod) -> None:
        self.labels[wanted.name] = [dict(wanted.labels or {})]
        self.ready[wanted.name] = wanted.ready

    def patch(self, resource: str, namespace: str, name: str, patch: dict[str, Any]) -> None:
        self.labels[name].append(patch["metadata"]["labels"])


def drawn(draw: str) -> tuple[PodVariation, FakeCluster]:
    cluster = FakeCluster()
    return PodVariation(cluster, "td-1", parse_draw(draw)), cluster  # type: ignore[arg-type]


def created(pods: PodVariation, cluster: FakeCluster, name: str, **fields: Any) -> WantedPod:
    wanted = pods.wanted(WantedPod(name, "a1", WEB, **fields), runs=True)
    cluster.create_pod("td-1", wanted)
    pods.after(wanted)
    return wanted


def target_ports(pods: PodVariation, *ports: Port, **spec: Any) -> list[int | str]:
    service = pods.service(manifests.service("web-1", ports=ports, **spec))
    return [each["targetPort"] for each in service["spec"]["ports"]]


def test_plain_draw_changes_nothing() -> None:
    pods, cluster = drawn("plain")
    service = manifests.service("web-1", selector=WEB)
    assert pods.service(service) == service
    assert created(pods, cluster, "p1") == WantedPod("p1", "a1", WEB)
    assert cluster.labels == {"p1": [WEB]}


def test_target_ports_of_selected_pods_have_names_with_several_numbers() -> None:
    pods, cluster = drawn("targets=named")
    assert target_ports(pods, Port(80), Port(53, "UDP"), Port(81, target="web"), Port(9, "SCTP"), selector=WEB) == [
        "drawn-tcp",
        "drawn-udp",
        "web",
        8080,
    ]
    assert target_ports(pods, Port(80)) == [8080]
    numbers = [created(pods, cluster, name).container_ports for name in ("p1", "p2")]
    assert numbers == [(("drawn-tcp", n, "TCP"), ("drawn-udp", n, "UDP")) for n in (8091, 8092)]


def test_wrong_number_of_a_named_port_is_described() -> None:
    pods, cluster = drawn("targets=named")
    service = pods.service(manifests.service("web-1", selector=WEB))
    created(pods, cluster, "p1")
    right, wrong = ({"ports": [{"name": "", "port": number, "protocol": "TCP"}]} for number in (8091, 8080))
    assert pods.wrong_port(service, right, "p1") == ""
    assert pods.wrong_port(service, wrong, "p1") == "at port 8080 instead of 8091"
    assert pods.wrong_port(manifests.service("web-2"), wrong, "p1") == ""
    assert pods.wrong_port(service, wrong, "unknown") == ""


def test_first_value_of_a_label_is_empty() -> None:
    pods, cluster = drawn("labels=empty")
    assert created(pods, cluster, "p1").labels == {"app": ""}
    assert pods.service(manifests.service("web-1", selector=WEB))["spec"]["selector"] == {"app": ""}
    assert pods.labels.of({"app": "other", "tier": None}) == {"app": "other", "tier": None}
    assert [pods.labels.of({"rack": value})["rack"] for value in ("", "1")] == ["", "1"]  # the values stay different


def test_labels_of_the_first_pods_change_before_the_scenario_continues() -> None:
    pods, cluster = drawn("labels=changed")
    for name in ("p1", "p2", "p3"):
        created(pods, cluster, name)
    assert cluster.labels == {"p1": [{"app": "before"}, WEB], "p2": [{"app": "before"}, WEB], "p3": [WEB]}


def test_pods_that_lose_their_labels_are_not_ready() -> None:
    pods, cluster = drawn("labels=removed")
    for name in ("p1", "p2"):
        created(pods, cluster, name)
    del cluster.labels["p1"], cluster.labels["p2"]
    assert cluster.labels == {"former-1": [WEB, {"app": "drawn-other"}], "former-2": [WEB, {"app": None}]}
    assert not cluster.ready["former-1"]


@pytest.mark.parametrize("fields", [{"tells_port": True}, {"host_network": True}])
def test_one_pod_of_a_node_is_in_the_host_network(fields: dict[str, Any]) -> None:
    pods, _ = drawn("pods=host")
    wanted = [WantedPod("p1", "a1", **fields), WantedPod("p2", "a1"), WantedPod("p3", "a1"), WantedPod("p4", "b1")]
    hosts = [pods.wanted(each, runs=True).host_network for each in wanted]
    assert hosts == ([True, False, False, True] if "host_network" in fields else [False, True, False, True])
    assert not pods.wanted(WantedPod("p5", "c1"), runs=False).host_network
