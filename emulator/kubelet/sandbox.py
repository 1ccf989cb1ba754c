"""The sandbox of one container: real programs of this machine in a pod's netns, which can change nothing outside.

A program has mounts, process ids, a host name and IPC of its own. Of this machine's files it sees programs, libraries
and /etc, all of them read-only; /tmp, /run and /dev/shm are its own. It is nobody and has no capabilities; what an
ordinary user runs stays that user, and sees no more of the files. All ends with `close`, or when this process does in
whatever way.

A room (`harness.netns.isolation`) is for programs that configure a node: it hides no files and takes no rights away.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import UnavailableError
from harness.netns.namespace import Namespace

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for that are named without a slash."""

KILLED = 137  # the exit code of a process that SIGKILL ended
_SECONDS = 20.0  # for a sandbox to be made
_INIT = Path(__file__).with_name("sandbox_init.py")
_NAMELESS = {"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n"}


class NoProgramError(Exception):
    """There is no such program in the sandbox, or it cannot be run; the text is a container runtime's."""


class SandboxProcess:
    """A program that was started in a sandbox. Thread-safe."""

    def __init__(self, pid: int, reports: int, control: socket.socket) -> None:
        """Take over `reports`, a descriptor from which its exit code is read."""
        self.pid = pid
        self._control = control
        self._reports = reports
        self._code: int | None = None
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the program has ended, for `poll` and `select`."""
        return self._reports

    def poll(self) -> int | None:
        """Return its exit code, 128 and its number for a signal, 137 if the sandbox has ended; None while it runs."""
        return self.wait(0)

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait until it has ended, `seconds` at most, and return what `poll` does."""
        poll = select.poll()
        with self._lock:
            if self._code is not None or self._reports < 0:
                return self._code
            poll.register(self._reports, select.POLLIN)
        if poll.poll(None if seconds is None else seconds * 1000):
            with self._lock:
                if self._code is None and self._reports >= 0:
                    self._code = int(os.read(self._reports, 32).strip() or KILLED)
        return self._code

    def signal(self, number: int) -> None:
        """Send it a signal. Nothing happens if it has ended."""
        with contextlib.suppress(OSError):
            self._control.send(json.dumps({"signal": number, "pid": self.pid}).encode())

    def close(self) -> None:
        """Let go of it: one that still runs is killed. Idempotent."""
        if self.poll() is None:
            self.signal(9)
        with self._lock:
            reports, self._reports = self._reports, -1
            if reports >= 0:
                os.close(reports)
            self._code = KILLED if self._code is None else self._code


class Sandbox:
    """The sandbox of one container, from its start to its end. It is made when the first program is started."""

    def __init__(
        self,
        namespace: Namespace,
        *,
        hostname: str,
        files: Mapping[str, str] | None = None,
        programs: Mapping[str, Path] | None = None,
    ) -> None:
        """Programs run in the netns `namespace`, and see `files` (texts by path) in place of this machine's.

        A text that begins with `#!` can be run. `programs` are files of this machine, shown at another path.
        """
        self._namespace = namespace
        shown = {path: str(place) for path, place in (programs or {}).items()}
        self._told = json.dumps({"hostname": hostname, "files": {**_NAMELESS, **(files or {})}, "programs": shown})
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
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
        """Start a program with these descriptors, which the caller keeps (and closes), in a session of its own.

        Where `tty` is true, `stdin` is a terminal (the end of a pty that is for programs), which becomes its
        controlling one. `env` is its whole environment; a program without a slash is looked for in its PATH.
        Raises `NoProgramError`, and `UnavailableError` where no sandbox can be made here.
        """
        told = json.dumps({"argv": list(argv), "env": dict(env), "folder": folder, "tty": tty}).encode()
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            with self._lock:
                control = self._made()
                try:
                    socket.send_fds(control, [told], [stdin, stdout, stderr, writing])
                except OSError as error:
                    if error.errno != errno.EMSGSIZE:
                        raise NoProgramError("the container has ended") from error
                    raise NoProgramError(f'exec: "{argv[0]}": argument list too long') from error
                finally:
                    os.close(writing)
            pid = _pid_in(_line(reading), argv[0])
        except BaseException:
            os.close(reading)
            raise
        return SandboxProcess(pid, reading, control)

    def close(self) -> None:
        """End all that runs in it. Idempotent."""
        with self._lock:
            self._closed = True
            control, self._control = self._control, None
            keeper, self._keeper = self._keeper, None
        if control is not None:
            control.close()
        if keeper is not None:
            keeper.kill()  # the first process of the sandbox ends with it, and all else with that one
            keeper.wait()

    def _made(self) -> socket.socket:
        """Return the socket of the sandbox, which is made now if there is none yet."""
        if self._closed:
            raise NoProgramError("the container has ended")
        if self._control is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs, self._namespace.entered():  # a child is born in the netns of the thread that makes it
                self._keeper = subprocess.Popen(  # noqa: S603  our own program
                    [sys.executable, "-I", "-S", str(_INIT), str(theirs.fileno()), self._told],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl-C is for the harness
                    env={},
                )
            ours.settimeout(_SECONDS)
            try:
                said = ours.recv(4096)
            except OSError as error:
                said = str(error).encode()
            if said != b"\n":
                self._keeper.kill()
                self._keeper.wait()
                ours.close()
                why = said.decode(errors="replace") or "it has ended at once"
                raise UnavailableError(f"no program can be run in a sandbox here: {why}")
            ours.settimeout(None)
            self._control = ours
        return self._control


def _line(reading: int) -> bytes:
    """Return the first line of the reports about a program; b"" if there is none."""
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
