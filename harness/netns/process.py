"""Runs programs as processes of this machine. No program outlives the harness, and all output is logged.

The output goes to a file, because a program blocks if it writes to a full pipe that is not read. The kernel kills a
program when the thread that started it ends, even if the harness is killed with `kill -9`. So a single thread, which
runs until this process ends, starts all programs. A launcher calls `prctl` and then executes the program, because
Python code between fork and exec may deadlock in a process with threads.
"""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from harness.errors import EndedError, StartError, UnavailableError
from harness.eventually import NotYetError, eventually, time_scale
from harness.model.program_log import fault_in
from harness.netns.isolation import ProgramSandbox
from harness.netns.namespace import Namespace

_LAUNCHER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
if os.getppid() != int(sys.argv[1]):
    os._exit(1)  # the parent has ended already
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    print(f"cannot run {sys.argv[2]}: {error.strerror}", file=sys.stderr)
    os._exit(127)
"""
_NO_MOUNT = 125
# Its arguments are pairs of a source file and a mount point, then "--", then the program to execute.
_FILES_LAUNCHER = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def insist(name, result):
    if result:
        print(f"{{name}}: {{os.strerror(ctypes.get_errno())}}", file=sys.stderr)
        os._exit({_NO_MOUNT})
end = sys.argv.index("--")
insist("unshare", libc.unshare(0x20000))  # CLONE_NEWNS
insist("mount /", libc.mount(None, b"/", None, 0x4000 | 0x40000, None))  # MS_REC | MS_PRIVATE
for own, real in zip(sys.argv[1:end:2], sys.argv[2:end:2]):
    insist(f"mount {{real}}", libc.mount(os.fsencode(own), os.fsencode(real), None, 0x1000, None))  # MS_BIND
os.execvp(sys.argv[end + 1], sys.argv[end + 1:])
"""
_SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")  # they have nft and iptables, but are often not in a user's PATH
_LINES, _LETTERS = 20, 8000  # the maximum number of lines and characters of a log in an error
_LOOK = 0.002  # seconds between two checks whether a program has ended
_BEGUN = 1_000_000  # bytes of a log to search for the first error


class ProgramHandle(Protocol):
    """Controls a running program on this machine or elsewhere."""

    @property
    def reason(self) -> str:
        """Why the program was ended, as in "was ended because ...", or "" if only its exit code is known."""

    def poll(self) -> int | None:
        """Return the exit code, which is negative for a signal, or None while the program runs."""

    def stop(self, grace: float) -> None:
        """Stop the program, and kill its children once the program ends or after `grace` seconds. Idempotent."""


class Process:
    def __init__(self, name: str, handle: ProgramHandle, log: Path, *, begin: int, pid: int = 0) -> None:
        """`begin` is the offset of the program's output in the log. `pid` is 0 if the program runs elsewhere."""
        self.name = name
        self.log = log
        self.pid = pid
        self._handle = handle
        self._begin = self._heard = begin

    @property
    def alive(self) -> bool:
        return self._handle.poll() is None

    @property
    def was_killed(self) -> bool:
        return self._handle.poll() == -signal.SIGKILL

    def written(self) -> int:
        return self.log.stat().st_size - self._begin if self.log.exists() else 0

    def said(self) -> str:
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            file.seek(max(self._begin, file.seek(0, os.SEEK_END) - _LETTERS))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-_LINES:]).strip()
        return ""

    def news(self) -> str:
        with self.log.open("rb") as file:
            file.seek(self._heard)
            lines = file.read().rpartition(b"\n")[0]
        self._heard += len(lines)
        return lines.decode(errors="replace")

    def broken(self, what: str, *, exited: bool = False) -> StartError:
        """Return a one-line error about a failed start, with the problem and the first error in the program's log."""
        begin = b""
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            file.seek(self._begin)
            begin = file.read(_BEGUN)
        return StartError(f"{self.name} {what}; {fault_in(begin.decode(errors='replace'))}", exited=exited)

    def check(self) -> None:
        if how := self._ended():
            raise self.broken(how, exited=True)

    def expect_alive(self) -> None:
        """Raise `EndedError` with the last lines of the log if this program under test has exited."""
        if how := self._ended():
            raise EndedError(f"{self.name} {how}; its log ends with:\n{self.said() or '(it wrote nothing)'}")

    def _ended(self) -> str:
        code = self._handle.poll()
        if code is None:
            return ""
        if self._handle.reason:
            return self._handle.reason
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"

    def finish(self, within: float) -> None:
        """Wait until the program exits. Raises `StartError` with the log's first error, unless the exit code is 0."""
        code = self.result(within)
        if code != 0:
            late = f"did not end within {within * time_scale():g} s"
            raise self.broken(late if code is None else self._ended(), exited=True)

    def result(self, within: float) -> int | None:
        """Wait for the exit code, and kill remaining children. Return None if the program did not exit in time."""
        with contextlib.suppress(NotYetError):
            eventually(lambda: not self.alive, within=within, every=_LOOK, describe="its end")
        code = self._handle.poll()
        self.stop(grace=0)
        return code

    def stop(self, grace: float = 5.0) -> None:
        self._handle.stop(grace)


