"""Run the programs of a recipe, in one or several network namespaces, with their files, checks and logs."""

import contextlib
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.api.client import Api, Object, RefusedError
from harness.control_planes.control_plane import ControlPlane
from harness.errors import HarnessError, InconclusiveError, StartError
from harness.model.program_log import end_of
from harness.netns.addresses import SERVICE_CIDRS, Family
from harness.netns.namespace import Namespace
from harness.netns.socket_maker import ClientGroups
from harness.recipes.node_processes import ApiServerAccess, NodeProcesses
from harness.recipes.objects import apply
from harness.recipes.pods import PodInterfaces
from harness.recipes.readiness import ProgramContext, missing
from harness.recipes.recipe import LogExplainer, Program, Recipe
from harness.recipes.values import fill

BARRIER_SECONDS = 1.0
COMMAND_SECONDS = 5.0  # time limit for the command of `explain` or of a check, in seconds
LINES = 40  # maximum number of output lines of a command in an explanation
SERVICES = 10  # maximum number of Services for which the evidence has the output of the `explain` command
CLUSTER = "cluster"  # stands for a node in file names and errors of cluster programs

_LOOK = 0.01


class _OneProgram:
    """One program of the recipe, on all nodes or in all pods where it runs. `where` is the node's or pod's name."""

    def __init__(self, connections: ApiServerAccess, program: Program) -> None:
        self.program, self._connections = program, connections
        self.processes = NodeProcesses(connections, program.name)
        self._places: dict[str, ProgramContext] = {}

    def start(self, where: str, namespace: Namespace, values: Mapping[str, str]) -> None:
        program, log = self.program, self.processes.log(where)
        values = {**values, "log_file": str(log)}
        for name, template in program.files:
            (Path(values["folder"]) / name).write_text(fill(template, values), encoding="utf-8")

        def run(command: Sequence[str]) -> tuple[int | None, str]:
            filled = [fill(part, values) for part in command]
            return self._connections.output_of(where, filled, self.environment(values), COMMAND_SECONDS)

        begin = log.stat().st_size if log.exists() else 0
        place = self._places[where] = ProgramContext(namespace, log, begin, run)
        command = [fill(part, values) for part in program.command]
        self.processes.start(where, namespace, command, self.environment(values))
        self.processes.await_ready(where, lambda: missing(program.ready, place), program.ready_seconds)

    def environment(self, values: Mapping[str, str]) -> dict[str, str]:
        return {name: fill(template, values) for name, template in self.program.environment}

    def lacking(self) -> str:
        for where in self.processes.running:
            if text := missing(self.program.synced, self._places[where]):
                return f"{self.program.name} on {where}: {text}"
        return ""

    def evidence(self, where: str, folder: Path) -> dict[str, str]:
        files = [name for name, _ in self.program.files] if where in self._places else []
        texts = {f"{self.program.name}-{where}-{name}": (folder / name).read_text("utf-8") for name in files}
        return texts | self.processes.evidence(where)


