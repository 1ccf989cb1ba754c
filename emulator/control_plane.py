"""The real control plane of `cluster up`, with kube-scheduler and all controllers that need no cloud provider."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from harness.backends.implementation import Implementation
from harness.binaries import find
from harness.control_planes.binaries import BinaryControlPlane
from harness.control_planes.choice import BINARIES
from harness.control_planes.controller_manager import SLICES, LocalControllerManager
from harness.control_planes.embedded import features_of, node_level_of
from harness.control_planes.processes import Processes, SecurePort, wait_until_ready
from harness.model.release import Release
from harness.netns.process import Process
from harness.settings.implementations import of_settings
from harness.settings.mutants import mutants
from harness.settings.settings import Settings
from reference.client.remote import RemoteClient
from reference.endpointslice import EndpointSliceController

_OF_THE_HARNESS = "node-lifecycle-controller"  # it needs status reports of kubelets, which the harness writes itself
_SCHEDULER = "kube-scheduler"
_READY_SECONDS = 30.0  # seconds for kube-scheduler to become ready, not yet multiplied by the time scale


def implementation_of(settings: Settings) -> Implementation:
    """Return the components that `cluster up` runs with these settings. Raises `UsageError`, `UnavailableError`."""
    chosen = settings.components
    if chosen.plane != BINARIES:
        return of_settings(settings)
    found = of_settings(settings, runs_controller=True)
    find(_SCHEDULER, chosen.version)
    fault = mutants()[settings.mutant] if settings.mutant else None
    slices = fault.controller if fault and "controller" in fault.changes else None
    version = chosen.controller_version
    return replace(found, control_plane=lambda release: FullControlPlane(release, controller=version, slices=slices))


class FullControllerManager(LocalControllerManager):
    """A kube-controller-manager with almost all controllers, and without the `ControllerBarrier`."""

    def __init__(
        self, processes: Processes, port: Callable[[], int], slices: Callable[..., EndpointSliceController] | None
    ) -> None:
        """If `slices` is given, it creates the controller that writes the EndpointSlices, for example a mutant."""
        left_out = () if slices is None else (f"-{SLICES}",)
        queue = "endpoint_slice" if slices is None else "daemonset"
        super().__init__(processes, port, controllers=("*", f"-{_OF_THE_HARNESS}", *left_out), queue=queue)
        self._make_slices = slices
        self._slices: tuple[EndpointSliceController, RemoteClient] | None = None

    def start(self, release: Release, kubeconfig: Mapping[str, Any]) -> None:
        super().start(release, kubeconfig)
        if self._make_slices is not None:
            client = RemoteClient(kubeconfig)
            controller = self._make_slices(
                client, features=features_of(release), conditions=True, node_level=node_level_of(release)
            )
            controller.start()
            self._slices = controller, client

    def stop(self) -> None:
        if self._slices is not None:
            (controller, client), self._slices = self._slices, None
            controller.stop()
            client.close()
        super().stop()

    def _new_barrier(self, kubeconfig: Mapping[str, Any], process: Process) -> None:
        """Create no `ControllerBarrier`, because DaemonSets would run pods on the barrier's Node."""


class FullControlPlane(BinaryControlPlane):
    _of_groups: Sequence[str] = ()  # all API groups

    def __init__(
        self, release: Release, *, controller: str = "", slices: Callable[..., EndpointSliceController] | None = None
    ) -> None:
        """`slices` is passed to `FullControllerManager`. Raises `UnavailableError` if etcd is missing."""
        self._make_slices = slices
        super().__init__(release, controller=controller)

    def _new_manager(self) -> LocalControllerManager:
        return FullControllerManager(self._processes, self._port, self._make_slices)

    def start(self) -> None:
        """Start all processes. On failure, stop them and raise `UnavailableError` or `DistrustError`."""
        super().start()
        try:
            self._start_scheduler()
        except Exception:
            self.stop()
            raise

    def _start_scheduler(self) -> None:
        program = self._processes.find(_SCHEDULER, self.release.version)
        kubeconfig = self._processes.folder / "scheduler.kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(self.kubeconfig()), encoding="utf-8")

        def arguments(ports: Sequence[int]) -> list[str | Path]:
            return [program.place, f"--kubeconfig={kubeconfig}", *secure.arguments(ports[0])]

        def wait(started: Process) -> None:
            wait_until_ready(started, lambda: secure.read("/readyz")[0] == 200, within=_READY_SECONDS)

        with contextlib.closing(SecurePort(self._processes.folder / "scheduler.pem")) as secure:
            self._processes.start_on_ports(_SCHEDULER, 1, arguments, wait)
