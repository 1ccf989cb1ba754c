"""Tests changes to the components of a kind cluster: their order, and the unchanged state if an image is missing.

The node is a stub that answers like the shell of a kind node and has the files of kubeadm. It runs a static pod as soon
as its manifest exists. Only tests with a real cluster can show.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.api.client import Api
from harness.backends.kind.components import KindComponents
from harness.backends.kind.static_pods import tag_of
from harness.binaries.versions import Version
from harness.errors import InconclusiveError, UnavailableError
from harness.model.release import API_SERVER, CONTROLLER, release

WRITTEN = Path(__file__).parent / "kubeadm"
MANIFESTS = "/etc/kubernetes/manifests"
PORTS = {6443: "kube-apiserver", 10257: "kube-controller-manager", 10259: "kube-scheduler"}
BOOTED = release("1.34", PreferSameTrafficDistribution=True)


class FakeContainerEngine:
    """A fake container engine with the files of the control plane node. `asked` has all commands."""

    def __init__(self) -> None:
        texts = {name: (WRITTEN / f"{name}.yaml").read_text(encoding="utf-8") for name in PORTS.values()}
        self.files = {f"{MANIFESTS}/{name}.yaml": text for name, text in texts.items()}
        self.asked: list[str] = []
        self.missing: set[str] = set()
        self.images: list[str] = []

    def ask(self, *arguments: str) -> str:
        self.asked.append(" ".join(arguments))
        return ""

    def execute(self, container: str, *command: str, text: str | None = None, seconds: float = 0) -> str:
        self.asked.append(" ".join(command))
        match command:
            case ["cat", path]:
                return self.files[path]
            case ["cp", "/dev/stdin", path]:
                self.files[path] = text or ""
            case ["mv", "-f", path, target]:
                self.files[target] = self.files.pop(path)
            case ["crictl", "pods", *_]:
                return json.dumps({"items": [{"labels": each} for each in self._labels(command)]})
            case ["crictl", "images", *_]:
                return json.dumps({"images": [{"repoTags": self.images}, {"repoTags": []}]})
            case ["crictl", "pull", image] if image in self.missing:
                raise UnavailableError(f"no {image}")
            case ["curl", *_]:
                return self._answer(command[-1])
        return ""

    def _labels(self, command: Sequence[str]) -> list[Mapping[str, str]]:
        name = command[command.index("--label") + 1].partition("=")[2]
        text = self.files.get(f"{MANIFESTS}/{name}.yaml")
        return [yaml.safe_load(text)["metadata"]["labels"]] if text else []

    def _answer(self, url: str) -> str:
        if "://localhost:" not in url:
            return '{"responses": ["b1--td-x"]}\n200' if url.endswith("/dial") else "ok"
        tag = tag_of(self.pod(next(name for port, name in PORTS.items() if f":{port}/" in url)))
        answers = {
            "version": f'{{"gitVersion": "{tag}"}}',
            "metrics": f'kubernetes_build_info{{git_version="{tag}"}} 1',
        }
        return answers.get(url.rpartition("/")[2], "ok")

    def pod(self, name: str) -> Any:
        return yaml.safe_load(self.files[f"{MANIFESTS}/{name}.yaml"])

    def command(self, name: str) -> list[str]:
        return list(self.pod(name)["spec"]["containers"][0]["command"])


@pytest.fixture
def node() -> FakeContainerEngine:
    return FakeContainerEngine()


@pytest.fixture
def api() -> Iterator[Api]:
    """Return the API of an unreachable API server."""
    here = [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}]
    context = [{"name": "x", "context": {"cluster": "x", "user": "x"}}]
    made = Api({"clusters": here, "contexts": context, "users": [{"name": "x", "user": {}}], "current-context": "x"})
    yield made
    made.close()


def components_of(node: FakeContainerEngine, api: Api, *, stays: bool) -> KindComponents:
    return KindComponents(
        node, api, control_plane="td-control-plane", node_names={"a1": "td-worker"}, booted=BOOTED,
        patches={"1.33": "1.33.7"}, stays=stays,
    )  # fmt: skip


@pytest.fixture
def components(node: FakeContainerEngine, api: Api, monkeypatch: pytest.MonkeyPatch) -> KindComponents:
    monkeypatch.setattr("harness.backends.kind.components.newest_patch", lambda _: Version(1, 30, 14))
    return components_of(node, api, stays=True)


def test_close_starts_stopped_nodes_of_a_kept_cluster(node: FakeContainerEngine, api: Api) -> None:
    for stays, expected in ((True, ["kill td-worker", "start td-worker"]), (False, ["kill td-worker"])):
        node.asked.clear()
        components = components_of(node, api, stays=stays)
        components.stop_node("a1")
        components.close()
        assert [each for each in node.asked if each.endswith(" td-worker")] == expected


def test_downgraded_api_server_reports_its_version(node: FakeContainerEngine, components: KindComponents) -> None:
    components.start(API_SERVER, release("1.33"), [])
    assert node.pod("kube-apiserver")["spec"]["containers"][0]["image"] == "registry.k8s.io/kube-apiserver:v1.33.7"
    assert not any("--feature-gates" in each for each in node.command("kube-apiserver"))


def test_minor_version_missing_on_the_node_resolves_to_its_newest_patch(
    node: FakeContainerEngine, components: KindComponents
) -> None:
    components.start(CONTROLLER, release("1.30", ServiceTrafficDistribution=True), [])
    assert tag_of(node.pod("kube-controller-manager")) == "v1.30.14"
    assert "--feature-gates=ServiceTrafficDistribution=true" in node.command("kube-controller-manager")


def test_the_newest_patch_on_the_node_is_taken_for_each_component(
    node: FakeContainerEngine, components: KindComponents
) -> None:
    tags = {"kube-apiserver": ("v1.29.3", "v1.30.4", "v1.30.10"), "kube-controller-manager": ("v1.30.9",)}
    node.images = [f"registry.k8s.io/{name}:{tag}" for name, each in tags.items() for tag in each]
    node.images += ["registry.k8s.io/kube-apiserver:v1.30.12-rc.1", "other/kube-apiserver:v1.30.13", "<none>:<none>"]
    for component in (API_SERVER, CONTROLLER):
        components.start(component, release("1.30"), [])
    assert tag_of(node.pod("kube-apiserver")) == "v1.30.10"
    assert tag_of(node.pod("kube-controller-manager")) == "v1.30.9"


def test_other_gates_do_not_change_the_version(node: FakeContainerEngine, components: KindComponents) -> None:
    components.start(API_SERVER, release("1.34", Other=True), [])
    assert tag_of(node.pod("kube-apiserver")) == "v1.34.0"


def test_nonexistent_version_changes_nothing(node: FakeContainerEngine, components: KindComponents) -> None:
    before = dict(node.files)
    node.missing.add("registry.k8s.io/kube-apiserver:v1.33.7")
    with pytest.raises(UnavailableError, match=r"image registry.*v1.33.7 cannot be pulled .*kind load docker-image"):
        components.start(API_SERVER, release("1.33"), [])
    assert node.files == before


def test_a_manifest_is_put_in_place_by_a_rename(node: FakeContainerEngine, components: KindComponents) -> None:
    components.start(CONTROLLER, BOOTED, [])
    written = [each for each in node.asked if each.startswith(("cp", "mv"))]
    assert written == [
        "cp /dev/stdin /etc/kubernetes/kube-controller-manager.next.yaml",
        f"mv -f /etc/kubernetes/kube-controller-manager.next.yaml {MANIFESTS}/kube-controller-manager.yaml",
    ]


def test_leader_electing_components_stop_during_replacement(
    node: FakeContainerEngine, components: KindComponents
) -> None:
    components.start(API_SERVER, BOOTED, [])
    moved = [each.split()[2].rpartition("/")[2].partition(".")[0] for each in node.asked if each.startswith("mv")]
    clients = ["kube-controller-manager", "kube-scheduler"]
    assert moved == [*clients, "kube-apiserver", *reversed(clients)]
    assert all("--leader-elect=false" in node.command(each) for each in clients)


class FakeNodesApi:
    """The API of a cluster with a control plane node and two workers, one without a status."""

    def list(self, _: str) -> list[dict[str, Any]]:
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        reports = [{"metadata": {"name": name}, "status": ready} for name in ("td-control-plane", "td-worker")]
        return [*reports, {"metadata": {"name": "td-worker2"}}]


def test_connections_of_nodes_are_dropped_while_the_api_server_is_away(node: FakeContainerEngine) -> None:
    components = components_of(node, FakeNodesApi(), stays=False)  # type: ignore[arg-type]
    components.stop(API_SERVER, [])
    assert ["--insert" in each for each in node.asked[:2]] == [True, False]
    assert not any("--delete" in each for each in node.asked)
    node.asked.clear()
    components.start(API_SERVER, BOOTED, [])
    opened = next(number for number, each in enumerate(node.asked) if "--delete" in each)
    assert not any("kube-scheduler" in each for each in node.asked[:opened] if each.startswith("mv"))
    assert any("kube-scheduler" in each for each in node.asked[opened:] if each.startswith("mv"))


def test_port_opens_if_the_api_server_does_not_start(
    node: FakeContainerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.backends.kind.components.START_SECONDS", 0.1)
    components = components_of(node, FakeNodesApi(), stays=False)  # type: ignore[arg-type]
    monkeypatch.setattr(node, "_answer", lambda url: "")
    with pytest.raises(UnavailableError):
        components.start(API_SERVER, BOOTED, [])
    assert any("--delete" in each for each in node.asked)


def test_a_controller_is_stopped_while_the_api_server_is(node: FakeContainerEngine, components: KindComponents) -> None:
    components.stop(API_SERVER, [])
    components.stop(CONTROLLER, [])
    assert not [path for path in node.files if path.startswith(MANIFESTS)]
    components.start(API_SERVER, BOOTED, [])
    assert "--controllers=*,bootstrapsigner,tokencleaner,-endpointslice" in node.command("kube-controller-manager")


def test_a_stopped_api_server_is_started_again_as_it_was_booted(
    node: FakeContainerEngine, components: KindComponents
) -> None:
    before = node.command("kube-apiserver")
    components.stop(API_SERVER, [])
    assert f"{MANIFESTS}/kube-apiserver.yaml" not in node.files
    components.start(API_SERVER, BOOTED, [])
    assert node.command("kube-apiserver") == before


def test_a_stopped_controller_leaves_the_others_running(node: FakeContainerEngine, components: KindComponents) -> None:
    components.stop(CONTROLLER, [])
    assert "--controllers=*,bootstrapsigner,tokencleaner,-endpointslice" in node.command("kube-controller-manager")
    components.start(CONTROLLER, BOOTED, [])
    assert "--controllers=*,bootstrapsigner,tokencleaner" in node.command("kube-controller-manager")


def test_kept_cluster_has_kubeadms_manifests_again(node: FakeContainerEngine, components: KindComponents) -> None:
    before = dict(node.files)
    components.start(API_SERVER, release("1.33"), [])
    components.stop(CONTROLLER, [])
    components.close()
    assert {name: text for name, text in node.files.items() if name.startswith(MANIFESTS)} == before
    asked = len(node.asked)
    components.close()
    assert len(node.asked) == asked


def test_nothing_is_restored_on_a_deleted_cluster(node: FakeContainerEngine, api: Api) -> None:
    components = components_of(node, api, stays=False)
    components.start(API_SERVER, release("1.33"), [])
    asked = len(node.asked)
    components.close()
    assert len(node.asked) == asked


def test_pod_is_reached_from_its_node_without_the_api_server(components: KindComponents) -> None:
    answer = components.ask_pod("a1", "http://10.244.1.2:8080/dial", 5.0)
    assert (answer.code, answer.body) == (200, {"responses": ["b1--td-x"]})
    with pytest.raises(InconclusiveError, match="unexpected answer: 'ok'"):
        components.ask_pod("a1", "http://10.244.1.2:8080/elsewhere", 5.0)
