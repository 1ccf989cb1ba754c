"""The reference API server with kube-controller-manager in place of the reference controller.

The controller of a released Kubernetes is judged against an API server that boots in no time, and whose every answer is
known. It is a client like any other: what it asks for beyond Services, Pods, Nodes and EndpointSlices is discovery.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from harness.control_planes.controller_manager import LocalControllerManager
from harness.control_planes.embedded import EmbeddedControlPlane
from harness.control_planes.processes import Processes
from harness.model.release import Release


class ManagedControlPlane(EmbeddedControlPlane):
    """As the embedded one, with a process that writes EndpointSlices."""

    def __init__(self, release: Release | None = None, *, version: str = "") -> None:
        """`version` is that of the controller as it is booted, and where a release names none."""
        super().__init__(release)
        self._controller_version = version
        self._processes = Processes()
        self._manager = LocalControllerManager(self._processes, self._port)

    @property
    def controller(self) -> str:
        """What writes EndpointSlices, for reports."""
        return self._manager.title

    def start(self) -> None:
        """Begin to serve and to control. Raises `UnavailableError` and `DistrustError`; then nothing is left."""
        try:
            super().start()
        except Exception:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop both, and wait until they have."""
        self._manager.close()
        self._processes.close()
        super().stop()

    def _port(self) -> int:
        return urlsplit(self._server.url).port or 0 if self._informer.connected else 0

    def start_api_server(self, release: Release) -> None:
        """Serve what is stored, as this release does. The controller has come back when this returns.

        Raises `InconclusiveError`.
        """
        super().start_api_server(release)
        self._manager.await_return()

    def start_controller(self, release: Release) -> None:
        """Run kube-controller-manager of this release."""
        if self._controller_version and (release == self.release or not release.version):
            release = replace(release, version=self._controller_version)
        self._manager.start(release, self.kubeconfig())

    def stop_controller(self) -> None:
        """Stop it; slices stay."""
        self._manager.stop()

    def synced(self) -> bool:
        """Whether it has worked on everything that was written so far; so it has if one of both is away."""
        return not self._informer.connected or self._manager.synced()

    def metrics(self) -> str:
        """What it exposes as Prometheus text. Raises `InconclusiveError` when it is stopped."""
        return self._manager.metrics()

    def evidence(self) -> dict[str, str]:
        """The log of the controller."""
        return self._processes.logs()
