"""Runs etcd, kube-apiserver and kube-controller-manager as local processes, as in a real control plane.

The harness acts as scheduler, kubelet and cloud provider, as for the embedded control plane. Every release in the cache
of `trafficdist components` can run. A release can replace another release, and the stored objects remain.

For `cluster up` and upstream's e2e tests, a `whole` control plane also runs kube-scheduler and all controllers that
need no cloud.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from harness.api.requests import ApiRequest
from harness.control_planes.api_server import LocalApiServer
from harness.control_planes.control_plane import OpenSocket
from harness.control_planes.controller_manager import LocalControllerManager
from harness.control_planes.processes import Processes, SecurePort, wait_until_ready
from harness.control_planes.relay import Egress, Relay
from harness.model.release import Release
from harness.netns.process import Process

if TYPE_CHECKING:
    from harness.control_planes.embedded import RemoteController

_SCHEDULER = "kube-scheduler"
_READY = 30.0  # seconds for kube-scheduler to become ready, before the time scale


class BinaryControlPlane(LocalApiServer):
    name = "binaries"
    _make_processes: type[Processes] = Processes

    def __init__(
        self,
        release: Release | None = None,
        *,
        controller: str = "",
        whole: bool = False,
        slices: Callable[..., Any] | None = None,
    ) -> None:
        """If `whole` is true, `slices` may create a reference controller that writes the EndpointSlices.

        Raises `UnavailableError` if etcd is missing.
        """
        self.release = release or Release()
        self._controller_version = controller
        processes = self._make_processes()
        self._egress = Egress(processes.folder)
        try:
            super().__init__(processes, egress=self._egress.configuration, whole=whole)
        except Exception:
            processes.close()
            raise
        namespaces = ("namespace-controller",)  # without this controller, deleted namespaces are never removed
        self._slices: RemoteController | None = None
        if slices is not None:
            from harness.control_planes import embedded  # noqa: PLC0415  it imports the reference

            self._slices = embedded.RemoteController(slices)
        self._manager = LocalControllerManager(
            processes, self._port, controllers=namespaces, whole=whole, slices=slices is None
        )
        self._relay = Relay(self._port)

    @property
    def controller(self) -> str:
        return self._manager.title

    def start(self) -> None:
        """Start all processes. On failure, stop them and raise `UnavailableError` or `DistrustError`."""
        try:
            self._egress.start()
            self._start_etcd()
            self.start_api_server(self.release)
            self.start_controller(self.release)
            if self._whole:
                _start_scheduler(self._processes, self.release.version, self.kubeconfig())
        except Exception:
            self.stop()
            raise

    def stop(self) -> None:
        self._egress.close()
        self._relay.close()
        if self._slices is not None:
            self._slices.close()
        self._manager.close()
        self._processes.close()

    def _port(self) -> int:
        return self.port if self._server else 0

    def start_api_server(self, release: Release) -> None:
        """Replace the API server, and wait for a running controller to connect again. Raises `InconclusiveError`."""
        super().start_api_server(release)
        self._manager.await_return()

    def start_controller(self, release: Release) -> None:
        if self._controller_version and release == self.release:
            release = replace(release, version=self._controller_version)
        self._manager.start(release, self.kubeconfig())
        if self._slices is not None:
            self._slices.start(release, self.kubeconfig())

    def stop_controller(self) -> None:
        if self._slices is not None:
            self._slices.close()
        self._manager.stop()

    def listen(self, listening: socket.socket) -> None:
        self._relay.listen(listening)

    def reach_pods(self, open_socket: OpenSocket) -> None:
        self._egress.reach_pods(open_socket)

    def synced(self) -> bool:
        """Return whether the controller has processed all writes so far. Returns True if a component is stopped."""
        return self._server is None or self._manager.synced()

    def metrics(self) -> str:
        return self._manager.metrics()

    def threads(self) -> tuple[threading.Thread, ...]:
        return (*self._egress.threads(), *self._relay.threads(), *self._manager.threads())

    def asked(self) -> list[ApiRequest] | None:
        """Return None, because kube-apiserver does not record requests by client."""
        return None

    def evidence(self) -> dict[str, str]:
        return self._processes.logs()


def _start_scheduler(processes: Processes, version: str, kubeconfig: Mapping[str, Any]) -> Process:
    program = processes.find(_SCHEDULER, version)
    told = processes.folder / "scheduler.kubeconfig"
    told.write_text(yaml.safe_dump(dict(kubeconfig)), encoding="utf-8")

    def arguments(ports: Sequence[int]) -> list[str | Path]:
        return [program.place, f"--kubeconfig={told}", *secure.arguments(ports[0])]

    def wait(started: Process) -> None:
        wait_until_ready(started, lambda: secure.read("/readyz")[0] == 200, within=_READY)

    with contextlib.closing(SecurePort(processes.folder / "scheduler.pem")) as secure:
        return processes.start_on_ports(_SCHEDULER, 1, arguments, wait)
