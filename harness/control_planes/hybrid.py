"""Runs the reference API server, which boots fast, with kube-controller-manager as its client."""

import threading
from dataclasses import replace
from urllib.parse import urlsplit

from harness.control_planes.controller_manager import LocalControllerManager
from harness.control_planes.embedded import EmbeddedControlPlane
from harness.control_planes.processes import Processes
from harness.model.release import Release


class HybridControlPlane(EmbeddedControlPlane):
    def __init__(self, release: Release | None = None, *, version: str = "") -> None:
        """`version` is the controller's version in the initial release, and in releases without a version."""
        super().__init__(release)
        self._controller_version = version
        self._processes = Processes()
        self._manager = LocalControllerManager(self._processes, self._port)

    @property
    def controller(self) -> str:
        return self._manager.title

    def start(self) -> None:
        try:
            super().start()
        except Exception:
            self.stop()
            raise

    def stop(self) -> None:
        self._manager.close()
        self._processes.close()
        super().stop()

    def _port(self) -> int:
        return urlsplit(self._server.url).port or 0 if self._informer.connected else 0

    def start_api_server(self, release: Release) -> None:
        super().start_api_server(release)
        self._manager.await_return()

    def start_controller(self, release: Release) -> None:
        if self._controller_version and (release == self.release or not release.version):
            release = replace(release, version=self._controller_version)
        self._manager.start(release, self.kubeconfig())

    def stop_controller(self) -> None:
        self._manager.stop()

    def synced(self) -> bool:
        return not self._informer.connected or self._manager.synced()

    def metrics(self) -> str:
        return self._manager.metrics()

    def threads(self) -> tuple[threading.Thread, ...]:
        return (*super().threads(), *self._manager.threads())

    def evidence(self) -> dict[str, str]:
        return self._processes.logs()