class Programs:
    """The programs of one recipe on each node or in one pod, and the programs that run once per cluster."""

    def __init__(self, plane: ControlPlane, recipe: Recipe) -> None:
        self._recipe = recipe
        self._connections = ApiServerAccess(plane, recipe.isolation, recipe.limits)
        self._parts = [_OneProgram(self._connections, each) for each in recipe.programs]
        self._of_cluster = [_OneProgram(self._connections, each) for each in recipe.cluster_programs]
        self._all = [*self._of_cluster, *self._parts]
        self._filled: dict[str, dict[str, str]] = {}  # values of common placeholders, by place
        namespace_of, show = self._connections.namespace, self._connections.show
        self.pods = PodInterfaces(recipe.pods, self.run, namespace_of, show) if recipe.pods else None
        self.clients = ClientGroups(self._connections.sandbox) if "cgroup2" in recipe.isolation else None
        self.lacking = ""  # the check that failed in the last call of `synced`, and its place

    @property
    def api(self) -> Api:
        return self._connections.api

    @property
    def running(self) -> bool:
        return any(part.processes.running for part in self._parts)

    def apply_objects(self) -> None:
        apply(self.api, self._recipe.objects, self._recipe.name)

    def start_of_cluster(self, namespace: Namespace, families: Iterable[Family], values: Mapping[str, str]) -> None:
        self._start(CLUSTER, self._of_cluster, namespace, {**values, **self._values(CLUSTER, namespace, families)})

    def start(self, where: str, namespace: Namespace, families: Iterable[Family], values: Mapping[str, str]) -> None:
        """Stop the programs in a netns, and start them in order. If one fails, stop them all. Raises `StartError`."""
        self._filled[where] = {**values, **self._values(where, namespace, families)}
        self._start(where, self._parts, namespace, self._filled[where])

    def _start(self, where: str, parts: Iterable[_OneProgram], namespace: Namespace, values: Mapping[str, str]) -> None:
        self.stop(where)
        try:
            for part in parts:
                part.start(where, namespace, values)
        except HarnessError:
            self.stop(where)
            raise

    def _values(self, where: str, namespace: Namespace, families: Iterable[Family]) -> dict[str, str]:
        self._connections.open(where, namespace)
        netns = self._connections.show(where, namespace, "netns")
        return {
            "kubeconfig": str(self._connections.kubeconfig),
            "server": self._connections.server,
            "netns": str(netns),
            "service_cidrs": ",".join(SERVICE_CIDRS[family] for family in families),
            "folder": str(netns.parent),
        }

    def stop(self, where: str) -> None:
        for part in reversed(self._all):
            part.processes.stop(where)
        self._connections.clear(where)

    def close(self) -> None:
        if self.pods:
            self.pods.close()
        if self.clients:
            self.clients.close()
        for part in reversed(self._all):
            part.processes.close()
        self._connections.close()

    def remarks(self) -> list[str]:
        """Return problems that stopped programs had. These problems do not affect the verdicts."""
        return [each for part in self._all for each in part.processes.remarks]

    def synced(self) -> bool:
        """Return whether all checks succeed everywhere for `quiet_seconds`. Raises `EndedError`."""
        deadline = time.monotonic() + BARRIER_SECONDS + self._recipe.quiet_seconds
        since = time.monotonic()
        while True:
            for part in self._all:
                part.processes.check()
            asked = time.monotonic()
            self.lacking = next(filter(None, (part.lacking() for part in self._all)), "")
            if self.lacking:
                since = time.monotonic()
            elif asked - since >= self._recipe.quiet_seconds:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK)

    def explain(self, where: str, namespace: str, service: str) -> str:
        """Return the output of the `explain` command for a Service, or the last log lines about the Service."""
        if where not in self._parts[0].processes.running:
            return f"{where}: {self._recipe.name} is stopped"
        about, explain = f"{namespace}/{service}", self._recipe.explain
        values = {**self._filled[where], **_of_service(self._service(namespace, service))}
        if isinstance(explain, LogExplainer):
            pattern = explain.filled(values)
            return "\n".join(part.processes.explain(where, pattern, about) for part in self._parts)
        lines = self._answer(where, explain.filled(values)).splitlines()
        more = [f"and {len(lines) - LINES} more lines, in decisions-{where}.txt"] if len(lines) > LINES else []
        return "\n  ".join([f"{where}: {self._recipe.name} about {about}, by command:", *lines[:LINES], *more])

    def decisions(self, where: str) -> str:
        """Return the output of the recipe's `explain` command for up to `SERVICES` Services, or "" if it has none."""
        explain = self._recipe.explain
        if isinstance(explain, LogExplainer) or where not in self._filled:
            return ""
        values = [self._filled[where] | _of_service(each) for each in self.api.list("services", "")[:SERVICES]]
        commands = dict.fromkeys(map(explain.filled, values))  # a command that has no Service placeholders runs once
        return "\n".join(f"$ {shlex.join(each)}\n{self._answer(where, each)}\n" for each in commands)

    def _service(self, namespace: str, name: str) -> Object:
        with contextlib.suppress(HarnessError, RefusedError):
            return self.api.get("services", namespace, name)
        return {"metadata": {"namespace": namespace, "name": name}, "spec": {}}

    def _answer(self, where: str, command: tuple[str, ...]) -> str:
        code, said = self._connections.output_of(where, command, self._environment(where), COMMAND_SECONDS)
        if code is None:
            return f"the command did not end within {COMMAND_SECONDS:g} s"
        return f"{said}\n(exit code {code})" if code else said

    def _environment(self, where: str) -> dict[str, str]:
        log = str(self._parts[0].processes.log(where))
        return self._parts[0].environment({**self._filled[where], "log_file": log})

    def run(self, where: str, what: str, command: tuple[str, ...], more: Mapping[str, str], within: float) -> None:
        """Run a command for up to `within` s (times the time scale). `more` adds values. Raises `InconclusiveError`."""
        values = {**self._filled[where], **more}
        filled = [fill(part, values) for part in command]
        who, log = f"{self._recipe.name} on {where}, to {what},", self._log_of_pods(where)
        try:
            self._connections.start(who, where, filled, log, self._environment(where)).finish(within)
        except StartError as error:
            raise InconclusiveError(str(error)) from error

    def _log_of_pods(self, where: str) -> Path:
        return self._connections.folder / f"pods-{where}.log"

    def evidence(self, where: str) -> dict[str, str]:
        """Return the logs and files of the programs by file name. The result is empty if no program has run."""
        folder = self._connections.folder / where
        texts = {name: text for part in self._all for name, text in part.evidence(where, folder).items()}
        log = self._log_of_pods(where)
        return texts | ({log.name: end_of(log)} if log.exists() else {})


def _of_service(service: Object) -> dict[str, str]:
    named, address = service["metadata"], service["spec"].get("clusterIP")
    return {"namespace": named["namespace"], "service": named["name"], "cluster_ip": str(address or "")}
