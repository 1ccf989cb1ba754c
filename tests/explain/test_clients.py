"""`trafficdist explain --probe` on an embedded cluster with a kubelet."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from emulator.kubelet.images import REGISTRY
from emulator.kubelet.kubelet import Kubelet
from explain import probe_evidence
from explain.clients import PERMISSIONS
from harness.api.client import Api, Object
from harness.backends.any_cluster import pods
from harness.backends.any_cluster.clients import ClientPods
from harness.backends.backend import WantedPod
from harness.backends.netns import NetnsBackend
from harness.commands.main import main
from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.guest.lease import hold
from harness.model import manifests
from harness.model.release import Component, Release
from harness.netns import conntrack
from harness.settings.implementations import of_settings
from harness.settings.options import resolve
from reference.apiserver.server import HttpServer
from tests.harness.guest.rbac_rules import as_rbac
from tests.harness.guest.snapshot import differences, snapshot
from tests.reference.limited_users import add_user

TRAFFICDIST = str(Path(sys.executable).with_name("trafficdist"))
BY_EMULATOR = ("--image-registry", REGISTRY)
Explain = Callable[..., Result]


@pytest.fixture(scope="module")
def backend(netns_allowed: None) -> Iterator[NetnsBackend]:
    """A cluster with Services shop/web and shop/closed, which have pods on a1, b1 and c1."""
    with NetnsBackend(release=Release(follows="released")) as booted, Kubelet(booted.kubeconfig(), booted.network):
        open_shop(booted, "web", "closed")
        service(booted.api, "headless", clusterIP="None")
        outside = {"type": "ExternalName", "externalName": "example.com"}
        booted.api.create("services", "shop", {"metadata": {"name": "outside"}, "spec": outside})
        eventually(lambda: _acknowledged(booted.api), within=30, describe="each node's word that it has the hints")
        yield booted


def open_shop(backend: NetnsBackend, *names: str) -> None:
    """Services of these names in namespace shop, each with a pod in each zone."""
    backend.api.create("namespaces", "", {"metadata": {"name": "shop"}})
    for name in names:
        service(backend.api, name)
        run_pods(backend, name, "a1", "b1", "c1")


def _acknowledged(api: Api) -> bool:
    conditions = [
        (api.get("services", "shop", name).get("status") or {}).get("conditions") for name in ("web", "closed")
    ]
    return all(each and {one["status"] for one in each} == {"True"} for each in conditions)


def run_pods(backend: NetnsBackend, name: str, *nodes: str) -> None:
    """Run pods of a Service without setting their hostname."""
    for node in nodes:
        made = pods.server(WantedPod(f"{name}-{node}", node), "td-x", {"app": name}, REGISTRY)
        del made["spec"]["readinessGates"], made["spec"]["hostname"]
        backend.api.create("pods", "shop", made)

    def ready() -> bool:
        return all(manifests.has_condition(each, "Ready") for each in backend.api.list("pods", "shop"))

    eventually(ready, within=30, describe="pods")
    backend.settle()


def service(api: Api, name: str, **spec: Any) -> None:
    made = manifests.service(
        name,
        selector={"app": name},
        **({"trafficDistribution": "PreferSameZone", "ipFamilyPolicy": "PreferDualStack"} | spec),
    )
    api.create("services", "shop", made)


@pytest.fixture
def kubeconfig(backend: NetnsBackend, tmp_path: Path) -> Path:
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(backend.kubeconfig()))
    return file


@pytest.fixture
def explain(kubeconfig: Path) -> Explain:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(
            main, ["explain", *BY_EMULATOR, "--kubeconfig", str(kubeconfig), *arguments], env={"COLUMNS": "200"}
        )

    return run


def rows(result: Result, code: int = 0) -> dict[tuple[str, str], Object]:
    assert result.exit_code == code, result.output
    found = json.loads(result.stdout)["probe"]["rows"]
    return {(each["node"], each["family"]): each for each in found}


def test_client_in_each_zone_sees_the_expected_endpoints_and_nothing_is_left(
    backend: NetnsBackend, explain: Explain
) -> None:
    before = snapshot(backend.api)
    found = rows(explain("shop/web", "--probe", "--format=json"))
    assert {place: each["expected"] for place, each in found.items()} == {
        (node, family): [f"web-{node}"] for node in ("a1", "b1", "c1") for family in backend.families
    }
    assert {each["verdict"] for each in found.values()} == {"as expected"}
    assert {one for each in found.values() for one in each["seen"]} == {f"web-{z}1 of zone {z}" for z in "abc"}
    assert list(differences(before, snapshot(backend.api))) == []


def test_answering_pod_is_the_one_selected_by_the_kernel(backend: NetnsBackend, explain: Explain) -> None:
    backend.forget_connections()
    found = rows(explain("shop/web", "--probe", "--format=json"))
    address = found["a1", "IPv4"]["address"]
    of_web = [line for line in conntrack.as_text(backend.network.nodes["a1"].namespace).splitlines() if address in line]
    addresses = {str(each["metadata"]["name"]): each["status"]["podIP"] for each in backend.api.list("pods", "shop")}
    assert of_web
    assert all(f"src={addresses['web-a1']} " in line for line in of_web)


def namespaces(api: Api) -> set[str]:
    return {str(each["metadata"]["name"]) for each in api.list("namespaces")}


@pytest.mark.slow
def test_real_kubernetes_components_behave_as_expected(tmp_path: Path) -> None:
    settings = resolve({"control-plane": "binaries:1.37", "proxy": "kube-proxy", "mode": "nftables"}, environment={})
    try:
        implementation = of_settings(settings)
    except UnavailableError as error:
        pytest.skip(str(error))
    file = tmp_path / "kubeconfig"
    with (
        NetnsBackend(implementation=implementation, release=settings.release) as booted,
        Kubelet(booted.kubeconfig(), booted.network),
    ):
        open_shop(booted, "web")
        file.write_text(yaml.safe_dump(booted.kubeconfig()))
        before = namespaces(booted.api)
        result = CliRunner().invoke(
            main, ["explain", *BY_EMULATOR, "--kubeconfig", str(file), "shop/web", "--probe", "--format=json"]
        )
        left = namespaces(booted.api)
    found = rows(result)
    on_probed = {node: each for (node, _), each in found.items() if node in {"a1", "b1", "c1"}}
    assert {node: [*each["seen"]] for node, each in on_probed.items()} == {
        f"{zone}1": [f"web-{zone}1 of zone {zone}"] for zone in "abc"
    }
    assert {each["verdict"] for each in found.values()} == {"as expected"}
    assert left == before


@pytest.fixture
def without_proxy(backend: NetnsBackend) -> Iterator[None]:
    """Stop the proxy of c1, and delete the pod there."""
    backend.stop_component(Component.PROXY, ["c1"])
    backend.api.delete("pods", "shop", "web-c1", grace_seconds=0)
    backend.settle()
    yield
    backend.start_component(Component.PROXY, backend.release, ["c1"])
    run_pods(backend, "web", "c1")


@pytest.mark.usefixtures("without_proxy")
def test_proxy_that_deviates_is_the_first_cause(explain: Explain) -> None:
    said = explain("shop/web", "--probe").stdout
    first = (
        "connections fail on 1 of 5 nodes: a client on c1 should reach web-a1 web-b1 (zone a, zone b), but got: no an"
    )
    assert said.startswith(f"Service shop/web: {first}"), said
    assert "[proxy-does-otherwise]" in said


def test_foreign_servers_are_only_connected_to(explain: Explain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_evidence, "_TEST_IMAGE", "another")
    said = explain("shop/web", "--probe").stdout
    assert "the servers do not return their names" in said
    assert "a connection 10x  connects" in said


def test_port_without_listener_is_refused(
    backend: NetnsBackend, explain: Explain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_evidence, "_TEST_IMAGE", "another")
    backend.api.patch("services", "shop", "closed", {"spec": {"ports": [{"port": 80, "targetPort": 81}]}})
    backend.settle()
    found = rows(explain("shop/closed", "--probe", "--format=json"), code=1)
    assert {json.dumps(each["seen"]) for each in found.values()} == {'{"refused": 10}'}
    said = explain("shop/closed", "--probe").stdout
    assert "[nobody-listens]" in said
    assert "no program listens on port 81 of closed-a1 (zone a)" in said
    assert "proxy-does-otherwise" not in said


REFUSED = {
    "a name outside": (["shop/outside", "--probe"], "is ExternalName and has no cluster IP"),
    "no address": (["shop/headless", "--probe"], "is headless and has no cluster IP"),
    "an address": (["10.96.0.1", "--probe"], "10.96.0.1"),
    "no Service": (["shop/nobody", "--probe"], "it has closed"),
    "files": (["shop/web", "--probe", "--from", "x"], "one Service of a running cluster"),
    "all": (["--all", "--probe"], "one Service of a running cluster"),
    "a supposition": (["shop/web", "--probe", "--if", "scale=2"], "one Service of a running cluster"),
}


@pytest.mark.parametrize(("arguments", "said"), REFUSED.values(), ids=REFUSED)
def test_address_that_belongs_to_no_service_is_not_probed(
    backend: NetnsBackend, explain: Explain, arguments: list[str], said: str
) -> None:
    writes = backend.control_plane.asked()
    result = explain(*arguments)
    assert (result.exit_code, said in result.output) == (4, True), result.output
    assert [each for each in backend.control_plane.asked()[len(writes) :] if "trafficdist" in each.path] == []


def test_former_address_of_a_service_is_not_probed(
    backend: NetnsBackend, explain: Explain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Service gets another address between the explanation and the probe, so its old address is not probed."""
    before, make = snapshot(backend.api), ClientPods.make

    def make_and_lose(clients: ClientPods) -> None:
        make(clients)
        monkeypatch.setattr(Api, "get", lambda *_: {"spec": {"clusterIPs": ["10.96.77.77"]}})

    monkeypatch.setattr(ClientPods, "make", make_and_lose)
    result = explain("shop/web", "--probe")
    monkeypatch.undo()
    assert (result.exit_code, "only its own addresses can be probed" in result.output) == (4, True), result.output
    assert list(differences(before, snapshot(backend.api))) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 2), (signal.SIGTERM, 2), (signal.SIGKILL, -9)])
