"""etcd, kube-apiserver and kube-controller-manager as local processes: the control plane that clusters really have.

The harness is scheduler, kubelet and cloud to it, as to the embedded one. Any release that is in the cache of
`trafficdist components` can be run, and put in another's place on what is stored.
"""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any

from harness.api.requests import Asked
from harness.control_planes.api_server import LocalApiServer
from harness.control_planes.control_plane import OpenSocket
from harness.control_planes.controller_manager import LocalControllerManager
from harness.control_planes.egress import Egress
from harness.control_planes.processes import Processes
from harness.control_planes.relay import Relay
from harness.model.release import Release


class BinariesControlPlane:
    """Three processes on loopback. Works as an ordinary user, and leaves nothing behind."""

    name = "binaries"

    def __init__(self, release: Release | None = None, *, controller: str = "") -> None:
        """`controller` is the version of kube-controller-manager as it is booted, unless that of the release.

        Raises `UnavailableError` with the remedy where etcd is not there.
        """
        self.release = release or Release()
        self._controller_version = controller
        self._processes = self._make_processes()
        self._egress = Egress(self._processes.folder)
        try:
            self._server = LocalApiServer(self._processes, egress=self._egress.configuration)
        except Exception:
            self._processes.close()
            raise
        namespaces = ("namespace-controller",)  # without it no namespace that is deleted ever goes
        self._manager = LocalControllerManager(self._processes, self._port, controllers=namespaces)
        self._relay = Relay(self._port)

    @staticmethod
    def _make_processes() -> Processes:
        return Processes()

    @property
    def version(self) -> str:
        """The API server's version, like "v1.37.1"."""
        return self._server.version

    @property
    def controller(self) -> str:
        """What writes EndpointSlices, for reports."""
        return self._manager.title

    @property
    def gates(self) -> dict[str, bool]:
        """The feature gates that were set on top of the version's defaults."""
        return dict(self._server.gates)

    def start(self) -> None:
        """Begin to serve and to control. Raises `UnavailableError` and `DistrustError`; then nothing is left."""
        try:
            self._egress.start()
            self._server.start(self.release)
            self.start_controller(self.release)
        except Exception:
            self.stop()
            raise

    def stop(self) -> None:
        """End all processes. Idempotent."""
        self._egress.close()
        self._relay.close()
        self._manager.close()
        self._processes.close()

    def _port(self) -> int:
        return self._server.port if self._server.running else 0

    def start_api_server(self, release: Release) -> None:
        """Serve what etcd has stored, as this release does. The controller has come back when this returns.

        Raises `InconclusiveError`.
        """
        self._server.start_server(release)
        self._manager.await_return()

    def stop_api_server(self) -> None:
        """Let nobody reach the API server any more; etcd keeps what it has stored."""
        self._server.stop_server()

    def start_controller(self, release: Release) -> None:
        """Run the EndpointSlice controller of this release."""
        if self._controller_version and release == self.release:
            release = replace(release, version=self._controller_version)
        self._manager.start(release, self._server.kubeconfig())

    def stop_controller(self) -> None:
        """Stop the EndpointSlice controller; slices stay."""
        self._manager.stop()

    def listen(self, listening: socket.socket) -> None:
        """Serve on one more listening socket, made by the caller in whatever netns."""
        self._relay.listen(listening)

    def reach_pods(self, open_socket: OpenSocket) -> None:
        """Let kube-apiserver reach pods through sockets that this makes."""
        self._egress.reach_pods(open_socket)

    def kubeconfig(self, *, url: str = "") -> dict[str, Any]:
        """How any client reaches the API server; `url` when it does so by one of the other sockets."""
        return self._server.kubeconfig(url=url)

    def synced(self) -> bool:
        """Whether the controller has worked on everything that was written so far; so it has if one is away."""
        return not self._server.running or self._manager.synced()

    def metrics(self) -> str:
        """What kube-controller-manager exposes as Prometheus text. Raises `InconclusiveError` when it is stopped."""
        return self._manager.metrics()

    def asked(self) -> list[Asked]:
        """None: kube-apiserver keeps no record of them."""
        return []

    def evidence(self) -> dict[str, str]:
        """The logs of all three."""
        return self._processes.logs()
