"""kubectl and the Python client work with a complete cluster that runs pods in sandboxes, with either API server."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config, stream

from emulator.kubelet.kubelet import Kubelet
from harness.backends.netns import NetnsBackend
from harness.binaries import find
from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.model.manifests import has_condition
from harness.model.topology import grid
from harness.settings.implementations import of_settings
from harness.settings.options import resolve

Kubectl = Callable[..., subprocess.CompletedProcess[str]]
SPEC = {
    "nodeName": "b1",
    "containers": [
        {"name": "shell", "image": "agnhost", "command": ["/bin/sh", "-c", "echo begun; exec sleep 1000"]},
        {"name": "server", "image": "agnhost", "args": ["netexec", "--http-port=8080"]},
    ],
}


@pytest.fixture(scope="module", params=["embedded", pytest.param("binaries:1.37", marks=pytest.mark.slow)])
def backend(request: pytest.FixtureRequest) -> Iterator[NetnsBackend]:
    """A cluster with a pod `p` of two containers."""
    implementation = of_settings(resolve({"control_plane": request.param}))
    try:
        find("agnhost")  # the image of the pod's containers
        booted = NetnsBackend(grid("two", {"a": 1, "b": 1}), implementation=implementation).start()
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")
    with closing(booted), Kubelet(booted.kubeconfig(), booted.network, trust=booted.control_plane.kubelets):
        booted.api.create("pods", "default", {"metadata": {"name": "p"}, "spec": SPEC})
        eventually(
            lambda: has_condition(booted.api.get("pods", "default", "p"), "Ready"), within=20, describe="the pod"
        )
        yield booted


@pytest.fixture
def kubeconfig(backend: NetnsBackend, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(backend.kubeconfig()))
    return path


def test_kubelets_report_their_address(backend: NetnsBackend) -> None:
    for node in backend.api.list("nodes", ""):
        assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}


def test_kubectl_shows_logs(kubectl: Kubectl) -> None:
    assert kubectl("logs", "p", "-c", "shell").stdout == "begun\n"
    assert "Started HTTP server on port 8080" in kubectl("logs", "p", "-c", "server").stdout


@pytest.mark.parametrize("container", ["shell", "server"])
def test_kubectl_runs_programs(execute: Kubectl, container: str) -> None:
    script = "hostname; cat; echo bad >&2; exit 3"
    done = execute("-i", "p", "-c", container, "--", "sh", "-c", script, stdin="hello\n")
    assert (done.returncode, done.stdout) == (3, "p\nhello\n")
    assert done.stderr == "bad\ncommand terminated with exit code 3\n"


def test_python_client_runs_programs_with_a_terminal(kubeconfig: Path) -> None:
    if not shutil.which("stty"):
        pytest.skip("stty is not on PATH")
    with config.new_client_from_config(str(kubeconfig)) as connection:
        program: Any = stream.stream(
            client.CoreV1Api(connection).connect_get_namespaced_pod_exec,
            *("p", "default"),
            container="shell",
            command=["sh", "-c", "read line; stty size; echo $TERM; exit 7"],
            stdin=True,
            stdout=True,
            tty=True,
            _preload_content=False,
        )
        program.write_channel(4, '{"Width": 123, "Height": 45}')
        program.write_stdin("go\n")
        program.run_forever(timeout=20)
        assert program.read_stdout().split() == ["go", "45", "123", "xterm"]
        assert program.returncode == 7
        program.sock.shutdown()
