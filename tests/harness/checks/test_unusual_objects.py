"""Tests that `doctor`, the start of a run, and `explain` can read every object that an API server accepts."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from explain.service import explained
from harness.api.client import Api, path_of
from harness.backends.any_cluster import target
from harness.errors import DistrustError, UnavailableError
from harness.guest import errors
from harness.guest.labels import BEFORE_ANNOTATION, LEASE, NAMESPACE
from harness.guest.nodes import NodeChange, changed, restored
from harness.model import manifests
from harness.model.topology import THREE_ZONES, ZONE_LABEL
from harness.run.prerequisites import examine_cluster
from harness.run.real_cluster import ClusterSession
from harness.settings.options import resolve
from reference.apiserver.api import ApiServer
from reference.apiserver.server import HttpServer
from tests.harness.guest.snapshot import differences, snapshot
from tests.reference.apiserver.hostile_requests import SOUND, odd_objects

Object = dict[str, Any]

SERVICE_NAME = "kubernetes.io/service-name"
KINDS = ("nodes", "services", "endpointslices", "pods", "leases", "namespaces", "events")
PLACES = {"leases": [(NAMESPACE, LEASE), ("kube-node-lease", "a1")], "nodes": [("", "a1"), ("", "odd")]}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
ODD_NODES: dict[str, Object] = {
    "condition without status": {"status": {"conditions": [{"type": "Ready"}]}},
    "conditions of nothing": {"status": {"conditions": [{}]}},
    "no status": {"status": {}},
    "no addresses": {"status": {**READY, "addresses": None}},
    "no allocatable": {"status": {**READY, "allocatable": None}},
    "no cpu": {"status": {**READY, "allocatable": {"memory": "8Gi"}}},
    **{f"cpu {cpu}": {"status": {**READY, "allocatable": {"cpu": cpu}}} for cpu in ("1.5", "1500000u", "2e3", "0.5m")},
    "no spec": {"status": READY, "spec": {}},
    "odd pod CIDRs": {"status": READY, "spec": {"podCIDRs": ["10.0.0.0"]}},
    "no labels": {"metadata": {"labels": None}},
    "empty zone": {"metadata": {"labels": {ZONE_LABEL: ""}}},
    **{
        f"annotation {word[:20]}": {"metadata": {"annotations": {BEFORE_ANNOTATION: word}}}
        for word in ("x", "[]", "5", "{}", '{"run": 5}', '{"run": "r", "labels": 5, "taints": "x"}', "[" * 100_000)
    },
}  # fmt: skip
ODD_LEASES: dict[str, Object] = {
    "no spec": {},
    **{
        f"{key} {value}": {"spec": {key: value}}
        for key, value in (
            ("leaseDurationSeconds", 2**31 - 1),
            ("renewTime", "0001-01-01T00:00:00.000000Z"),
            ("renewTime", "9999-12-31T23:59:59.999999Z"),
            ("renewTime", "0001-01-01T00:00:00.000000+14:00"),
            ("acquireTime", "9999-12-31T23:59:59.999999-14:00"),
            ("holderIdentity", "\x1b[31m"),
        )
    },
    "process": {"metadata": {"annotations": {"trafficdist.dev/process": "99999999999999999999/x"}}},
}


class UserCluster:
    """A user's cluster. The test creates a new cluster for each unusual object."""

    def __init__(self, folder: Path) -> None:
        self.server = HttpServer(ApiServer())
        self.server.start()
        self.api = Api(self.server.kubeconfig(), timeout=5)
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(self.server.kubeconfig()))

    def begin(self) -> None:
        fresh = ApiServer()
        for number, node in enumerate(THREE_ZONES.nodes, 1):
            cidrs = [f"10.244.{number}.0/24", f"fd00:10:244:{number}::/64"]
            fresh.create("nodes", "", manifests.node(node, [f"10.0.0.{number}"], cidrs))
        for name in (NAMESPACE, "kube-node-lease"):
            fresh.create("namespaces", "", {"metadata": {"name": name}})
        fresh.create("services", "default", {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})
        self.server.replace(fresh)

    def plant(self, resource: str, namespace: str, obj: Object) -> bool:
        """Create an object and its status. Return whether the API server accepted it."""
        name = obj["metadata"]["name"]
        try:
            made = self.api.request("POST", path_of(resource, namespace), obj)
        except TypeError:  # the client cannot serialise the number
            return False
        if made.code == 409:
            self.api.delete(resource, namespace, name)
            made = self.api.request("POST", path_of(resource, namespace), obj)
        if made.code == 201 and "status" in obj:
            body = {**obj, "metadata": {**obj["metadata"], "resourceVersion": None}}
            return self.api.request("PUT", path_of(resource, namespace, name, "status"), body).code < 400
        return made.code == 201

    def read(self) -> None:
        """Call every function that reads a cluster."""
        given = {"backend": "kubeconfig", "kubeconfig": str(self.kubeconfig), "allow-disruptive": True}
        assert len(examine_cluster(resolve(given, environment={}))) > 5
        assert differences(snapshot(self.api), {})
        for each in self.api.list("services"):
            explained(self.api, each["metadata"]["namespace"], each["metadata"]["name"], "released")
        for pod in self.api.list("pods"):
            errors.of_pod(pod)
            errors.of_kubelet(pod)
        for node in self.api.list("nodes"):
            errors.of_node("a1", node)
            target.described(THREE_ZONES.nodes[0], node, "a1")
            restored(node)
            changed(node, "run", NodeChange({"a": None}, taints=[{"key": "b"}], unschedulable=True))

    def run_begins(self) -> None:
        """Start and end a run on the cluster. The run may fail with an error that has a reason."""
        session = ClusterSession(resolve({"backend": "kubeconfig", "kubeconfig": str(self.kubeconfig)}), lambda _: None)
        try:
            session.start()
        except (UnavailableError, DistrustError):
            return
        session.close()


