"""One container of a pod from its start to its end: its command, its state, and its readiness."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.kubelet.agnhost.arguments import Command, CommandError, NoCommandError, parse
from harness.kubelet.agnhost.engine import Container, Engine
from harness.kubelet.container_log import ContainerLog
from harness.kubelet.pod_status import ContainerState
from harness.kubelet.readiness import Readiness
from harness.kubelet.sandbox import SandboxProcess
from harness.netns.addresses import Family
from harness.netns.namespace import Namespace

Object = dict[str, Any]

IMAGES = ("agnhost", "pause")
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 300.0  # seconds before a container is started again, as a kubelet has it


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The environment of a pod's containers. `wake` queues the pod for another look, and is thread-safe."""

    uid: str
    hostname: str
    namespace: Namespace
    node: Namespace
    addresses: Mapping[Family, str]
    engine: Engine
    wake: Callable[[], None]


def now() -> str:
    """Return the time as the API writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class RunningContainer:
    """One container. Methods belong to one thread at a time; the engine's thread only notes exits and probes."""

    def __init__(self, spec: Object, around: Surroundings, *, again: bool) -> None:
        """`again`: restart it when it ends."""
        self._spec = spec
        self._around = around
        self._again = again
        self._state: Object = {"waiting": {"reason": "ContainerCreating"}}
        self._last: Object = {}
        self._restarts = 0
        self._container: Container | None = None
        self._began = ""
        self._exit: int | None = None
        self._pause = _FIRST_PAUSE
        self._due = 0.0
        self._readiness: Readiness | None = None
        self._retry = self._start
        self._id = ""
        self._log: ContainerLog | None = None
        self._previous_log: ContainerLog | None = None

    @property
    def name(self) -> str:
        """Its name in the pod."""
        return str(self._spec["name"])

    @property
    def pre_stop(self) -> float:
        """Seconds that its preStop hook sleeps before SIGTERM."""
        hook = ((self._spec.get("lifecycle") or {}).get("preStop") or {}).get("sleep") or {}
        return float(hook.get("seconds") or 0)

    @property
    def state(self) -> ContainerState:
        """The state of the container, for the pod's status."""
        ready = "running" in self._state and self._readiness is not None and self._readiness.ready
        image = str(self._spec.get("image", ""))
        return ContainerState(self.name, image, self._state, ready, self._restarts, self._last, self._id)

    @property
    def known(self) -> bool:
        """True if its readiness is known: not during its first probe."""
        return self._readiness is None or self._readiness.known

    @property
    def runs(self) -> bool:
        """True if it has a process."""
        return self._container is not None

    @property
    def log(self) -> ContainerLog | None:
        """What it has written since its last start; None before the first one. Any thread may ask."""
        return self._log

    @property
    def previous_log(self) -> ContainerLog | None:
        """What it wrote before its last restart, or None. Any thread may ask."""
        return self._previous_log

    def exec(self, argv: Sequence[str], *, stdin: int, stdout: int, stderr: int, tty: bool = False) -> SandboxProcess:
        """Start a program beside the container's own, in its sandbox and with its environment. Any thread may ask.

        Raises `NoProgramError`, also if the container does not run, and `UnavailableError`; see `Sandbox.start`.
        """
        raise NotImplementedError

    def look(self) -> None:
        """Handle an exit, and start the container when it is due."""
        if self._exit is not None:
            self._ended(self._exit)
        elif self._container is None and "waiting" in self._state and time.monotonic() >= self._due:
            self._start()

    def terminate(self) -> None:
        """Send SIGTERM, and do not start it again."""
        self._due = float("inf")
        if self._container is not None:
            self._container.terminate()

    def kill(self) -> None:
        """Send SIGKILL."""
        if self._container is not None:
            self._container.kill()

    def drop(self) -> None:
        """End it without a report."""
        if self._readiness is not None:
            self._readiness.stop()
        container, self._container = self._container, None
        if container is not None:
            container.drop()

    def _start(self) -> None:
        name = str(self._spec.get("image", ""))
        image = _repository(name)
        if image not in IMAGES or _is_nowhere(name):
            self._wait(
                "ImagePullBackOff" if self._state["waiting"]["reason"] == "ErrImagePull" else "ErrImagePull",
                _no_image(self._spec),
            )
            return
        try:
            command = parse(image, self._spec.get("command") or (), self._spec.get("args") or ())
            self._run(command)
        except NoCommandError as error:
            self._wait("RunContainerError", f"failed to create containerd task: {error}")
        except (CommandError, OSError) as error:
            self._began = now()
            self._ended(1, str(error))

    def _run(self, command: Command) -> None:
        """Start the process and its probes. Raises `OSError` if a port is taken."""
        around = self._around
        self._container = around.engine.run(
            command, around.namespace, families=tuple(around.addresses), hostname=around.hostname, ended=self._note
        )
        self._id = _container_id(around.uid, self.name, self._restarts)
        self._began = now()
        self._state = {"running": {"startedAt": self._began}}
        address = next(iter(around.addresses.values()))
        self._readiness = Readiness(self._spec, around.node, address, engine=around.engine, changed=around.wake)
        self._readiness.begin()

    def _note(self, code: int) -> None:
        self._exit = code
        self._around.wake()

    def _ended(self, code: int, why: str = "") -> None:
        if self._readiness is not None:
            self._readiness.stop()
        self._exit = self._container = None
        ended: Object = {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            "startedAt": self._began,
            "finishedAt": now(),
            "containerID": self._id,
            **({"message": why} if why else {}),
        }
        if self._again and self._due != float("inf"):
            self._restarts += 1
            self._last = {"terminated": ended}
            said = f"back-off {self._pause:.0f}s restarting failed container={self.name}: {why or f'exit code {code}'}"
            self._wait("CrashLoopBackOff", said)
        else:
            self._state = {"terminated": ended}

    def _wait(self, reason: str, message: str) -> None:
        self._state = {"waiting": {"reason": reason, "message": message}}
        self._due = time.monotonic() + self._pause
        self._around.engine.after(self._pause, self._around.wake)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


def _repository(image: str) -> str:
    """Return the last part of an image's name, without registry, tag and digest: "agnhost"."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _is_nowhere(image: str) -> bool:
    """Return whether the registry of an image cannot exist: its name ends in .invalid (RFC 6761)."""
    return image.partition("/")[0].partition(":")[0].endswith(".invalid")


def _no_image(spec: Object) -> str:
    if _is_nowhere(str(spec.get("image", ""))):
        return f'failed to pull image "{spec["image"]}": no such host'
    return f'failed to pull image "{spec.get("image", "")}": an embedded cluster has {" and ".join(IMAGES)} only'


def _container_id(uid: str, name: str, restarts: int) -> str:
    return "trafficdist://" + hashlib.sha256(f"{uid}/{name}/{restarts}".encode()).hexdigest()
