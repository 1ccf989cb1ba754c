"""Sandboxes for the programs of one node, or of a control plane. Sandboxes end with this process.

A netns isolates only the network. But a program may leave behind mounts, files, and processes that ignore signals.
Agents of data planes also pin maps in a bpffs, attach programs to a control group, create sockets in /run and read the
host name. So every sandbox has its own PID and mount namespaces, and a recipe may request more (`OWN`). A supervisor
process (`harness.netns.sandbox_supervisor`) starts the programs, and kills them when this process ends.
"""

import contextlib
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.model.limits import Limits
from harness.netns.namespace import Namespace

OWN: Mapping[str, str] = {
    "mounts": "mounts that no other node sees, which every node has",
    "bpffs": "a bpffs at /sys/fs/bpf",
    "cgroup2": "a control group that is the top of /sys/fs/cgroup",
    "run": "an empty tmpfs at /run",
    "hostname": "the node's name as host name",
    "sysctls": "copies of the machine's settings below /proc/sys",
}
"""The parts of a sandbox that a recipe may request, with their meanings."""

# Arguments: the init process of the sandbox, 1 if the sandbox has a control group, then the program to execute.
_ENTER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
init, grouped, command, here = f"/proc/{sys.argv[1]}/", sys.argv[2] == "1", sys.argv[3:], os.getcwd()
try:
    if grouped:
        with open(init + "root/sys/fs/cgroup/cgroup.procs", "w") as opened:
            opened.write(str(os.getpid()))
    for each in [os.open(f"{init}ns/{kind}", os.O_RDONLY) for kind in ("cgroup", "uts", "mnt")]:
        if libc.setns(each, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        os.close(each)
    os.chdir(here)
except OSError as error:
    print(f"cannot enter the sandbox of its node: {error}", file=sys.stderr)
    os._exit(127)
try:
    os.execvp(command[0], command)
except OSError as error:
    print(f"cannot run {command[0]}: {error.strerror}", file=sys.stderr)
    os._exit(127)
"""
_INTERPRETER = (sys.executable, "-I", "-S", "-c")
# The supervisor is imported as a module, because Python caches the compiled form of modules only.
_SUPERVISOR = (
    f"import sys; sys.path.append({str(Path(__file__).parent)!r}); import sandbox_supervisor; sandbox_supervisor.main()"
)
_KILLED = -signal.SIGKILL
_END_SECONDS = 30.0


class SandboxedProgram:
    def __init__(self, sandbox: "ProgramSandbox", reply: int, pid: int) -> None:
        self.pid = pid
        self._sandbox, self._reply = sandbox, reply
        self._lock = threading.Lock()
        self._code: int | None = None
        self.reason = ""  # why the supervisor ended it, or "" if it ended in another way

    def poll(self) -> int | None:
        return self._wait(0)

    def _wait(self, seconds: float) -> int | None:
        with self._lock:
            if self._code is None and _readable(self._reply, seconds):
                end = _line(self._reply) or {"code": _KILLED, "why": ""}
                os.close(self._reply)
                self._code = end["code"]
                self.reason = self._sandbox.limits.text(end["why"], self._sandbox.of) if end["why"] else ""
            return self._code

    def stop(self, grace: float) -> None:
        """Stop the program, and kill its process group once the program ends or after `grace` seconds. Idempotent."""
        if grace and self.poll() is None:
            self._sandbox.signal(self.pid, signal.SIGTERM)
            self._wait(grace)
        self._sandbox.signal(self.pid, signal.SIGKILL)
        while self._wait(1.0) is None:
            pass


class ProgramSandbox:
    def __init__(
        self,
        name: str,
        wanted: Collection[str] = (),
        *,
        of: str = "its node",
        limits: Limits | None = None,
        folder: Path | None = None,
        namespace: Namespace | None = None,
    ) -> None:
        """Create a sandbox with parts from `OWN`. It removes `folder` if the harness dies. Raises `OSError`."""
        self.of, self.limits = of, limits or Limits()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        settings = {
            "name": name,
            "wanted": list(wanted),
            "limits": asdict(self.limits),
            "folder": str(folder or ""),
            "control": theirs.fileno(),
            "netns": namespace.fd if namespace else -1,
        }
        with theirs:
            self._supervisor = subprocess.Popen(  # noqa: S603  our own program
                [*_INTERPRETER, _SUPERVISOR, json.dumps(settings)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), *([namespace.fd] if namespace else [])],
                start_new_session=True,  # only the harness handles Ctrl-C
            )
        answer = json.loads(self._control.recv(4096) or '{"errno": 0, "step": "create a sandbox"}')
        if "errno" in answer:
            self.close()
            raise OSError(answer["errno"], f"cannot {answer['step']}: {os.strerror(answer['errno'])}")
        self._joined = [str(answer["pid"]), str(int("cgroup2" in wanted))]
        self.members = f"/proc/{answer['pid']}/root/sys/fs/cgroup/cgroup.procs"

    def entering(self, command: Sequence[str]) -> list[str]:
        """Return a command that runs in the sandbox's mounts and control group, but outside its PID namespace."""
        return [*_INTERPRETER, _ENTER, *self._joined, *command]

    def start(
        self,
        command: Sequence[str],
        *,
        log: int,
        folder: str,
        environment: Mapping[str, str],
        namespace: Namespace | None = None,
    ) -> SandboxedProgram:
        """Start a program in the sandbox and in a netns, and write its output to descriptor `log`. Raises `OSError`."""
        request = {"what": "start", "command": list(command), "folder": folder, "environment": dict(environment)}
        reply, answer = self._ask(request, log, *([namespace.fd] if namespace else []))
        return SandboxedProgram(self, reply, answer["pid"])

    def show(self, namespace: Namespace, path: Path) -> None:
        """Mount a netns on a file in the sandbox, so that programs can enter the netns until the file is deleted."""
        path.touch()
        os.close(self._ask({"what": "show", "path": str(path)}, namespace.fd)[0])

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a program. SIGKILL goes to its process group. Do nothing if the sandbox has ended."""
        with contextlib.suppress(OSError):
            os.close(self._send({"what": "stop", "pid": pid, "signal": number}))

    def clear(self) -> None:
        """Kill all processes in the sandbox, even detached ones. Wait until they have ended."""
        if self._supervisor.poll() is None:
            os.close(self._ask({"what": "clear"})[0])

    def _send(self, request: Mapping[str, Any], *descriptors: int) -> int:
        reply, theirs = os.pipe()
        file = os.memfd_create("request")
        try:
            os.write(file, json.dumps(request).encode("ascii"))
            socket.send_fds(self._control, [b"request"], [file, theirs, *descriptors])
        except OSError:
            os.close(reply)
            raise
        finally:
            os.close(file)
            os.close(theirs)
        return reply

    def _ask(self, request: Mapping[str, Any], *descriptors: int) -> tuple[int, dict[str, Any]]:
        """Send a request. Return the pipe for replies, and the first reply. Raises `OSError`."""
        reply = self._send(request, *descriptors)
        _readable(reply, None)
        answer = _line(reply)
        answer = {"failed": errno.ESRCH} if answer is None else answer
        if number := answer.get("failed"):
            os.close(reply)
            raise OSError(number, os.strerror(number))
        return reply, answer

    def close(self) -> None:
        """Kill all processes in the sandbox and in its control group, and remove the sandbox. Idempotent."""
        with contextlib.suppress(OSError):
            self._control.send(b"close")
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process that waits for a disk ends only afterwards
            self._supervisor.wait(_END_SECONDS)


def _readable(descriptor: int, seconds: float | None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def _line(descriptor: int) -> dict[str, Any] | None:
    text = bytearray()
    while not text.endswith(b"\n"):
        if not (letter := os.read(descriptor, 1)):
            return None
        text += letter
    return dict(json.loads(text))