@pytest.fixture(scope="module")
def somebody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserCluster]:
    made = UserCluster(tmp_path_factory.mktemp("somebody"))
    yield made
    made.api.close()
    made.server.stop()


def _node(odd: Object) -> Object:
    node = copy.deepcopy(manifests.node(THREE_ZONES.nodes[0], ["10.0.0.1"], ["10.244.1.0/24"]))
    return {**node, **odd, "metadata": {**node["metadata"], **odd.get("metadata", {})}}


def _lease(odd: Object) -> Object:
    return {**odd, "metadata": {"name": LEASE, **odd.get("metadata", {})}}


PLANTED: dict[str, tuple[str, str, Object]] = {
    **{f"node, {name}": ("nodes", "", _node(odd)) for name, odd in ODD_NODES.items()},
    **{f"Lease of runs, {name}": ("leases", NAMESPACE, _lease(odd)) for name, odd in ODD_LEASES.items()},
    **{
        f"Lease of a node, {name}": ("leases", "kube-node-lease", _lease(odd) | {"metadata": {"name": "a1"}})
        for name, odd in ODD_LEASES.items()
        if name.startswith("renewTime")
    },
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=list(PLANTED))
def test_odd_object_can_be_read(somebody: UserCluster, planted: tuple[str, str, Object]) -> None:
    somebody.begin()
    assert somebody.plant(*planted)
    somebody.read()
    if planted[0] == "nodes":
        somebody.run_begins()


@st.composite
def planted_objects(draw: st.DrawFn) -> tuple[str, str, Object]:
    """Return an unusual object with a resource and a namespace that the harness reads."""
    resource = draw(st.sampled_from(KINDS))
    collection = next(each for each in SOUND if each.endswith(f"/{resource}"))
    obj = draw(odd_objects(collection))
    namespace, name = draw(st.sampled_from(PLACES.get(resource, [("default", "web")])))
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        metadata["name"] = name
        labels = metadata.get("labels")
        if resource == "endpointslices" and isinstance(labels, dict):
            labels[SERVICE_NAME] = "web"
    else:
        obj["metadata"] = {"name": name}
    return resource, namespace, obj


@pytest.mark.slow
@pytest.mark.timeout(600)
@given(planted=st.lists(planted_objects(), min_size=1, max_size=4))
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
def test_any_generated_object_can_be_read(somebody: UserCluster, planted: list[tuple[str, str, Object]]) -> None:
    somebody.begin()
    for each in planted:
        somebody.plant(*each)
    somebody.read()