def test_terminated_probe_leaves_nothing_that_cleanup_does_not_remove(
    backend: NetnsBackend, kubeconfig: Path, number: signal.Signals, code: int
) -> None:
    before = snapshot(backend.api)
    where = ["--kubeconfig", str(kubeconfig)]
    with subprocess.Popen([TRAFFICDIST, "explain", "shop/web", "--probe", *where]) as process:
        eventually(lambda: _of_a_run(backend.api), within=30, every=0.005, describe="client pods")
        process.send_signal(number)
    assert process.returncode == code
    if number == signal.SIGKILL:
        assert list(differences(before, snapshot(backend.api)))
        subprocess.run([TRAFFICDIST, "cleanup", *where], check=True)
    assert list(differences(before, snapshot(backend.api))) == []


def _of_a_run(api: Api) -> bool:
    return any(each["metadata"]["namespace"].startswith("td-") for each in api.list("pods"))


READING = (
    {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]},
)


@pytest.mark.parametrize("lacking", ["", "leases", "pods"])
def test_the_permissions_of_a_probe_suffice_and_each_is_needed(
    backend: NetnsBackend, explain: Explain, kubeconfig: Path, lacking: str
) -> None:
    rules = [as_rbac(each) for each in PERMISSIONS if lacking not in each.resources or not lacking]
    server: HttpServer = backend.control_plane._server  # type: ignore[attr-defined]
    token = add_user(server, f"bob-without-{lacking or 'nothing'}", [*rules, *READING])
    kubeconfig.write_text(yaml.safe_dump(server.kubeconfig(token=token)))
    result = explain("shop/web", "--probe")
    assert (result.exit_code, f"{lacking}" in result.output) == (12 if lacking else 0, True), result.output


def test_probe_during_a_run_is_refused(backend: NetnsBackend, explain: Explain) -> None:
    with hold(backend.api, "abcd1234"):
        result = explain("shop/web", "--probe")
    assert (result.exit_code, "the cluster is in use by" in result.output) == (12, True), result.output
