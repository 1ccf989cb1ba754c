"""Tests the real components in the cache: they start, serve requests, run controllers, and restart."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest

from harness.api.client import Api, Object
from harness.control_planes.binaries import BinaryControlPlane
from harness.control_planes.containers import ContainerControlPlane
from harness.control_planes.control_plane import ControlPlane
from harness.control_planes.hybrid import HybridControlPlane
from harness.control_planes.processes import Processes
from harness.errors import InconclusiveError, UnavailableError
from harness.eventually import eventually
from harness.model import manifests
from harness.model.metrics import Metrics
from harness.model.release import Release, release

NEWEST, OLD = "1.37", "1.30"
WEB = {"app": "web"}


def _need(processes: Processes, component: str, version: str) -> None:
    try:
        processes.find(component, version)
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")


@contextmanager
def _stopped(plane: BinaryControlPlane | HybridControlPlane) -> Iterator[None]:
    """Stop the control plane after the test, even if a component is missing."""
    try:
        yield
    finally:
        plane.stop()


@pytest.fixture(scope="module", params=["binaries", pytest.param("containers", marks=pytest.mark.slow)])
def plane(request: pytest.FixtureRequest) -> Iterator[BinaryControlPlane]:
    kind = {"binaries": BinaryControlPlane, "containers": ContainerControlPlane}[request.param]
    try:
        made = kind(Release(NEWEST))
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")
    with _stopped(made):
        _need(made._processes, "kube-apiserver", NEWEST)
        _need(made._processes, "kube-controller-manager", NEWEST)
        made.start()
        yield made


@pytest.fixture
def api(plane: BinaryControlPlane) -> Iterator[Api]:
    with closing(Api(plane.kubeconfig())) as connected:
        yield connected


def _settle(plane: ControlPlane) -> None:
    eventually(plane.synced, within=30, describe="the controller to have worked on everything")


def _run_service(api: Api, name: str, **spec: Any) -> None:
    api.create("namespaces", "", {"metadata": {"name": name}})
    node = {"metadata": {"name": f"{name}-a1", "labels": {"topology.kubernetes.io/zone": "a"}}}
    api.create("nodes", "", node)
    api.create("pods", name, manifests.pod("p1", f"{name}-a1", labels=WEB))
    status = manifests.pod_status({"IPv4": "10.245.0.9"}, "192.0.2.9", ready=True)
    api.patch("pods", name, "p1", {"status": status}, subresource="status")
    api.create("services", name, manifests.service("web", selector=WEB, **spec))


def _endpoints(api: Api, name: str) -> list[Object]:
    return [each for found in api.list("endpointslices", name) for each in found.get("endpoints") or ()]


def test_synced_controller_has_processed_all_writes(plane: BinaryControlPlane, api: Api) -> None:
    _run_service(api, "synced", trafficDistribution="PreferSameNode")
    _settle(plane)
    (endpoint,) = _endpoints(api, "synced")
    assert endpoint["hints"] == {"forZones": [{"name": "a"}], "forNodes": [{"name": "synced-a1"}]}


def test_barrier_is_not_seen_in_metrics(plane: BinaryControlPlane, api: Api) -> None:
    _settle(plane)
    before = Metrics(plane.metrics())
    api.create("namespaces", "", {"metadata": {"name": "more"}})
    _settle(plane)
    after = Metrics(plane.metrics())
    for name in ("endpoint_slice_controller_changes", "endpoint_slice_controller_endpointslices_changed_per_sync_sum"):
        assert (after.total(name), bool(before.values(name))) == (before.total(name), True)


def test_api_server_goes_back_and_forth_on_the_same_data(plane: BinaryControlPlane, api: Api) -> None:
    _need(plane._processes, "kube-apiserver", OLD)
    _run_service(api, "rolled", trafficDistribution="PreferClose")
    before = api.get("services", "rolled", "web")
    plane.start_api_server(release(OLD, ServiceTrafficDistribution=True))
    assert plane.version.startswith(f"v{OLD}.")
    back = api.get("services", "rolled", "web")
    assert (back["metadata"]["uid"], back["spec"]["clusterIP"]) == (
        before["metadata"]["uid"],
        before["spec"]["clusterIP"],
    )
    plane.start_api_server(Release(NEWEST))
    _settle(plane)
    assert api.get("services", "rolled", "web")["spec"]["trafficDistribution"] == "PreferClose"


def test_stopped_api_server_is_unreachable(plane: BinaryControlPlane, api: Api) -> None:
    plane.stop_api_server()
    with pytest.raises(InconclusiveError, match="did not respond"):
        api.list("nodes")
    assert plane.synced()
    plane.start_api_server(Release(NEWEST))
    _settle(plane)


def test_controller_that_is_stopped_has_no_metrics_and_writes_nothing(plane: BinaryControlPlane, api: Api) -> None:
    plane.stop_controller()
    assert plane.synced()
    with pytest.raises(InconclusiveError, match="stopped and has no metrics"):
        plane.metrics()
    _run_service(api, "stopped")
    assert _endpoints(api, "stopped") == []
    plane.start_controller(Release(NEWEST))
    _settle(plane)
    assert len(_endpoints(api, "stopped")) == 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (release(NEWEST, ServiceTopology=True), "unrecognized feature gate: ServiceTopology"),
        (release(NEWEST, node_level="automatic"), "has no node-level topology"),
        (release("0.7"), r"kube-controller-manager (of )?0\.7"),
    ],
)
def test_release_that_cannot_be_run_is_unavailable(plane: BinaryControlPlane, wrong: Release, words: str) -> None:
    with pytest.raises(UnavailableError, match=words):
        plane.start_controller(wrong)
    plane.start_controller(Release(NEWEST))


def test_each_process_leaves_its_log(plane: BinaryControlPlane) -> None:
    assert set(plane.evidence()) == {"etcd.log", "kube-apiserver.log", "kube-controller-manager.log"}


@pytest.mark.parametrize("version", [OLD, "1.34", NEWEST])
def test_controller_of_any_release_works_for_the_embedded_api_server(version: str) -> None:
    plane = HybridControlPlane(version=version)
    with _stopped(plane):
        _need(plane._processes, "kube-controller-manager", version)
        plane.start()
        with closing(Api(plane.kubeconfig())) as api:
            _run_service(api, "embedded")
            _settle(plane)
            assert [each["nodeName"] for each in _endpoints(api, "embedded")] == ["embedded-a1"]
            assert plane.controller.startswith(f"kube-controller-manager v{version}.")
        plane.stop()


def test_kube_apiserver_reaches_pods(plane: BinaryControlPlane, api: Api) -> None:
    """The harness creates the sockets. Here they are on loopback instead of in another netns."""
    made: list[socket.socket] = []

    class LoopbackSocket(socket.socket):
        def connect(self, address: Any) -> None:
            made.append(self)
            super().connect(("127.0.0.1", address[1]))

    _run_service(api, "reached")
    plane.reach_pods(LoopbackSocket)
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as others:
        path = f"/api/v1/namespaces/reached/pods/p1:{listening.getsockname()[1]}/proxy/hostname?a=b"
        asked = others.submit(api.request, "GET", path)
        with listening.accept()[0] as pod:
            assert pod.recv(4096).startswith(b"GET /hostname?a=b HTTP/1.1\r\n")
            pod.sendall(b"HTTP/1.1 418 Odd\r\nContent-Length: 0\r\n\r\n")
            assert asked.result(20).code == 418
    assert len(made) == 1


@pytest.mark.slow
def test_deleting_a_namespace_deletes_its_objects(plane: BinaryControlPlane, api: Api) -> None:
    """The API server deletes the namespace five seconds later, after the kubelet has removed its pods."""
    _run_service(api, "gone")
    api.delete("namespaces", "", "gone")
    pod = "/api/v1/namespaces/gone/pods/p1"

    def is_ending() -> bool:
        return "deletionTimestamp" in api.request("GET", pod).body["metadata"]

    eventually(is_ending, describe="the pod to be deleted")
    api.delete("pods", "gone", "p1", grace_seconds=0)
    eventually(lambda: api.request("GET", "/api/v1/namespaces/gone").code == 404, describe="it to go")
