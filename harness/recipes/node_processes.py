"""A program on each node: its connection to the API server, start, stop and log.

Adapters share it for all judged programs. The API server listens on loopback of this process's netns. Each netns of a
program gets a socket with the same address and port, so one kubeconfig works everywhere.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.api.client import Api
from harness.control_planes.control_plane import ControlPlane
from harness.eventually import time_scale
from harness.model.own_folder import OwnFolder
from harness.netns import process
from harness.netns.namespace import Namespace
from harness.netns.process import Process
from harness.recipes.readiness import PATTERN_SECONDS

API_SECONDS = 5.0  # the time limit of a request
LINES = 10  # of a log, at most, in an explanation
LOG_LETTERS = 300_000  # of a log, at most, in the evidence
_LOOK = 0.01  # seconds between two checks of a starting program


class Connections:
    """The connections of programs to the API server from any netns; `kubeconfig` is one file for all, in `folder`."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._own = OwnFolder("trafficdist-programs-")
        self.folder = self._own.path
        self.server, self._address = server_of(plane.kubeconfig())
        self.api = Api(plane.kubeconfig(), timeout=API_SECONDS)
        self.kubeconfig = self.folder / "kubeconfig.json"
        self.kubeconfig.write_text(json.dumps(plane.kubeconfig()), encoding="utf-8")
        self._namespaces: dict[str, Namespace] = {}

    def namespace(self, node: str) -> Namespace:
        """Return the netns of a node. Raises `KeyError` for a node that never had a program."""
        return self._namespaces[node]

    def open(self, node: str, namespace: Namespace) -> None:
        """Make the API server reachable in the netns of a node, under its own address. Idempotent."""
        if node not in self._namespaces:
            self._plane.listen(_listening(namespace, self._address))
            self._namespaces[node] = namespace

    def close(self) -> None:
        self.api.close()
        self._own.close()


class NodeProcesses:
    """One program, on each node."""

    def __init__(self, connections: Connections, name: str) -> None:
        """`name` is the program's name in errors."""
        self._connections = connections
        self._name = name
        self._running: dict[str, Process] = {}

    @property
    def running(self) -> Mapping[str, Process]:
        return self._running

    def log(self, node: str) -> Path:
        """Return the log of the program on a node, one file for all its starts."""
        return self._connections.folder / f"{self._name}-{node}.log"

    def start(
        self, node: str, namespace: Namespace, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Process:
        """Run a command on a node, replacing a running one, without waiting until it is ready."""
        self.stop(node)
        self._connections.open(node, namespace)
        self._running[node] = process.start(
            f"{self._name} on {node}", command, namespace=namespace, log=self.log(node), environment=environment
        )
        return self._running[node]

    def await_ready(self, node: str, missing: Callable[[], str], within: float) -> None:
        """Wait until `missing` returns "", else what is missing. `within` is in seconds before the time scale.

        Stops a program that exits or is not ready in time; raises `StartError` with the first error of its log.
        """
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
        """Raise `EndedError` for the first program that has exited on its own."""
        for running in self._running.values():
            running.expect_alive()

    def stop(self, node: str) -> None:
        running = self._running.pop(node, None)
        if running is not None:
            running.stop()

    def close(self) -> None:
        for node in list(self._running):
            self.stop(node)

    def explain(self, node: str, pattern: str, about: str) -> str:
        """Return the last lines of a node's log that match a regular expression, with what they are `about`."""
        import regex  # noqa: PLC0415  only where something is explained; unlike `re` it can be told to stop

        if node not in self._running:
            return f"{node}: the proxy is stopped"
        lines = self.log(node).read_text("utf-8", errors="replace").splitlines()
        try:
            found = [line for line in lines if regex.search(pattern, line, timeout=PATTERN_SECONDS)][-LINES:]
        except TimeoutError:
            return f"{node}: {pattern!r} was still trying to match a line after {PATTERN_SECONDS:g} s: it backtracks"
        shown = "".join(f"\n  {line.rstrip()}" for line in found)
        return f"{node}: the last lines of {self._name} about {about}:{shown or ' none'}"

    def evidence(self, node: str) -> dict[str, str]:
        """Return the log of a node, as text by file name; empty for a node that never had a program."""
        if not self.log(node).exists():
            return {}
        return {f"{self._name}-{node}.log": self.log(node).read_text("utf-8", errors="replace")[-LOG_LETTERS:]}


def server_of(kubeconfig: Mapping[str, Any]) -> tuple[str, tuple[str, int]]:
    """Return the URL of the API server in a kubeconfig, and its host and port."""
    url = kubeconfig["clusters"][0]["cluster"]["server"]
    parts = urlsplit(url)
    return url, (parts.hostname or "", parts.port or 443)


def _listening(namespace: Namespace, address: tuple[str, int]) -> socket.socket:
    listening = namespace.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(address)
    listening.listen(64)
    return listening
