"""The sandbox of a container: it runs this machine's programs, which cannot change anything outside the sandbox.

Programs have separate mounts, process ids, host name and IPC, and read-only access to this machine's programs,
libraries and /etc. The folders /tmp, /run and /dev/shm are private. Programs run without capabilities, as nobody or
as the user who runs the cluster. By contrast, `harness.netns.isolation` hides no files and drops no capabilities.
"""

import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import UnavailableError
from harness.netns.namespace import Namespace

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

KILLED = 137  # the exit code of a process killed by SIGKILL
_SECONDS = 20.0  # seconds to create a sandbox
_INIT = Path(__file__).with_name("sandbox_init.py")
_NAMELESS = {"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n"}


class NoProgramError(Exception):
    """The sandbox has no such program, or cannot run it. The message is that of a container runtime."""


class SandboxProcess:
    """A program started in a sandbox. Thread-safe."""

    def __init__(self, pid: int, reports: int, control: socket.socket) -> None:
        """Take ownership of `reports`, a descriptor from which the exit code is read."""
        self.pid = pid
        self._control = control
        self._reports = reports
        os.set_blocking(reports, False)
        self._code: int | None = None
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the program ends."""
        return self._reports

    def poll(self) -> int | None:
        """Return the exit code: 128 + N for signal N, 137 if the sandbox has ended, or None while the program runs."""
        with self._lock, contextlib.suppress(BlockingIOError):
            if self._code is None and self._reports >= 0:
                self._code = int(os.read(self._reports, 32).strip() or KILLED)
        return self._code

    def signal(self, number: int) -> None:
        with contextlib.suppress(OSError):
            self._control.send(json.dumps({"signal": number, "pid": self.pid}).encode())

    def close(self) -> None:
        if self.poll() is None:
            self.signal(9)
        with self._lock:
            reports, self._reports = self._reports, -1
            if reports >= 0:
                os.close(reports)
            self._code = KILLED if self._code is None else self._code


class Sandbox:
    """The sandbox of one container. It is created when the first program starts."""

    def __init__(
        self,
        namespace: Namespace,
        *,
        hostname: str,
        files: Mapping[str, str] | None = None,
        programs: Mapping[str, Path] | None = None,
    ) -> None:
        """`files` maps paths to contents, executable if they begin with `#!`; `programs` maps paths to local files."""
        self._namespace = namespace
        mounted = {path: str(place) for path, place in (programs or {}).items()}
        setup = {"hostname": hostname, "files": {**_NAMELESS, **(files or {})}, "programs": mounted}
        self._setup = json.dumps(setup)
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._init: subprocess.Popen[bytes] | None = None
        self._closed = False

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
        tty: bool = False,
        folder: str = "/",
    ) -> SandboxProcess:
        """Start a program in a separate session with the complete environment `env`. The caller owns the descriptors.

        With `tty`, `stdin` is the slave end of a pty. Raises `NoProgramError` or `UnavailableError`.
        """
        request = json.dumps({"argv": list(argv), "env": dict(env), "folder": folder, "tty": tty}).encode()
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            with os.fdopen(writing, "wb", 0), self._lock:
                control = self._created()
                try:
                    socket.send_fds(control, [request], [stdin, stdout, stderr, writing])
                except OSError as error:
                    if error.errno != errno.EMSGSIZE:
                        raise NoProgramError("the container has ended") from error
                    raise NoProgramError(f'exec: "{argv[0]}": argument list too long') from error
            pid = _pid_in(_line(reading), argv[0])
        except BaseException:
            os.close(reading)
            raise
        return SandboxProcess(pid, reading, control)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            control, self._control = self._control, None
            init, self._init = self._init, None
        if control is not None:
            control.close()
        if init is not None:
            init.kill()  # its child then ends too, which is the sandbox's first process, and so all others end
            init.wait()

    def _created(self) -> socket.socket:
        if self._closed:
            raise NoProgramError("the container has ended")
        if self._control is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs, self._namespace.entered():  # a child process starts in the netns of the thread that creates it
                self._init = subprocess.Popen(  # noqa: S603  our own program
                    [sys.executable, "-I", "-S", str(_INIT), str(theirs.fileno()), self._setup],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # protects the sandbox from Ctrl-C
                    env={},
                )
            ours.settimeout(_SECONDS)
            try:
                reply = ours.recv(4096)
            except OSError as error:
                reply = str(error).encode()
            if reply != b"\n":
                self._init.kill()
                self._init.wait()
                ours.close()
                why = reply.decode(errors="replace") or "it ended immediately"
                raise UnavailableError(f"this machine cannot run programs in a sandbox: {why}")
            ours.settimeout(None)
            self._control = ours
        return self._control


def _line(reading: int) -> bytes:
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(reading, 1)):
        line += byte
    return line.strip()


def _pid_in(line: bytes, program: str) -> int:
    if line.isdigit():
        return int(line)
    number, _, why = line.removeprefix(b"!").decode(errors="replace").partition(" ")
    if not number.isdigit():
        raise NoProgramError("the container has ended")
    if int(number) != errno.ENOENT:
        raise NoProgramError(f'exec: "{program}": {why[:1].lower()}{why[1:]}')
    if "/" in program:
        raise NoProgramError(f'exec: "{program}": stat {program}: no such file or directory')
    raise NoProgramError(f'exec: "{program}": executable file not found in $PATH')
