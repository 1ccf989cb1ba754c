"""Run a program on each node, connect it to the API server, and keep its log."""

import contextlib
import json
import socket
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.api.client import Api
from harness.control_planes.control_plane import ControlPlane
from harness.errors import StartError, UnavailableError
from harness.eventually import time_scale
from harness.model.files import file_name
from harness.model.limits import Limits
from harness.model.private_folder import PrivateFolder
from harness.model.program_log import LOG_LETTERS, end_of
from harness.netns import process
from harness.netns.isolation import ProgramSandbox
from harness.netns.namespace import Namespace
from harness.netns.process import Process
from harness.recipes.values import compiled

API_SECONDS = 5.0  # time limit of a request in seconds
LINES = 10  # maximum number of log lines in an explanation
_GRACE = 5.0  # seconds from SIGTERM to SIGKILL
_LONG_LOG = 1_000_000  # bytes, more than a program writes about the few Services of a check
_LOOK = 0.01  # seconds between two checks of a starting program


class ApiServerAccess:
    """Connects programs in any netns to the API server with one kubeconfig. The programs on a node share a sandbox."""

    def __init__(self, plane: ControlPlane, isolation: Collection[str] = (), limits: Limits | None = None) -> None:
        """`isolation` lists what each node's sandbox isolates in addition to network, processes and mounts."""
        self._plane = plane
        self._isolation, self._limits = isolation, limits
        self._sandboxes: dict[str, ProgramSandbox] = {}
        self._own = PrivateFolder("trafficdist-programs-")
        self.folder = self._own.path
        self.server, self._address = server_of(plane.kubeconfig())
        self.api = Api(plane.kubeconfig(), timeout=API_SECONDS)
        self.kubeconfig = self.folder / "kubeconfig.json"
        self.kubeconfig.write_text(json.dumps(plane.kubeconfig()), encoding="utf-8")
        self._namespaces: dict[str, Namespace] = {}

    def namespace(self, node: str) -> Namespace:
        return self._namespaces[node]

    def open(self, node: str, namespace: Namespace) -> None:
        """Make the API server reachable at its usual address in the netns of a node. Idempotent."""
        if node not in self._namespaces:
            self._plane.listen(_listening(namespace, self._address))
            self._namespaces[node] = namespace

    def sandbox(self, node: str) -> ProgramSandbox:
        """Return the sandbox of a node, which the first call creates. Raises `UnavailableError`."""
        if node not in self._sandboxes:
            try:
                self._sandboxes[node] = ProgramSandbox(
                    node,
                    self._isolation,
                    limits=self._limits,
                    folder=self.folder,
                    namespace=self._namespaces.get(node),
                )
            except OSError as error:
                raise UnavailableError(f"cannot run programs on node {node}: {error.strerror}") from error
        return self._sandboxes[node]

    def show(self, node: str, namespace: Namespace, name: str) -> Path:
        """Return a path through which programs on a node can enter a netns, until the path is deleted. Idempotent."""
        path = self.folder / node / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            try:
                self.sandbox(node).show(namespace, path)
            except OSError as error:
                raise UnavailableError(f"the programs on node {node} cannot get a path to a netns: {error}") from error
        return path

    def start(self, name: str, node: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Process:
        """Start a command in the sandbox and the netns of a node. Errors contain `name`. Raises `StartError`."""
        return process.start(
            name, command, namespace=self.namespace(node), log=log, environment=environment, sandbox=self.sandbox(node)
        )

    def output_of(
        self, node: str, command: Sequence[str], environment: Mapping[str, str], within: float
    ) -> tuple[int | None, str]:
        """Run a command as `start` does. Return its exit code, or None if it did not end in time, and its output."""
        with tempfile.NamedTemporaryFile(prefix="command-", dir=self.folder) as file:
            try:
                code = self.start("the command", node, command, Path(file.name), environment).result(within)
            except StartError as error:
                return 1, str(error)
            return code, file.read(LOG_LETTERS).decode(errors="replace").strip()

    def clear(self, node: str) -> None:
        """Kill processes that the stopped programs on a node have left behind."""
        if node in self._sandboxes:
            with contextlib.suppress(OSError):  # the sandbox has ended
                self._sandboxes[node].clear()

    def close(self) -> None:
        for each in self._sandboxes.values():
            each.close()
        self.api.close()
        self._own.close()


class NodeProcesses:
    def __init__(self, connections: ApiServerAccess, name: str) -> None:
        self._connections = connections
        self._name = name
        self._running: dict[str, Process] = {}
        self.remarks: list[str] = []

    @property
    def running(self) -> Mapping[str, Process]:
        return self._running

    def log(self, node: str) -> Path:
        """Return the log file of the program on a node. A restarted program appends to the file."""
        return self._connections.folder / f"{self._name}-{file_name(node)}.log"

    def start(
        self, node: str, namespace: Namespace, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Process:
        """Stop the program on a node, and run a command there. Does not wait until the new program is ready."""
        self.stop(node)
        self._connections.open(node, namespace)
        started = self._connections.start(f"{self._name} on {node}", node, command, self.log(node), environment or {})
        self._running[node] = started
        return started

    def await_ready(self, node: str, missing: Callable[[], str], within: float) -> None:
        """Wait until `missing` returns "". On failure, stop the program and raise `StartError` with its first error."""
        starting, deadline = self._running[node], time.monotonic() + within * time_scale()
        while lacking := missing():
            if not starting.alive or time.monotonic() > deadline:
                break
            time.sleep(_LOOK)
        if not lacking and starting.alive:
            return
        self._running.pop(node)
        try:
            starting.check()
        finally:
            starting.stop()
        raise starting.broken(f"was not ready after {within * time_scale():g} s: {lacking}")

    def check(self) -> None:
        for running in self._running.values():
            running.expect_alive()

    def stop(self, node: str) -> None:
        running = self._running.pop(node, None)
        if running is None:
            return
        if (written := running.written()) > _LONG_LOG:
            self.remarks.append(f"{running.name} wrote a log of {written / 1e6:.0f} MB; limits.log is its limit")
        ran = running.alive
        running.stop(_GRACE)
        if ran and running.was_killed:
            self.remarks.append(f"{running.name} ignores SIGTERM: it was killed after {_GRACE:g} s")

    def close(self) -> None:
        for node in list(self._running):
            self.stop(node)

    def explain(self, node: str, pattern: str, about: str) -> str:
        """Return the last lines of a node's log that match a regular expression. `about` describes these lines."""
        if node not in self._running:
            return f"{node}: the proxy has stopped"
        lines = self.log(node).read_text("utf-8", errors="replace").splitlines()
        found = [line for line in lines if compiled(pattern).search(line)][-LINES:]
        shown = "".join(f"\n  {line.rstrip()}" for line in found)
        return f"{node}: the last log lines of {self._name} about {about}:{shown or ' none'}"

    def evidence(self, node: str) -> dict[str, str]:
        if not self.log(node).exists():
            return {}
        return {f"{self._name}-{node}.log": end_of(self.log(node))}


def server_of(kubeconfig: Mapping[str, Any]) -> tuple[str, tuple[str, int]]:
    url = kubeconfig["clusters"][0]["cluster"]["server"]
    parts = urlsplit(url)
    return url, (parts.hostname or "", parts.port or 443)


def _listening(namespace: Namespace, address: tuple[str, int]) -> socket.socket:
    listening = namespace.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(address)
    listening.listen(64)
    return listening
