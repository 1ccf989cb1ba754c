"""Any proxy on every node, run by a recipe: a vendor writes a YAML file and no code.

Only its checks tell when it has worked on everything. They must hold for a while without a break, since the latest
writes may not have reached the proxy when they are made first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from harness.control_planes.control_plane import ControlPlane
from harness.errors import UnavailableError
from harness.model.release import Release
from harness.netns.addresses import SERVICE_CIDRS, family_of
from harness.netns.namespace import Namespace
from harness.proxies.checks import ProgramPlace, missing
from harness.proxies.node_processes import NodeProcesses
from harness.proxies.recipe import Recipe, fill

BARRIER_SECONDS = 1.0
_LOOK = 0.01


class ExecutableProxy:
    """One program of a recipe a node."""

    def __init__(self, plane: ControlPlane, recipe: Recipe, *, pod_cidrs: Sequence[str], mode: str = "unknown") -> None:
        self.name, self.version, self.mode = recipe.name, recipe.version, mode
        self._recipe = recipe
        self._pod_cidrs = pod_cidrs
        self._booted: Release | None = None
        self._places: dict[str, ProgramPlace] = {}
        self._processes = NodeProcesses(plane, recipe.name)

    def setup(self, node: str, namespace: Namespace, release: Release) -> None:
        """Start the program of a node. It has only one version: raises `UnavailableError` for another release."""
        self._booted = self._booted or release
        if (release.version, dict(release.gates)) != (self._booted.version, dict(self._booted.gates)):
            raise UnavailableError(f"{self.name} is one program, which cannot be of release {release}")
        values = self._values(node, namespace)
        for name, template in self._recipe.files:
            (Path(values["folder"]) / name).write_text(fill(template, values), encoding="utf-8")
        self._processes.stop(node)
        log = self._processes.log(node)
        self._places[node] = ProgramPlace(namespace, log, log.stat().st_size if log.exists() else 0)
        command = [fill(part, values) for part in self._recipe.command]
        environment = {name: fill(template, values) for name, template in self._recipe.environment}
        self._processes.start(node, namespace, command, environment)
        self._processes.await_ready(
            node, lambda: missing(self._recipe.ready, self._places[node]), self._recipe.ready_seconds
        )

    def _values(self, node: str, namespace: Namespace) -> dict[str, str]:
        folder = self._processes.folder / node
        folder.mkdir(exist_ok=True)
        return {
            "node": node,
            "kubeconfig": str(self._processes.kubeconfig),
            "server": self._processes.server,
            "netns": namespace.proc_path,
            "node_ip": self._address_of(node),
            "cluster_cidrs": ",".join(self._pod_cidrs),
            "service_cidrs": ",".join(SERVICE_CIDRS[family_of(cidr)] for cidr in self._pod_cidrs),
            "mode": self.mode,
            "log_file": str(self._processes.log(node)),
            "folder": str(folder),
        }

    def _address_of(self, node: str) -> str:
        addresses = self._processes.api.get("nodes", "", node)["status"]["addresses"]
        return next(str(each["address"]) for each in addresses if each["type"] == "InternalIP")

    def stop(self, node: str) -> None:
        """Stop the program of a node, if one runs; its rules stay as they are."""
        self._processes.stop(node)

    def close(self) -> None:
        """Stop all programs; their rules end with the nodes."""
        self._processes.close()

    def synced(self) -> bool:
        """Return whether all checks of all nodes held for the recipe's time. Takes up to a second more than that."""
        deadline = time.monotonic() + BARRIER_SECONDS + self._recipe.quiet_seconds
        since = time.monotonic()
        while True:
            self._processes.check()
            asked = time.monotonic()
            if any(missing(self._recipe.synced, self._places[node]) for node in self._processes.running):
                since = time.monotonic()
            elif asked - since >= self._recipe.quiet_seconds:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK)

    def explain(self, node: str, namespace: str, service: str) -> str:
        """Return the last lines of its log about a Service."""
        return self._processes.explain(node, f"{namespace}/{service}")

    def decisions(self, node: str) -> str:  # noqa: ARG002  of any node
        """Return nothing: its log is not a list of decisions."""
        return ""

    def evidence(self, node: str) -> dict[str, str]:
        """Return the log of a node, and the files of its program."""
        if node not in self._places:
            return {}
        folder = self._processes.folder / node
        files = {f"{self.name}-{node}-{name}": (folder / name).read_text("utf-8") for name, _ in self._recipe.files}
        return files | self._processes.evidence(node, self.mode)
