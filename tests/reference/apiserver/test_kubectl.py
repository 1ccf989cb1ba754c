"""kubectl works with the server. Set `KUBECTL` to use a binary other than the one in PATH."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer
from tests.reference.api_server_calls import listed, patched
from tests.reference.limited_users import add_user

KUBECTL = shutil.which(os.environ.get("KUBECTL", "kubectl"))

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

MANIFEST = """
apiVersion: v1
kind: Service
metadata: {name: web, labels: {app: web}}
spec:
  selector: {app: web}
  trafficDistribution: PreferSameZone
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: metrics, port: 9090}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, labels: {app: web}}
spec:
  nodeName: a1
  containers:
  - name: web
    image: example/web
    resources: {requests: {cpu: 1, memory: 10Mi}}
    ports: [{containerPort: 8080}]
    env: [{name: COLOR, value: red}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- addresses: [10.244.1.2]
  conditions: {ready: true}
  zone: a
  hints: {forZones: [{name: a}]}
"""

Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(run: Callable[..., str], api: ApiServer) -> Kubectl:
    node = {"metadata": {"name": "a1", "labels": {"topology.kubernetes.io/zone": "a"}}}
    created = api.create("nodes", "", node)
    capacity = {"cpu": "2", "memory": "4Gi", "pods": "110"}
    addresses = [{"type": "InternalIP", "address": "10.0.0.1"}]
    status = {"capacity": capacity, "allocatable": capacity, "addresses": addresses}
    api.update_status("nodes", "", {**created, "status": status})
    assert KUBECTL is not None
    return lambda *arguments, stdin="": run(KUBECTL, *arguments, stdin=stdin)


@pytest.fixture
def minor(kubectl: Kubectl) -> int:
    version = json.loads(kubectl("version", "--client", "-o", "json"))["clientVersion"]["minor"]
    return int("".join(each for each in version if each.isdigit()))


@pytest.fixture
def manifest(kubectl: Kubectl) -> str:
    """Apply the manifest above, and return its path."""
    kubectl("apply", "-f", "-", stdin=MANIFEST)
    return MANIFEST


def test_apply_creates_and_changes(kubectl: Kubectl, api: ApiServer) -> None:
    assert kubectl("apply", "-f", "-", stdin=MANIFEST).splitlines() == [
        "service/web created",
        "pod/web-1 created",
        "endpointslice.discovery.k8s.io/web-1 created",
    ]
    changed = kubectl("apply", "-f", "-", stdin=MANIFEST.replace("port: 80,", "port: 81,"))
    assert changed.splitlines()[:2] == ["service/web configured", "pod/web-1 unchanged"]
    ports = api.get("services", "default", "web")["spec"]["ports"]
    assert [each["port"] for each in ports] == [81, 9090]


def test_apply_refuses_a_misspelt_field(kubectl: Kubectl) -> None:
    with pytest.raises(AssertionError, match=r'unknown field "?(spec\.)?colour'):
        kubectl("apply", "-f", "-", stdin=MANIFEST.replace("selector:", "colour: red\n  selector:"))


def test_diff_shows_what_would_change(kubectl: Kubectl, manifest: str) -> None:
    with pytest.raises(AssertionError, match=r"\+\s+port: 81"):  # exit code 1 means that there is a difference
        kubectl("diff", "-f", "-", stdin=manifest.replace("port: 80,", "port: 81,"))


def test_server_side_apply_works(kubectl: Kubectl, api: ApiServer) -> None:
    kubectl("apply", "--server-side", "-f", "-", stdin=MANIFEST)
    kubectl("apply", "--server-side", "-f", "-", stdin=MANIFEST.replace("targetPort: 8080", "targetPort: 8081"))
    service = api.get("services", "default", "web")
    assert [each["targetPort"] for each in service["spec"]["ports"]] == [8081, 9090]
    assert [each["manager"] for each in service["metadata"]["managedFields"]] == ["kubectl"]


def test_server_side_apply_conflicts_until_forced(kubectl: Kubectl, api: ApiServer) -> None:
    kubectl("apply", "--server-side", "-f", "-", stdin=MANIFEST)
    kubectl("patch", "service", "web", "-p", '{"spec":{"trafficDistribution":"PreferSameNode"}}')
    with pytest.raises(AssertionError, match='conflict with "kubectl-patch"'):
        kubectl("apply", "--server-side", "-f", "-", stdin=MANIFEST)
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=MANIFEST)
    assert api.get("services", "default", "web")["spec"]["trafficDistribution"] == "PreferSameZone"


def test_get_prints_the_columns(kubectl: Kubectl, manifest: str) -> None:
    header, row = kubectl("get", "services", "-o", "wide").splitlines()
    assert header.split() == ["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE", "SELECTOR"]
    assert row.split()[0] == "web"
    assert row.split()[-1] == "app=web"


@pytest.mark.parametrize("resource", ["nodes", "pods", "endpointslices", "namespaces", "events"])
def test_get_knows_every_kind(kubectl: Kubectl, manifest: str, resource: str) -> None:
    assert json.loads(kubectl("get", resource, "-A", "-o", "json"))["kind"] == "List"


def test_get_yaml_reads_back(kubectl: Kubectl, manifest: str) -> None:
    written = kubectl("get", "endpointslice", "web-1", "-o", "yaml")
    assert kubectl("apply", "-f", "-", stdin=written) == "endpointslice.discovery.k8s.io/web-1 configured\n"


def test_get_supports_selectors(kubectl: Kubectl, manifest: str) -> None:
    assert kubectl("get", "pods", "-l", "app in (web),!color", "-o", "name") == "pod/web-1\n"
    assert kubectl("get", "pods", "--field-selector", "spec.nodeName=b1", "-o", "name") == ""


@pytest.mark.parametrize(
    ("type_", "patch"),
    [
        ("strategic", '{"spec":{"ports":[{"port":80,"targetPort":1}]}}'),
        ("json", '[{"op":"replace","path":"/spec/ports/0/targetPort","value":1}]'),
        ("merge", '{"spec":{"ports":[{"name":"http","port":80,"targetPort":1},{"name":"metrics","port":9090}]}}'),
    ],
)
def test_every_patch_type_works(kubectl: Kubectl, manifest: str, api: ApiServer, type_: str, patch: str) -> None:
    kubectl("patch", "service", "web", "--type", type_, "-p", patch)
    ports = api.get("services", "default", "web")["spec"]["ports"]
    assert [(each["port"], each["targetPort"]) for each in ports] == [(80, 1), (9090, 9090)]


def test_label_and_annotate_work(kubectl: Kubectl, manifest: str, api: ApiServer) -> None:
    kubectl("label", "node", "a1", "topology.kubernetes.io/zone=b", "--overwrite")
    kubectl("annotate", "service", "web", "note=hello")
    kubectl("label", "service", "web", "app-")
    assert api.get("nodes", "", "a1")["metadata"]["labels"]["topology.kubernetes.io/zone"] == "b"
    meta = api.get("services", "default", "web")["metadata"]
    assert meta["annotations"]["note"] == "hello"
    assert "app" not in (meta.get("labels") or {})


def test_delete_waits_until_objects_are_deleted(kubectl: Kubectl, manifest: str, api: ApiServer) -> None:
    kubectl("delete", "service/web", "endpointslice/web-1")
    kubectl("delete", "pod", "web-1", "--grace-period=0", "--force")
    assert [listed(api, each) for each in ("services", "endpointslices", "pods")] == [[], [], []]


def test_drain_cordons_the_node_and_evicts_its_pods(kubectl: Kubectl, manifest: str, api: ApiServer) -> None:
    with pytest.raises(AssertionError, match="evicting pod default/web-1"):  # kubectl never ends a watch
        kubectl("drain", "a1", "--force", "--grace-period=20", "--timeout=1s")
    assert api.get("nodes", "", "a1")["spec"]["unschedulable"]
    assert api.get("pods", "default", "web-1")["metadata"]["deletionGracePeriodSeconds"] == 20


def test_namespace_is_deleted_with_its_contents(kubectl: Kubectl, api: ApiServer) -> None:
    kubectl("apply", "-f", "-", stdin="apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}")
    kubectl("apply", "-n", "shop", "-f", "-", stdin=MANIFEST)
    kubectl("delete", "namespace", "shop")
    assert listed(api, "services") == []


@pytest.mark.parametrize(
    ("what", "shows"),
    [
        (("service", "web"), "TargetPort:"),
        (("pod", "web-1"), "example/web"),
        (("node", "a1"), "topology.kubernetes.io/zone=a"),
    ],
)
def test_describe_works(kubectl: Kubectl, manifest: str, what: tuple[str, str], shows: str) -> None:
    assert shows in kubectl("describe", *what)


def test_describe_shows_an_endpoint_slice(kubectl: Kubectl, manifest: str, minor: int) -> None:
    if minor < 21:
        pytest.skip(f"kubectl 1.{minor} describes only the EndpointSlices of discovery.k8s.io/v1beta1")
    assert "10.244.1.2" in kubectl("describe", "endpointslice", "web-1")


def test_explain_works(kubectl: Kubectl) -> None:
    assert "traffic" in kubectl("explain", "service.spec.trafficDistribution")


def test_can_i_is_answered(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "delete", "nodes").strip() == "yes"


def test_resources_are_listed(kubectl: Kubectl) -> None:
    assert "endpointslices.discovery.k8s.io" in kubectl("api-resources", "-o", "name")


@pytest.fixture
def watched(environment: dict[str, str], kubectl: Kubectl) -> Iterator[Any]:
    """Yield the lines of `kubectl get services -w` as they arrive."""
    assert KUBECTL is not None
    command = [KUBECTL, "get", "services", "-w", "--no-headers"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout
        process.terminate()


def test_get_watches(kubectl: Kubectl, api: ApiServer, watched: Any) -> None:
    api.create("services", "default", {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})
    assert watched.readline().split()[4] == "80/TCP"
    patched(api, "services", "default", "web", {"spec": {"ports": [{"port": 81}]}})
    assert watched.readline().split()[4] == "81/TCP"


def test_commands_that_write_protobuf_are_understood(kubectl: Kubectl, api: ApiServer) -> None:
    """kubectl sends protobuf since 1.32."""
    kubectl("create", "namespace", "shop")
    kubectl("create", "configmap", "settings", "--from-literal=color=red", "-n", "shop")
    kubectl("create", "service", "nodeport", "web", "--tcp=80:http", "--node-port=30080", "-n", "shop")
    assert api.get("configmaps", "shop", "settings")["data"] == {"color": "red"}
    (port,) = api.get("services", "shop", "web")["spec"]["ports"]
    assert port == {"name": "80-http", "protocol": "TCP", "port": 80, "targetPort": "http", "nodePort": 30080}


def test_limited_user_sees_the_missing_permission(
    kubectl: Kubectl, server: HttpServer, environment: dict[str, str], tmp_path: Path
) -> None:
    token = add_user(server, "guest", [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}])
    guest = tmp_path / "guest"
    guest.write_text(yaml.safe_dump(server.kubeconfig(token=token)))
    environment["KUBECONFIG"] = str(guest)
    assert kubectl("auth", "can-i", "list", "pods").strip() == "yes"
    with pytest.raises(AssertionError, match='pods is forbidden: User "guest" cannot create resource "pods"'):
        kubectl("run", "p", "--image=i")
    with pytest.raises(AssertionError, match="no"):
        kubectl("auth", "can-i", "create", "pods/proxy")
