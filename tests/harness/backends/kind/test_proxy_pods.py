"""Tests nodes with a proxy of another release, with a real kube-apiserver and the real DaemonSet controller.

The test takes the role of the scheduler and the kubelets. It binds each pod to the node of its DaemonSet, and sets the
pod to ready.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import yaml

from harness.api.client import Api, Object
from harness.backends.kind.proxy_pods import KubeProxies
from harness.binaries import find
from harness.control_planes import api_server
from harness.control_planes.binaries import BinaryControlPlane
from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.model.release import release
from harness.netns import process

WRITTEN = Path(__file__).parent / "kubeadm" / "kube-proxy.yaml"
VERSION = "1.34"
NODES = ("w1", "w2", "w3")
SYSTEM = "kube-system"
PODS = f"/api/v1/namespaces/{SYSTEM}/pods"
TAG, GATES = "v1.30.13", {"ServiceTrafficDistribution": True}
pytestmark = pytest.mark.slow


class FakeKubelets:
    """Acts as the scheduler and all kubelets until it is closed."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def execute(self, container: str, *command: str, text: str | None = None, seconds: float = 0) -> str:
        """Report a proxy as healthy as soon as it runs."""
        return ""

    def _work(self) -> None:
        while not self._over.wait(0.05):
            for pod in self._api.list("pods", SYSTEM):
                self._see_to(pod)

    def _see_to(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            self._api.delete("pods", SYSTEM, name, grace_seconds=0)
        elif "nodeName" not in pod["spec"]:
            bound = {"metadata": {"name": name}, "target": {"kind": "Node", "name": chosen(pod)}}
            self._api.request("POST", f"{PODS}/{name}/binding", bound)
        elif pod["status"].get("phase") != "Running":
            ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
            self._api.request("PATCH", f"{PODS}/{name}/status", ready, content_type="application/merge-patch+json")


def chosen(pod: Object) -> str:
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])


@pytest.fixture(scope="module")
def cluster_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Return the API of a cluster with a DaemonSet controller, three nodes and kubeadm's kube-proxy."""
    folder = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as patched, ExitStack() as begun:
        patched.setattr(api_server, "_GROUPS", (*api_server._GROUPS, "apps/v1"))
        try:
            manager = find("kube-controller-manager", VERSION)
            plane = BinaryControlPlane(release(VERSION))
            plane.start()
            begun.callback(plane.stop)
        except UnavailableError as error:
            pytest.skip(f"unavailable: {error}")
        (folder / "kubeconfig").write_text(yaml.safe_dump(plane.kubeconfig()), encoding="utf-8")
        command = [
            manager, f"--kubeconfig={folder / 'kubeconfig'}", "--leader-elect=false", "--secure-port=0",
            "--controllers=daemonset-controller,garbage-collector-controller", "--authentication-skip-lookup",
            f"--cert-dir={folder}",
        ]  # fmt: skip
        begun.callback(process.start("kube-controller-manager", command, log=folder / "log").stop)
        api = begun.enter_context(closing(Api(plane.kubeconfig())))
        populate(api)
        yield api


def populate(api: Api) -> None:
    for name in NODES:
        api.create("nodes", "", {"metadata": {"name": name, "labels": {"kubernetes.io/os": "linux"}}})
    config_map, daemon_set = yaml.safe_load_all(WRITTEN.read_text(encoding="utf-8"))
    spec = daemon_set["spec"]["template"]["spec"]
    del spec["priorityClassName"], spec["containers"][0]["securityContext"]  # unavailable on this API server
    api.create("configmaps", SYSTEM, config_map)
    made = api.request("POST", f"/apis/apps/v1/namespaces/{SYSTEM}/daemonsets", daemon_set)
    assert made.code == 201, made.body


@pytest.fixture
def kubelets(cluster_api: Api) -> Iterator[FakeKubelets]:
    made = FakeKubelets(cluster_api)
    eventually(lambda: set(proxies(cluster_api)) == set(NODES), within=30, describe="kubeadm's proxies")
    yield made
    made.close()


def proxies(api: Api) -> dict[str, tuple[str, str]]:
    """Return the proxy's image and pod on each node."""
    return {
        pod["spec"]["nodeName"]: (pod["metadata"]["uid"], pod["spec"]["containers"][0]["image"].rpartition(":")[2])
        for pod in api.list("pods", SYSTEM)
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    }


def test_changing_the_proxy_of_one_node_restarts_no_other(cluster_api: Api, kubelets: FakeKubelets) -> None:
    before = proxies(cluster_api)
    pods = KubeProxies(kubelets, cluster_api)
    pods.start_release(["w2"], TAG, GATES)
    after = proxies(cluster_api)
    assert {node: tag for node, (_, tag) in after.items()} == {"w1": "v1.34.0", "w2": "v1.30.13", "w3": "v1.34.0"}
    assert (after["w1"], after["w3"]) == (before["w1"], before["w3"])
    pods.close()
    last = proxies(cluster_api)
    assert {tag for _, tag in last.values()} == {"v1.34.0"}
    assert (last["w1"], last["w3"]) == (before["w1"], before["w3"])


def test_nodes_join_and_leave_a_release_one_by_one(cluster_api: Api, kubelets: FakeKubelets) -> None:
    pods = KubeProxies(kubelets, cluster_api)
    pods.start_release(["w1"], TAG, GATES)
    first = proxies(cluster_api)["w1"]
    pods.start_release(["w2"], TAG, GATES)
    assert proxies(cluster_api)["w1"] == first
    pods.start(["w1"])
    assert [proxies(cluster_api)[node][1] for node in NODES] == ["v1.34.0", "v1.30.13", "v1.34.0"]
    pods.close()


def test_a_stopped_proxy_stays_away_until_it_is_started(cluster_api: Api, kubelets: FakeKubelets) -> None:
    pods = KubeProxies(kubelets, cluster_api)
    pods.stop(["w3"])
    pods.start(["w2"])
    assert set(proxies(cluster_api)) == {"w1", "w2"}
    pods.start(["w3"])
    assert set(proxies(cluster_api)) == set(NODES)
    pods.close()


def test_close_removes_all_releases(cluster_api: Api, kubelets: FakeKubelets) -> None:
    pods = KubeProxies(kubelets, cluster_api)
    sets = f"/apis/apps/v1/namespaces/{SYSTEM}/daemonsets"
    before = cluster_api.request("GET", f"{sets}/kube-proxy").body["spec"]
    pods.start_release(["w1", "w3"], TAG, GATES)
    assert len({tag for _, tag in proxies(cluster_api).values()}) == 2
    pods.close()
    assert [each["spec"] for each in cluster_api.request("GET", sets).body["items"]] == [before]
    maps = {each["metadata"]["name"] for each in cluster_api.list("configmaps", SYSTEM)}
    assert {name for name in maps if name.startswith("kube-proxy")} == {"kube-proxy"}
