"""Runs the program of a recipe, in one netns or in several: its files, its checks, its log.

Only the checks tell when it has worked on everything. They must hold for a while without a break, since the latest
writes may not have reached the program when they are made first.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.api.client import Api, RefusedError
from harness.control_planes.control_plane import ControlPlane
from harness.errors import HarnessError
from harness.netns.addresses import SERVICE_CIDRS, Family
from harness.netns.namespace import Namespace
from harness.recipes.checks import ProgramPlace, missing
from harness.recipes.explaining import ByLog, answer
from harness.recipes.filling import fill
from harness.recipes.node_processes import NodeProcesses
from harness.recipes.recipe import Recipe

BARRIER_SECONDS = 1.0
LINES = 40  # of what a command says, at most, in an explanation
SERVICES = 10  # about which a command is asked for the evidence
_LOOK = 0.01


class Programs:
    """The programs of one recipe, each known by the name of its node or pod."""

    def __init__(self, plane: ControlPlane, recipe: Recipe) -> None:
        self._recipe = recipe
        self._places: dict[str, ProgramPlace] = {}
        self._filled: dict[str, dict[str, str]] = {}  # the values of placeholders
        self._processes = NodeProcesses(plane, recipe.name)
        self.lacking = ""  # which check did not hold in the last look of `synced`, and where

    @property
    def api(self) -> Api:
        """A client of the API server that the programs have."""
        return self._processes.api

    def start(self, where: str, namespace: Namespace, families: Iterable[Family], values: Mapping[str, str]) -> None:
        """Start the program in a netns, in place of one that runs there, and wait until it is ready.

        `values` are those of its kind's own placeholders. Raises `StartError` with the first error of its log.
        """
        values = self._filled[where] = {**values, **self._values(where, namespace, families)}
        for name, template in self._recipe.files:
            (Path(values["folder"]) / name).write_text(fill(template, values), encoding="utf-8")
        self._processes.stop(where)
        log = self._processes.log(where)
        place = self._places[where] = ProgramPlace(namespace, log, log.stat().st_size if log.exists() else 0)
        command = [fill(part, values) for part in self._recipe.command]
        environment = {name: fill(template, values) for name, template in self._recipe.environment}
        self._processes.start(where, namespace, command, environment)
        self._processes.await_ready(where, lambda: missing(self._recipe.ready, place), self._recipe.ready_seconds)

    def _values(self, where: str, namespace: Namespace, families: Iterable[Family]) -> dict[str, str]:
        folder = self._processes.folder / where
        folder.mkdir(exist_ok=True)
        return {
            "kubeconfig": str(self._processes.kubeconfig),
            "server": self._processes.server,
            "netns": namespace.proc_path,
            "service_cidrs": ",".join(SERVICE_CIDRS[family] for family in families),
            "log_file": str(self._processes.log(where)),
            "folder": str(folder),
        }

    def stop(self, where: str) -> None:
        """Stop the program of a node, if one runs."""
        self._processes.stop(where)

    def close(self) -> None:
        """Stop all programs. Idempotent."""
        self._processes.close()

    def synced(self) -> bool:
        """Return whether all checks held everywhere for the recipe's time. Takes up to a second more than that.

        Raises `EndedError` for a program that has ended by itself.
        """
        deadline = time.monotonic() + BARRIER_SECONDS + self._recipe.quiet_seconds
        since = time.monotonic()
        while True:
            self._processes.check()
            asked = time.monotonic()
            self.lacking = self._lacking()
            if self.lacking:
                since = time.monotonic()
            elif asked - since >= self._recipe.quiet_seconds:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK)

    def _lacking(self) -> str:
        for where in self._processes.running:
            if text := missing(self._recipe.synced, self._places[where]):
                return f"{self._recipe.name} on {where}: {text}"
        return ""

    def explain(self, where: str, namespace: str, service: str) -> str:
        """Return what the recipe's command says of a Service, or else the last lines of the log about it."""
        if where not in self._processes.running:
            return f"{where}: {self._recipe.name} is stopped"
        about, explain = f"{namespace}/{service}", self._recipe.explain
        values = {**self._filled[where], **self._of_service(namespace, service)}
        if isinstance(explain, ByLog):
            return self._processes.explain(where, explain.filled(values), about)
        lines = self._answer(where, explain.filled(values)).splitlines()
        more = [f"and {len(lines) - LINES} lines more, in decisions-{where}.txt"] if len(lines) > LINES else []
        return "\n  ".join([f"{where}: {self._recipe.name} about {about}, by command:", *lines[:LINES], *more])

    def decisions(self, where: str) -> str:
        """Return what the recipe's command says of the first Services; "" without a command."""
        explain = self._recipe.explain
        if isinstance(explain, ByLog) or where not in self._filled:
            return ""
        listed = [each["metadata"] for each in self.api.list("services", "")][:SERVICES]
        values = [self._filled[where] | self._of_service(each["namespace"], each["name"]) for each in listed]
        commands = dict.fromkeys(map(explain.filled, values))  # one that names no Service is run once
        return "\n".join(f"$ {shlex.join(each)}\n{self._answer(where, each)}\n" for each in commands)

    def _of_service(self, namespace: str, service: str) -> dict[str, str]:
        """Return the values of the placeholders of a Service; one that is gone has no cluster IP."""
        address = ""
        with contextlib.suppress(HarnessError, RefusedError):
            address = str(self.api.get("services", namespace, service)["spec"].get("clusterIP") or "")
        return {"namespace": namespace, "service": service, "cluster_ip": address}

    def _answer(self, where: str, command: tuple[str, ...]) -> str:
        environment = {name: fill(template, self._filled[where]) for name, template in self._recipe.environment}
        return answer(self._places[where].namespace, command, environment)

    def evidence(self, where: str) -> dict[str, str]:
        """Return the log of a program and its files, as texts by file name; empty where none ever ran."""
        if where not in self._places:
            return {}
        folder, name = self._processes.folder / where, self._recipe.name
        files = {f"{name}-{where}-{file}": (folder / file).read_text("utf-8") for file, _ in self._recipe.files}
        return files | self._processes.evidence(where)
