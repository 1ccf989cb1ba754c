"""Runs kube-controller-manager as a local process. The EndpointSlice controller has one worker, which processes the
queue in order, as `ControllerBarrier` requires. Pod changes are batched briefly. Without batching, the controller would
read slices older than its last write and then wait for a second.
"""

import base64
import copy
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.control_planes.api_server import gate_arguments
from harness.control_planes.barrier import GATHERING, ControllerBarrier
from harness.control_planes.processes import Processes, SecurePort, wait_until_ready
from harness.control_planes.relay import Relay
from harness.errors import InconclusiveError, UnavailableError
from harness.eventually import NotYetError, eventually
from harness.model.release import Release
from harness.netns.process import Process

_RETURN = 5.0  # seconds to connect to a replaced API server, before `time_scale` is applied
_SECONDS = 30.0  # seconds to become ready, before `time_scale` is applied
SLICES = "endpointslice-controller"
_NAME = "kube-controller-manager"


class LocalControllerManager:
    def __init__(
        self,
        processes: Processes,
        port: Callable[[], int],
        *,
        controllers: Sequence[str] = (SLICES,),
        queue: str = "endpoint_slice",
    ) -> None:
        """`port` returns the API server's port (0 if stopped). The manager is ready when its metrics list `queue`."""
        self._processes = processes
        self._controllers = controllers
        self._ready = f'workqueue_depth{{name="{queue}"}}'
        self._relay = Relay(port, patient=True)
        self._url = ""
        self._process: Process | None = None
        self._secure = SecurePort(processes.folder / "manager.pem")
        self._barrier: ControllerBarrier | None = None
        self.version = ""

    @property
    def title(self) -> str:
        return f"{_NAME} {self.version}".rstrip()

    def start(self, release: Release, kubeconfig: Mapping[str, Any]) -> None:
        """Run this release, and wait until the controller is ready. Raises `UnavailableError`, `DistrustError`."""
        if release.node_level:
            raise UnavailableError(f"{_NAME} has no node-level topology ({release.node_level})")
        program = self._processes.find(_NAME, release.version)
        self.stop()
        text = yaml.safe_dump(self._through_relay(kubeconfig))
        (self._processes.folder / "kubeconfig").write_text(text, encoding="utf-8")
        (self._processes.folder / "cluster-ca.pem").write_bytes(
            base64.b64decode(kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"])
        )

        def arguments(ports: Sequence[int]) -> list[str | Path]:
            return [program.place, *self._arguments(ports[0]), *gate_arguments(release.gates)]

        def wait(started: Process) -> None:
            wait_until_ready(started, lambda: self._ready in self._scrape(), within=_SECONDS)

        self._process = self._processes.start_on_ports(_NAME, 1, arguments, wait)
        self.version = program.version
        self._release, self._kubeconfig = release, kubeconfig
        self._barrier = self._new_barrier(kubeconfig, self._process)

    def _new_barrier(self, kubeconfig: Mapping[str, Any], process: Process) -> ControllerBarrier | None:
        return ControllerBarrier(kubeconfig, self._scrape, process.news)

    def await_return(self) -> None:
        """Wait until the controller reconnects, and restart it if it does not. Raises `InconclusiveError`."""
        try:
            eventually(self.synced, within=_RETURN, describe="the controller to reconnect")
        except NotYetError:
            self.start(self._release, self._kubeconfig)
            eventually(self.synced, within=_SECONDS, describe="the controller to reconnect", error=InconclusiveError)

    def stop(self) -> None:
        if self._barrier is not None:
            self._barrier.close()
            self._barrier = None
        self._processes.kill(self._process)
        self._process = None

    def synced(self) -> bool:
        """Return whether all writes are processed, or the process is stopped. Raises `EndedError` if it has crashed."""
        if self._process is None:
            return True
        self._process.expect_alive()
        return self._barrier is None or self._barrier.passed()

    def metrics(self) -> str:
        """Return the metrics without the effect of the barrier. Raises `InconclusiveError` if there is no response."""
        if self._barrier is None:
            raise InconclusiveError(f"{_NAME} is stopped and has no metrics")
        return self._barrier.without_barrier(self._scrape())

    def threads(self) -> tuple[threading.Thread, ...]:
        return self._relay.threads()

    def close(self) -> None:
        self.stop()
        self._relay.close()
        self._secure.close()

    def _through_relay(self, kubeconfig: Mapping[str, Any]) -> dict[str, Any]:
        if not self._url:
            listening = socket.create_server(("127.0.0.1", 0))
            self._url = f"https://127.0.0.1:{listening.getsockname()[1]}"
            self._relay.listen(listening)
        changed = copy.deepcopy(dict(kubeconfig))
        changed["clusters"][0]["cluster"] |= {"server": self._url, "tls-server-name": "localhost"}
        return changed

    def _scrape(self) -> str:
        try:
            return self._secure.read("/metrics")[1]
        except InconclusiveError as error:
            raise InconclusiveError(f"the metrics of {_NAME} cannot be read: {error}") from error

    def _arguments(self, port: int) -> list[str]:
        return [
            f"--kubeconfig={self._processes.folder / 'kubeconfig'}",
            f"--controllers={','.join(self._controllers)}",
            f"--root-ca-file={self._processes.folder / 'cluster-ca.pem'}",
            *self._secure.arguments(port),
            "--kube-api-content-type=application/json",  # every API server supports JSON
            "--kube-api-qps=2000",
            "--kube-api-burst=4000",
            "--concurrent-service-endpoint-syncs=1",
            f"--endpointslice-updates-batch-period={int(GATHERING * 1000)}ms",
            "-v=2",
        ]
