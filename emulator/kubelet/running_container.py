"""Run one container of a pod from start to end, with its command, state, readiness and restarts."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.kubelet.container_log import ContainerLog
from emulator.kubelet.emulated_agnhost import EmulatedAgnhost
from emulator.kubelet.environment import ConfigError, FieldValues, environment_of, expanded
from emulator.kubelet.images import FILES, TOOLS, CommandError, MissingImageError, Netexec, command_of, programs_of
from emulator.kubelet.pod_status import ContainerState
from emulator.kubelet.readiness import Readiness
from emulator.kubelet.running_program import RunningProgram, exit_code
from emulator.kubelet.sandbox import PATH, NoProgramError, Sandbox, SandboxProcess
from emulator.kubelet.standard_streams import StandardStreams
from harness.errors import UnavailableError
from harness.event_loop import EventLoop
from harness.model.manifests import Object
from harness.netns.addresses import Family
from harness.netns.namespace import Namespace
from reference.objects.timestamps import timestamp

_PULL_AGAIN = 10.0  # seconds until the next lookup of a missing image
_RUNTIME = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init"
)
_NOT_STARTED = 128  # the exit code that containerd reports for a container whose program could not start
_TOO_LONG, _CANNOT_RUN = 124, 126  # exit codes of hooks and probes, as in timeout(1)
_NEVER = "1970-01-01T00:00:00Z"  # the start time of a container whose program could not start
_START_ERROR_SECONDS = 1.0  # seconds until the reason of a container that could not start becomes CrashLoopBackOff
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 300.0  # seconds between restarts, as in kubelet 1.37
_WELL = 2 * _LONGEST_PAUSE  # a container that ran for this many seconds restarts with the shortest delay


@dataclass(frozen=True, slots=True)
class PodContext:
    """Values that a pod's containers share. `files` maps paths to contents. `wake` queues a sync (thread-safe)."""

    fields: FieldValues
    hostname: str
    files: Mapping[str, str]
    namespace: Namespace
    node: Namespace
    addresses: Mapping[Family, str]
    loop: EventLoop
    wake: Callable[[], None]


class RestartPolicy:
    """Decides whether and when one container restarts. The first delay is 0, and later delays grow."""

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self._next = 0.0

    def again(self, code: int) -> bool:
        return self._policy == "Always" or (self._policy == "OnFailure" and code != 0)

    def pause(self, ran: float) -> float:
        """Return the delay in seconds before the next start of a container that ran for `ran` seconds."""
        if ran >= _WELL:
            self._next = 0.0
        pause, self._next = self._next, min(2 * self._next, _LONGEST_PAUSE) or _FIRST_PAUSE
        return pause


