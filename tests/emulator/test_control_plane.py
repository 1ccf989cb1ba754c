"""Tests which programs the control plane of `cluster up` starts, with small servers in place of the real programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from emulator.control_plane import FullControlPlane
from harness.control_planes.binaries import BinaryControlPlane
from harness.control_planes.processes import ComponentProgram, Processes
from harness.errors import StartError
from harness.model.release import Release

SERVER = f"""#!{sys.executable}
import http.server, ssl, sys
print(*sys.argv[1:], flush=True)
options = dict(each.removeprefix("--").partition("=")[::2] for each in sys.argv[1:])

class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'workqueue_depth{{name="endpoint_slice"}} 0 workqueue_depth{{name="daemonset"}} 0'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

port = options.get("secure-port") or options["listen-client-urls"].rpartition(":")[2]
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Answers)
if "tls-cert-file" in options:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options["tls-cert-file"])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which control planes find their programs."""

    def find(_: Processes, component: str, version: str = "") -> ComponentProgram:
        path = tmp_path / component
        if not path.exists():
            path.write_text(SERVER, encoding="utf-8")
            path.chmod(0o755)
        return ComponentProgram(version, str(path))

    monkeypatch.setattr(Processes, "find", find)
    return tmp_path


@contextmanager
def running(plane: BinaryControlPlane) -> Iterator[dict[str, str]]:
    """Return the log of each program, which begins with its arguments."""
    try:
        plane.start()
        yield plane.evidence()
    finally:
        plane.stop()


class RecordingController:
    """A controller that only records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")


@pytest.mark.usefixtures("programs")
def test_cluster_has_all_controllers_all_groups_and_a_scheduler() -> None:
    with running(FullControlPlane(Release("1.37"))) as logs:
        assert "--controllers=*,-node-lifecycle-controller " in logs["kube-controller-manager.log"]
        assert "--runtime-config" not in logs["kube-apiserver.log"]
        assert "scheduler.kubeconfig" in logs["kube-scheduler.log"]


@pytest.mark.usefixtures("programs")
def test_run_has_the_judged_controller_few_groups_and_no_scheduler() -> None:
    with running(BinaryControlPlane(Release("1.37"))) as logs:
        assert "--controllers=endpointslice-controller,namespace-controller " in logs["kube-controller-manager.log"]
        assert "--runtime-config=api/all=false" in logs["kube-apiserver.log"]
        assert "kube-scheduler.log" not in logs


@pytest.mark.usefixtures("programs")
def test_reference_controller_writes_slices_in_place_of_the_manager() -> None:
    made: list[tuple[RecordingController, dict[str, Any]]] = []

    def slices(_: object, **options: Any) -> Any:
        made.append((RecordingController(), options))
        return made[-1][0]

    plane = FullControlPlane(Release("1.37"), slices=slices)
    with running(plane) as logs:
        assert ",-endpointslice-controller " in logs["kube-controller-manager.log"]
        plane.stop_controller()
        plane.start_controller(Release("1.37"))
    assert [each.calls for each, _ in made] == [["start", "stop"], ["start", "stop"]]
    assert {options["features"].version for _, options in made} == {(1, 37)}


def test_scheduler_that_does_not_start_ends_all_programs(programs: Path) -> None:
    (programs / "kube-scheduler").write_text("#!/bin/sh\necho no scheduling; exit 3\n", encoding="utf-8")
    (programs / "kube-scheduler").chmod(0o755)
    plane = FullControlPlane(Release("1.37"))
    with closing(plane._processes), pytest.raises(StartError, match="kube-scheduler exited with 3"):
        plane.start()
    assert plane._processes._running == []
