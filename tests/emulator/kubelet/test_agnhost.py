"""Pods with the agnhost image run the real agnhost binary if it is in the component cache."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from emulator.kubelet.kubelet import Kubelet
from emulator.kubelet.sandbox import PATH
from harness.backends.netns import NetnsBackend
from harness.binaries import find
from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.model.manifests import has_condition
from harness.model.topology import grid
from harness.netns import http

Object = dict[str, Any]

IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.53"


@pytest.fixture(scope="module")
def backend() -> Iterator[NetnsBackend]:
    """One node with a kubelet."""
    try:
        find("agnhost")
    except UnavailableError as error:
        pytest.skip(str(error))
    with NetnsBackend(grid("one", {"a": 1})) as booted:
        yield booted


@pytest.fixture
def kubelet(backend: NetnsBackend) -> Iterator[Kubelet]:
    """A kubelet. The fixture deletes all pods after the test."""
    with Kubelet(backend.kubeconfig(), backend.network) as running:
        yield running
        for pod in backend.api.list("pods", "default"):
            backend.api.delete("pods", "default", pod["metadata"]["name"], grace_seconds=0)


def run(backend: NetnsBackend, name: str, **container: Any) -> str:
    """Run a pod, wait until it is ready, and return its address."""
    spec = {"nodeName": "a1", "containers": [{"name": "c", "image": IMAGE, **container}]}
    backend.api.create("pods", "default", {"metadata": {"name": name}, "spec": spec})

    def ready() -> Object | None:
        pod = backend.api.get("pods", "default", name)
        return pod if has_condition(pod, "Ready") else None

    return str(eventually(ready, describe=f"pod {name} to be ready")["status"]["podIP"])


def ask(backend: NetnsBackend, address: str, path: str, port: int = 8080) -> http.HttpResponse:
    return http.get(backend.network.nodes["a1"].namespace, address, port, path)


def logged(kubelet: Kubelet, name: str, stream: str = "") -> list[str]:
    pod = kubelet.pod("default", name)
    container = pod.container("c") if pod is not None else None
    assert container is not None
    assert container.log is not None
    return [line.text.decode() for line in container.log.lines() if stream in ("", line.stream)]


NETEXEC = {"args": ["netexec"], "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1}}


def test_netexec_serves_its_name_and_environment_and_logs(backend: NetnsBackend, kubelet: Kubelet) -> None:
    address = run(backend, "web", **NETEXEC, env=[{"name": "NODE_NAME", "value": "a1"}])
    assert ask(backend, address, "/hostname").text == "web"
    assert ask(backend, address, "/envvar?var=NODE_NAME").text == "a1"
    lines = r"Started HTTP server on port 8080[^$]*Started UDP server on port  8081[^$]*GET /hostname"
    eventually(lambda: re.search(lines, "\n".join(logged(kubelet, "web"))), describe="the lines of the log")


def test_netexec_serves_during_its_delay_after_sigterm(backend: NetnsBackend, kubelet: Kubelet) -> None:
    address = run(backend, "web", **{**NETEXEC, "args": ["netexec", "--delay-shutdown=5"]})
    backend.api.delete("pods", "default", "web")
    eventually(lambda: ask(backend, address, "/readyz").code == 503, describe="SIGTERM to arrive")
    assert ask(backend, address, "/hostname").text == "web"
    path = "/api/v1/namespaces/default/pods/web"
    eventually(lambda: backend.api.request("GET", path).code == 404, within=30, describe="the pod to be deleted")


def test_serve_hostname_serves_over_tcp(backend: NetnsBackend, kubelet: Kubelet) -> None:
    probe = {"tcpSocket": {"port": 80}, "periodSeconds": 1}
    arguments = ["serve-hostname", "--port=80", "--http=false", "--tcp"]
    address = run(backend, "web", args=arguments, readinessProbe=probe)
    with backend.network.nodes["a1"].namespace.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(5)
        sock.connect((address, 80))
        assert sock.recv(100) == b"web"


def test_a_flag_that_agnhost_refuses_ends_the_container(backend: NetnsBackend, kubelet: Kubelet) -> None:
    container = {"name": "c", "image": IMAGE, "args": ["netexec", "--no-such-flag"]}
    spec = {"nodeName": "a1", "restartPolicy": "Never", "containers": [container]}
    backend.api.create("pods", "default", {"metadata": {"name": "job"}, "spec": spec})
    phase = partial(lambda name: backend.api.get("pods", "default", name)["status"].get("phase"), "job")
    eventually(lambda: phase() == "Failed", describe="the pod to fail")
    assert "unknown flag: --no-such-flag" in "\n".join(logged(kubelet, "job"))


@pytest.mark.skipif(shutil.which("bash", path=PATH) is None, reason="bash is not installed")
def test_scripts_find_what_the_image_of_agnhost_has(backend: NetnsBackend, kubelet: Kubelet) -> None:
    address = run(backend, "web", **NETEXEC | {"args": ["netexec", "--http-port=8080", "--udp-port=8080"]})
    text = f"""
        echo hostName | nc -v -t -w 5 {address} 8080 | head -n 1
        echo hostName | nc -v -u -w 3 {address} 8080; echo
        /agnhost connect --timeout=3s {address}:8080; echo $?
        /agnhost connect --timeout=3s {address}:81 2>&1; echo $?
        touch /tmp/done; sleep 600
    """
    probe = {"exec": {"command": ["test", "-e", "/tmp/done"]}, "periodSeconds": 1}
    run(backend, "job", command=["/bin/sh", "-c", text], readinessProbe=probe)
    expected = ["HTTP/1.1 400 Bad Request\r", "web", "0", "REFUSED", "1"]
    eventually(lambda: logged(kubelet, "job", "stdout") == expected, describe="the output of the script")