class RunningContainer:
    """Runs one container. Only one thread at a time may call its methods; the event loop only records events."""

    def __init__(self, spec: Object, context: PodContext, *, policy: str, waits: str = "ContainerCreating") -> None:
        self._spec = spec
        self._context = context
        self._restarting = RestartPolicy(policy)
        self._state: Object = {"waiting": {"reason": waits}}
        self._last: Object = {}
        self._restarts = 0
        self._container: EmulatedAgnhost | RunningProgram | None = None
        self._sandbox: Sandbox | None = None
        self._environment: dict[str, str] = {}
        self._began = ""
        self._exit: int | None = None
        self._since = 0.0  # start time
        self._due = 0.0
        self._readiness: Readiness | None = None
        self._hook: bool | None = None  # the preStop hook: None before it starts, True after it has ended
        self._terminated = False
        self._id = ""
        self._backoff_shown_at = 0.0  # time when CrashLoopBackOff replaces RunContainerError
        self._backoff_message = ""
        self._log: ContainerLog | None = None
        self._previous_log: ContainerLog | None = None

    @property
    def name(self) -> str:
        return str(self._spec["name"])

    @property
    def state(self) -> ContainerState:
        ready = "running" in self._state and self._readiness is not None and self._readiness.ready
        return ContainerState(
            self.name, self._image, self._state, ready, self._restarts, self._last, self._id, is_sidecar=self.is_sidecar
        )

    @property
    def is_sidecar(self) -> bool:
        return self._spec.get("restartPolicy") == "Always"

    @property
    def lets_others_start(self) -> bool:
        """True for an init container that has succeeded, or a sidecar that has started."""
        return (self.runs or bool(self._last)) if self.is_sidecar else self.state.exit_code == 0

    @property
    def waits(self) -> bool:
        """True if the container will be started, for the first time or again."""
        return "waiting" in self._state and self._due != float("inf")

    @property
    def known(self) -> bool:
        return self._readiness is None or self._readiness.known

    @property
    def runs(self) -> bool:
        return self._container is not None

    @property
    def log(self) -> ContainerLog | None:
        """The log since the last start, or None before the first start. Thread-safe."""
        return self._log

    @property
    def previous_log(self) -> ContainerLog | None:
        """The log of the previous run, or None. While the container waits for a restart, this is `log`."""
        waits = "waiting" in self._state
        return (self._log if self._last else None) if waits else self._previous_log

    def exec(self, argv: Sequence[str], streams: StandardStreams) -> SandboxProcess:
        """Start a program in the container's sandbox. Thread-safe. Raises `NoProgramError` or `UnavailableError`."""
        sandbox = self._sandbox
        if sandbox is None or not self.runs:
            raise NoProgramError("the container is not running")
        return self._start_in(sandbox, argv, streams)

    def _start_in(self, sandbox: Sandbox, argv: Sequence[str], streams: StandardStreams) -> SandboxProcess:
        return sandbox.start(
            argv,
            env=({"TERM": "xterm"} if streams.tty else {}) | self._environment,
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            tty=streams.tty,
            folder=self._spec.get("workingDir") or "/",
        )

    def sync(self) -> None:
        """Process an exit of the container, and start the container when its start or restart is due."""
        if self._exit is not None:
            self._ended(self._exit)
        if self._container is None and "waiting" in self._state:
            if time.monotonic() >= self._due:
                self._start()
            elif self._state["waiting"]["reason"] == "RunContainerError" and time.monotonic() >= self._backoff_shown_at:
                self._state = {"waiting": {"reason": "CrashLoopBackOff", "message": self._backoff_message}}

    def end(self) -> None:
        """Run the preStop hook, send SIGTERM, and prevent restarts. Each call performs the next step."""
        self._due = float("inf")
        if self._hook is None:
            self._hook = self._begun_hook() if self.runs else True
        if self._hook and self._container is not None and not self._terminated:
            self._terminated = True
            self._container.terminate()

    def _begun_hook(self) -> bool:
        """Start the preStop hook. When the hook ends, the pod is synced again. Return True if there is no hook."""
        hook = (self._spec.get("lifecycle") or {}).get("preStop") or {}
        if "sleep" in hook:
            self._context.loop.spawn(self._end_hook(asyncio.sleep(float(hook["sleep"].get("seconds") or 0))))
        elif "exec" in hook:
            self._context.loop.spawn(self._end_hook(self.run_in_sandbox(hook["exec"]["command"])))
        else:
            return True
        return False

    async def _end_hook(self, hook: Awaitable[object]) -> None:
        await hook
        self._hook = True
        self._context.wake()

    async def run_in_sandbox(self, argv: Sequence[str], seconds: float | None = None) -> int:
        """Run a program in the sandbox. Return its exit code, 124 if `seconds` expired, or 126 if it cannot run."""
        with contextlib.closing(StandardStreams()) as nowhere:
            try:
                process = await asyncio.to_thread(self.exec, argv, nowhere)
            except (NoProgramError, UnavailableError):
                return _CANNOT_RUN
        try:
            async with asyncio.timeout(seconds):
                return await exit_code(process)
        except TimeoutError:
            return _TOO_LONG
        finally:
            process.close()

    def kill(self) -> None:
        if self._container is not None:
            self._container.kill()

    def drop(self) -> None:
        if self._readiness is not None:
            self._readiness.stop()
        container, self._container = self._container, None
        if container is not None:
            container.drop()
        self._close()

    def _close(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.close()
        if self._log is not None:
            self._log.end()

    def _start(self) -> None:
        self._since = time.monotonic()
        try:
            programs = programs_of(self._image)
        except MissingImageError as error:
            tried = self._state["waiting"]["reason"] == "ErrImagePull"
            self._wait("ImagePullBackOff" if tried else "ErrImagePull", str(error), _PULL_AGAIN)
            return
        self._restarts += bool(self._last)
        self._previous_log, self._log = self._log, ContainerLog()
        run = f"{self._context.fields.pod['metadata']['uid']}/{self.name}/{self._restarts}"
        self._id = f"trafficdist://{hashlib.sha256(run.encode()).hexdigest()}"
        try:
            self._run(programs, self._log)
        except ConfigError as error:
            self._id = ""
            self._wait("CreateContainerConfigError", str(error), _PULL_AGAIN)
        except NoProgramError as error:
            self._fail_to_start(f"{_RUNTIME}: {error}")
        except UnavailableError as error:
            self._fail_to_start(str(error))
        except (CommandError, OSError) as error:  # a port is in use
            self._log.write(f"Error: {error}\n".encode(), "stderr")
            self._ended(1, str(error))

    def _run(self, programs: Mapping[str, Path], log: ContainerLog) -> None:
        context, self._began = self._context, timestamp()
        given = {"PATH": f"{PATH}:{TOOLS}", "HOSTNAME": context.hostname, "HOME": "/root"}
        self._environment = environment_of(self._spec, context.fields, given)
        command = command_of(
            self._image,
            *([expanded(each, self._environment) for each in self._spec.get(key) or ()] for key in ("command", "args")),
        )
        files = {**FILES, **context.files}
        self._sandbox = Sandbox(context.namespace, hostname=context.hostname, files=files, programs=programs)
        if isinstance(command, Netexec):
            emulated = EmulatedAgnhost(command, context.hostname, context.namespace, context.loop)
            emulated.start(tuple(context.addresses), self._note)
            self._container = emulated
        else:
            self._container = self._program(command, self._sandbox, log)
        self._state = {"running": {"startedAt": self._began}}
        address = next(iter(context.addresses.values()))
        self._readiness = Readiness(
            self._spec, context.node, address, loop=context.loop, changed=context.wake, run=self.run_in_sandbox
        )

    def _program(self, argv: Sequence[str], sandbox: Sandbox, log: ContainerLog) -> RunningProgram:
        with contextlib.closing(StandardStreams(("stdout", "stderr"))) as streams:
            process = self._start_in(sandbox, argv, streams)
            outputs = {streams.take(name): name for name in ("stdout", "stderr")}
        return RunningProgram(process, outputs, log, self._context.loop, self._note)

    @property
    def _image(self) -> str:
        return str(self._spec.get("image", ""))

    def _note(self, code: int) -> None:
        self._exit = code
        self._context.wake()

    def _fail_to_start(self, why: str) -> None:
        """Report a failed start like a kubelet with containerd: first the error, and the back-off a second later."""
        self._began = _NEVER
        self._ended(_NOT_STARTED, why, reason="StartError")
        if "waiting" in self._state:
            self._backoff_message = self._state["waiting"].get("message", "")
            self._state = {"waiting": {"reason": "RunContainerError", "message": why}}
            self._backoff_shown_at = time.monotonic() + _START_ERROR_SECONDS
            self._context.loop.after(_START_ERROR_SECONDS, self._context.wake)

    def _ended(self, code: int, why: str = "", reason: str = "") -> None:
        if self._readiness is not None:
            self._readiness.stop()
        self._exit = self._container = None
        self._close()
        ended: Object = {
            "exitCode": code,
            "reason": reason or ("Completed" if code == 0 else "Error"),
            "startedAt": self._began,
            "finishedAt": timestamp(),
            "containerID": self._id,
            **({"message": why} if why else {}),
        }
        if self._due != float("inf") and self._restarting.again(code):
            self._last = {"terminated": ended}
            pause = self._restarting.pause(time.monotonic() - self._since)
            said = f"back-off {pause:.0f}s restarting failed container={self.name}: {why or f'exit code {code}'}"
            self._wait("CrashLoopBackOff", said, pause)
        else:
            self._state = {"terminated": ended}

    def _wait(self, reason: str, message: str, seconds: float) -> None:
        self._state = {"waiting": {"reason": reason, "message": message}}
        self._due = time.monotonic() + seconds
        self._context.loop.after(seconds, self._context.wake)
