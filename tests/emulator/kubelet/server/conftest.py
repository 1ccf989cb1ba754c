"""A kubelet server for one node on loopback, and an API server that connects to it. Containers are local processes."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from emulator.kubelet.container_log import ContainerLog
from emulator.kubelet.sandbox import NoProgramError
from emulator.kubelet.server.server import PORT, KubeletServer
from emulator.kubelet.standard_streams import StandardStreams
from harness.control_planes.control_plane import KubeletCertificates
from harness.event_loop import EventLoop
from harness.netns.fabric import NetworkPeer
from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer


class CurrentNetns:
    """Creates sockets in the netns of the test."""

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM) -> socket.socket:
        return socket.socket(family, kind)


class UnsandboxedProgram:
    """A program without a sandbox."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self._descriptor = os.pidfd_open(popen.pid)

    def fileno(self) -> int:
        return self._descriptor

    def poll(self) -> int | None:
        code = self._popen.poll()
        return code if code is None or code >= 0 else 128 - code

    def close(self) -> None:
        if self._descriptor >= 0:
            self._popen.send_signal(signal.SIGKILL)
            select.select([self._descriptor], [], [])
            self._popen.wait()
            os.close(self._descriptor)
            self._descriptor = -1


class ContainerState:
    def __init__(self, **state: Any) -> None:
        self.state = state


class FakeContainer:
    """A container named `c`. `programs` are its running programs."""

    name = "c"

    def __init__(self) -> None:
        self.log: ContainerLog | None = ContainerLog()
        self.previous_log: ContainerLog | None = None
        self.runs = True
        self.state = ContainerState(running={})
        self.programs: list[subprocess.Popen[bytes]] = []

    def exec(self, argv: Sequence[str], streams: StandardStreams) -> UnsandboxedProgram:
        three = {name: getattr(streams, name) for name in ("stdin", "stdout", "stderr")}
        try:
            made = subprocess.Popen(argv, **three, start_new_session=True)
        except OSError as error:
            raise NoProgramError(f'exec: "{argv[0]}": executable file not found in $PATH') from error
        self.programs.append(made)
        return UnsandboxedProgram(made)


class FakePods:
    """One pod, `p`, with one container."""

    def __init__(self) -> None:
        self.only = FakeContainer()
        self.host = NetworkPeer("a1", cast("Any", CurrentNetns()), {}, "p")

    def container(self, name: str) -> Any:
        return self.only if name == "c" else None

    def pod(self, namespace: str, name: str) -> Any:
        return self if (namespace, name) == ("default", "p") else None


@pytest.fixture
def address() -> str:
    """Return a loopback address for the node. The port of a kubelet is fixed, so each test needs its own address."""
    number = os.getpid() % (1 << 16)
    return f"127.{100 + os.urandom(1)[0] % 100}.{number >> 8}.{number & 255 or 1}"


@pytest.fixture
def pods() -> FakePods:
    return FakePods()


@pytest.fixture
def container(pods: FakePods) -> FakeContainer:
    return pods.only


@pytest.fixture
def trust() -> KubeletCertificates:
    return KubeletCertificates()


@pytest.fixture
def kubelet(pods: FakePods, trust: KubeletCertificates, address: str) -> Iterator[KubeletServer]:
    node: Any = CurrentNetns()
    with EventLoop("kubelet-loop") as loop:
        server = KubeletServer(pods.pod, loop)
        server.start([NetworkPeer("a1", node, {"IPv4": address}, "a1")], trust.of_kubelet([address]))
        yield server
        server.close()


@pytest.fixture
def api(address: str) -> ApiServer:
    """An API server with a node, a pod on this node, and a pod without a node."""
    api = ApiServer()
    made = api.create("nodes", "", {"metadata": {"name": "a1"}})
    status = {
        "addresses": [{"type": "InternalIP", "address": address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": PORT}},
    }
    api.update_status("nodes", "", {**made, "status": status})
    spec = {"containers": [{"name": "c", "image": "i"}]}
    made = api.create("pods", "default", {"metadata": {"name": "p"}, "spec": {**spec, "nodeName": "a1"}})
    api.update_status("pods", "default", {**made, "status": {"phase": "Running", "podIP": "10.244.1.2"}})
    api.create("pods", "default", {"metadata": {"name": "gone"}, "spec": {**spec, "nodeName": "a1"}})
    api.create("pods", "default", {"metadata": {"name": "waiting"}, "spec": spec})
    return api


@pytest.fixture
def server(api: ApiServer, trust: KubeletCertificates, kubelet: KubeletServer) -> Iterator[HttpServer]:
    server = HttpServer(api, kubelet_tls=trust.of_api_server())
    server.reach_pods(socket.socket)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def kubeconfig(server: HttpServer, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(server.kubeconfig()))
    return path


@pytest.fixture
def kubectl(kubeconfig: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not on PATH")
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}

    def run(*arguments: str, stdin: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", *arguments],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            env={**environment, **more},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def execute(kubectl: Callable[..., Any]) -> Callable[..., Any]:
    """Run `kubectl exec`. Skips with a kubectl that does not use WebSockets."""
    version = json.loads(kubectl("version", "--client", "-o", "json").stdout)["clientVersion"]
    if (int(version["major"]), int(re.findall(r"\d+", version["minor"])[0])) < (1, 31):
        pytest.skip("unavailable: kubectl 1.31 or newer, which executes over WebSockets")
    return partial(kubectl, "exec")