class _ChildProcess:
    reason = ""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen

    def poll(self) -> int | None:
        return self._popen.poll()

    def stop(self, grace: float) -> None:
        if grace and self._popen.poll() is None:
            self._popen.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(grace)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()


def start(
    name: str,
    command: Sequence[str | Path],
    *,
    log: Path,
    namespace: Namespace | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    sandbox: ProgramSandbox | None = None,
) -> Process:
    """Start a command, optionally in a netns, a folder and a sandbox. If it cannot be run, its exit code is 127."""

    def run() -> Process:
        bound = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *map(str, command)]
        with log.open("ab") as file, namespace.entered() if namespace else contextlib.nullcontext():
            begin = file.tell()
            popen = subprocess.Popen(  # noqa: S603  the program that is judged
                bound,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,  # only the harness handles Ctrl-C
                env=_environment(environment or {}),
            )
            return Process(name, _ChildProcess(popen), log, begin=begin, pid=popen.pid)

    if sandbox is None:
        return _starter().submit(run).result()
    with log.open("ab") as file:
        begin, known, where = file.tell(), _environment(environment or {}), str(folder or Path.cwd())
        try:
            started = sandbox.start(
                list(map(str, command)), log=file.fileno(), folder=where, environment=known, namespace=namespace
            )
        except OSError as error:
            raise StartError(f"{name} cannot start in the sandbox of its node: {error.strerror}") from error
    return Process(name, started, log, begin=begin, pid=started.pid)


@functools.cache
def _starter() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="starter")


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path += [folder for folder in _SBIN if folder not in path]
    return {**os.environ, "PATH": os.pathsep.join(path), **more}


def search_path() -> str:
    return _environment({})["PATH"]


def run(
    namespace: Namespace,
    command: Sequence[str],
    *,
    files: Mapping[str, str] | None = None,
    timeout: float = 10.0,
) -> subprocess.CompletedProcess[str]:
    """Run a program inside a netns until it exits. Raises `UnavailableError` if `files` cannot be replaced.

    `files` maps paths, such as the resolver's /etc/resolv.conf, to contents that only this program sees.
    """
    program = shutil.which(command[0], path=search_path())
    if program is None:
        raise UnavailableError(f"{command[0]} is not installed")
    with tempfile.TemporaryDirectory(prefix="trafficdist-") as folder:
        pairs: list[str] = []
        for number, (path, text) in enumerate((files or {}).items()):
            own, real = Path(folder) / str(number), Path(path).resolve()
            own.write_text(text, encoding="utf-8")
            if not real.exists():
                raise UnavailableError(f"cannot mount a replacement for {path}: this machine has no such file")
            pairs += [str(own), str(real)]
        launcher = [sys.executable, "-I", "-S", "-c", _FILES_LAUNCHER, *pairs, "--"] if pairs else []
        whole = [*launcher, program, *command[1:]]
        with namespace.entered():  # a child starts in the netns of the thread that creates it
            ended = subprocess.run(  # noqa: S603  a program from a recipe or scenario
                whole,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
                env=_environment({}),
            )
    if pairs and ended.returncode == _NO_MOUNT:
        raise UnavailableError(f"cannot mount replacement files for a program: {ended.stderr.strip()}")
    return ended


def start_time(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot, or 0 for a missing process or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()  # the name, in brackets, may contain anything
    return 0 if fields[0] in "ZX" else int(fields[19])
