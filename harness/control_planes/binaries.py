"""Runs etcd, kube-apiserver and kube-controller-manager as local processes. The harness acts as scheduler, kubelet and
cloud provider, as it does for the embedded control plane.
"""

import socket
import threading
from dataclasses import replace

from harness.api.requests import ApiRequest
from harness.control_planes.api_server import LocalApiServer
from harness.control_planes.control_plane import OpenSocket
from harness.control_planes.controller_manager import SLICES, LocalControllerManager
from harness.control_planes.processes import Processes
from harness.control_planes.relay import EgressProxy, Relay
from harness.model.release import Release

_NAMESPACES = "namespace-controller"  # without this controller, deleted namespaces are never removed


class BinaryControlPlane(LocalApiServer):
    name = "binaries"
    _make_processes: type[Processes] = Processes

    def __init__(self, release: Release | None = None, *, controller: str = "") -> None:
        """`controller` is the controller's initial version. Raises `UnavailableError` if etcd is missing."""
        self.release = release or Release()
        self._controller_version = controller
        processes = self._make_processes()
        self._egress = EgressProxy(processes.folder)
        try:
            super().__init__(processes, egress=self._egress.configuration)
        except Exception:
            processes.close()
            raise
        self._manager = self._new_manager()
        self._relay = Relay(self._port)

    def _new_manager(self) -> LocalControllerManager:
        return LocalControllerManager(self._processes, self._port, controllers=(SLICES, _NAMESPACES))

    @property
    def controller(self) -> str:
        return self._manager.title

    def start(self) -> None:
        try:
            self._egress.start()
            self._start_etcd()
            self.start_api_server(self.release)
            self.start_controller(self.release)
        except Exception:
            self.stop()
            raise

    def stop(self) -> None:
        self._egress.close()
        self._relay.close()
        self._manager.close()
        self._processes.close()

    def _port(self) -> int:
        return self.port if self._server else 0

    def start_api_server(self, release: Release) -> None:
        super().start_api_server(release)
        self._manager.await_return()

    def start_controller(self, release: Release) -> None:
        if self._controller_version and release == self.release:
            release = replace(release, version=self._controller_version)
        self._manager.start(release, self.kubeconfig())

    def stop_controller(self) -> None:
        self._manager.stop()

    def listen(self, listening: socket.socket) -> None:
        self._relay.listen(listening)

    def reach_pods(self, open_socket: OpenSocket) -> None:
        self._egress.reach_pods(open_socket)

    def synced(self) -> bool:
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
