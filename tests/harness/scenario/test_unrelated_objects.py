"""Unrelated objects take few requests, and the next scenario uses those of the scenario before."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from harness.backends.backend import WantedPod
from harness.model import manifests
from harness.model.manifests import Endpoint
from harness.scenario.unrelated_objects import CHANGES, MOST_TWINS, NUMBERS, SharedServices, UnrelatedObjects
from harness.variation.axes import PLAIN, parse_draw

SERVICE = manifests.service("web-1")
SLICE = manifests.endpoint_slice("web-1-slice-ipv4", "web-1", [Endpoint({"IPv4": "10.0.0.1"})])


class FakeCluster:
    """A backend, its API and its scenario in one. It has the objects of each namespace."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[tuple[str, str], dict[str, Any]]] = {"td-1": {}}
        self.requests: Counter[str] = Counter()
        self.api = self.booted = self

    def create_namespace(self, namespace: str) -> None:
        self.objects[namespace] = {}

    def delete_namespace(self, namespace: str) -> None:
        del self.objects[namespace]

    def settle(self) -> float:
        return 0.0

    def find(self, protocol: type) -> FakeCluster:
        return self

    def create_reported_pod(self, namespace: str, wanted: WantedPod, *, phase: str) -> None:
        pod = manifests.pod(wanted.name, wanted.node, labels=wanted.labels)
        self.create("pods", namespace, {**pod, "status": {"phase": phase}})

    def get(self, resource: str, namespace: str, name: str) -> dict[str, Any]:
        return self.objects[namespace][resource, name] if namespace else {"metadata": {"name": name, "uid": "1"}}

    def create(self, resource: str, namespace: str, obj: dict[str, Any]) -> dict[str, Any]:
        key = resource, obj["metadata"]["name"]
        assert key not in self.objects[namespace]
        self.requests["create"] += 1
        self.objects[namespace][key] = obj
        return {**obj, "spec": {"ipFamilies": ["IPv4"], **obj.get("spec", {})}}

    def delete(self, resource: str, namespace: str, name: str) -> None:
        self.requests["delete"] += 1
        del self.objects[namespace][resource, name]

    def patch(self, resource: str, namespace: str, name: str, patch: dict[str, Any], subresource: str = "") -> None:
        self.objects[namespace][resource, name].setdefault("status", {}).update(patch.get("status", {}))
        self.requests["patch"] += 1


def unrelated(cluster: FakeCluster, draw: str, shared: SharedServices | None = None) -> UnrelatedObjects:
    return UnrelatedObjects(cluster, "td-1", parse_draw(draw), shared)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", NUMBERS)
def test_other_services_are_written_once_for_all_scenarios(value: str) -> None:
    cluster, shared = FakeCluster(), SharedServices()
    for _ in range(3):
        unrelated(cluster, f"neighbours={value}", shared).close()
    services = [name for resource, name in cluster.objects[shared.namespace] if resource == "services"]
    assert len(services) == NUMBERS[value]
    assert cluster.requests["create"] == NUMBERS[value] + NUMBERS["many"]
    unrelated(cluster, "plain", shared)
    assert list(cluster.objects) == ["td-1"]


def test_scenario_alone_deletes_its_other_services() -> None:
    cluster = FakeCluster()
    unrelated(cluster, "neighbours=many").close()
    assert list(cluster.objects) == ["td-1"]


def test_twins_have_the_names_of_the_scenario_and_other_endpoints() -> None:
    cluster, shared = FakeCluster(), SharedServices()
    for _ in range(2):  # the second scenario finds the objects of the first
        made = unrelated(cluster, "neighbours=twin", shared)
        made.before_service(made.draw, SERVICE, ["IPv4"])
        assert not made.before_slice(made.draw, SLICE)
    twins = cluster.objects[shared.namespace]
    assert {("services", "web-1"), ("endpointslices", "web-1-slice-ipv4")} < twins.keys()
    addresses = {each["addresses"][0] for twin in twins.values() for each in twin.get("endpoints", ())}
    assert addresses == {"192.0.2.7"}
    assert cluster.requests == {"create": 3}


def test_twin_follows_a_change_of_its_object() -> None:
    cluster, shared = FakeCluster(), SharedServices()
    for ports in ((manifests.TCP,), (manifests.UDP,)):
        made = unrelated(cluster, "neighbours=twin", shared)
        made.before_service(made.draw, manifests.service("web-1", ports=ports), ["IPv4"])
    (port,) = cluster.objects[shared.namespace]["services", "web-1"]["spec"]["ports"]
    assert port["protocol"] == "UDP"


def test_number_of_twins_is_limited() -> None:
    cluster, shared = FakeCluster(), SharedServices()
    names = set()
    for number in range(3 * MOST_TWINS):
        made = unrelated(cluster, "neighbours=twin", shared)
        made.before_service(made.draw, manifests.service(f"web-{number}"), ["IPv4"])
        names.add(shared.namespace)
    assert len(cluster.objects[shared.namespace]) <= MOST_TWINS + 1
    assert len(names) > 3  # a cluster may still be deleting the earlier namespaces


def test_history_ends_with_the_objects_of_the_scenario() -> None:
    cluster = FakeCluster()
    made = unrelated(cluster, "history=remade")
    made.before_service(made.draw, SERVICE, ["IPv4"])
    assert cluster.objects == {"td-1": {}}
    assert cluster.requests == {"create": 2, "delete": 2}


def test_changed_slice_costs_one_more_request() -> None:
    cluster = FakeCluster()
    made = unrelated(cluster, "history=changed")
    assert made.before_slice(made.draw, SLICE)
    assert cluster.requests == {"create": 1}
    (written,) = cluster.objects["td-1"].values()
    assert written["endpoints"][0]["conditions"]["ready"] is False


def test_busy_slice_is_changed_many_times() -> None:
    cluster = FakeCluster()
    made = unrelated(cluster, "history=busy")
    assert made.before_slice(made.draw, SLICE)
    assert cluster.requests == {"create": 1, "patch": CHANGES}
    other = manifests.endpoint_slice("web-2-slice-ipv4", "web-2", [])
    made.before_slice(made.draw, other)  # after `clear`, the scenario counts its slices again
    assert cluster.requests["patch"] == CHANGES


def test_owner_is_the_namespace_of_the_scenario() -> None:
    made = unrelated(FakeCluster(), "extras=newer")
    assert made.owner_of_slices(made.draw) == {"kind": "Namespace", "metadata": {"name": "td-1", "uid": "1"}}
    assert made.owner_of_slices(PLAIN) is None


def test_failed_pod_has_the_address_and_the_labels_of_the_first_pod() -> None:
    cluster = FakeCluster()
    made = unrelated(cluster, "pods=reused")
    for name, address in (("a1", "10.0.0.1"), ("b1", "10.0.0.2")):
        pod = manifests.pod(name, name, labels={"app": "web"})
        cluster.create("pods", "td-1", {**pod, "status": {"podIP": address, "podIPs": [{"ip": address}]}})
        made.after_pod(name, {"app": "web"})
    ended = cluster.objects["td-1"]["pods", "ended-failed"]
    assert len(cluster.objects["td-1"]) == 3
    assert ended["metadata"]["labels"] == {"app": "web"}
    assert ended["status"] == {"phase": "Failed", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}


def test_ports_of_an_external_name_have_no_unrelated_objects() -> None:
    cluster = FakeCluster()
    made = unrelated(cluster, "history=remade,neighbours=twin", SharedServices())
    name = manifests.service("web-1", type="ExternalName", externalName="example.com")
    made.before_service(made.draw, name, ["IPv4"])
    assert not cluster.requests
