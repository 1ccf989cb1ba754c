"""Processes of a control plane on this machine: started, watched, and gone when the harness is, whatever ends it.

A small launcher asks the kernel to kill the process with its parent, then becomes the process. The kernel means the
thread that started it, so one thread starts them all and lives as long as they are wanted. Each writes to a log of its
own in one folder, in memory where there is room, which goes with the processes; what a killed harness left there goes
with the next.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.errors import DistrustError, UnavailableError
from harness.eventually import time_scale

_LAUNCHER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
if os.getppid() != int(sys.argv[1]):
    os._exit(1)  # the harness was quicker
os.execv(sys.argv[2], sys.argv[2:])
"""
_MEMORY = Path("/dev/shm")  # noqa: S108  a file system in memory; the folder in it is made by mkdtemp
_ROOM = 1 << 30  # bytes: etcd alone reserves 128 MB
_PORTS = range(20000, 32000)  # below those that the kernel gives to clients, so none takes one in between
_PREFIX, _ALIVE = "trafficdist-processes-", "alive"
_TAIL = 4000  # characters of a log
_TRIES = 4  # ports
_EVERY = 0.02  # seconds between two looks whether a process is ready


class Process:
    """One running process."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path, begin: int) -> None:
        """`begin` is where its part of the log begins, in bytes."""
        self.name = name
        self.log = log
        self._process = process
        self._begin = self._heard = begin

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def exit_status(self) -> int | None:
        """What it exited with, below 0 for a signal; None while it runs."""
        return self._process.poll()

    def said(self) -> str:
        """What it wrote to its log, the last of it."""
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            file.seek(self._begin)
            return file.read().decode(errors="replace")[-_TAIL:].strip()
        return ""

    def news(self) -> str:
        """What it wrote to its log since this was asked last, in whole lines."""
        with self.log.open("rb") as file:
            file.seek(self._heard)
            lines = file.read().rpartition(b"\n")[0]
        self._heard += len(lines)
        return lines.decode(errors="replace")

    def kill(self) -> None:
        """End it, and wait until it has. Idempotent."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def failure(self, what: str) -> DistrustError:
        """The error that it is in, with the end of its log."""
        return DistrustError(f"{self.name} {what}; the end of its log:\n{self.said() or '(it wrote nothing)'}")


class Processes:
    """All processes of one control plane, and the folder that they live in."""

    def __init__(self) -> None:
        place = _roomy()
        _sweep(place)
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        scratch = self.folder / f".{_ALIVE}"
        self._alive = scratch.open("w")
        fcntl.flock(self._alive, fcntl.LOCK_EX)  # for as long as this process lives
        scratch.rename(self.folder / _ALIVE)
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="starter")
        self._running: list[Process] = []

    def start(self, name: str, arguments: Sequence[str | Path]) -> Process:
        """Start a program by its path and arguments. Raises `UnavailableError` when it cannot be started."""
        return self._starter.submit(self._start, name, [str(each) for each in arguments]).result()

    def start_on_ports(
        self,
        name: str,
        count: int,
        arguments: Callable[[Sequence[int]], Sequence[str | Path]],
        wait: Callable[[Process], None],
    ) -> Process:
        """Start a program on so many free ports of loopback, and again on others when they were taken in between.

        `arguments` are those for these ports; `wait` returns when the process is ready. One that does not get there is
        ended. Raises what `wait` does.
        """
        for tries_left in reversed(range(_TRIES)):
            process = self.start(name, arguments(free_ports(count)))
            try:
                wait(process)
            except Exception:
                self.kill(process)
                if not tries_left or "address already in use" not in process.said():
                    raise
            else:
                return process
        raise AssertionError("the last try raises")

    def _start(self, name: str, arguments: list[str]) -> Process:
        log = self.folder / f"{name}.log"
        if not os.access(arguments[0], os.X_OK):
            raise UnavailableError(f"{name}: {arguments[0]} is not a program that can be run")
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid())]
        with log.open("ab") as file:
            begin = file.tell()
            process = subprocess.Popen(  # noqa: S603  the binary that the person chose
                [*launcher, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is for the harness
            )
        self._running.append(Process(name, process, log, begin))
        return self._running[-1]

    def kill(self, process: Process | None) -> None:
        """End one of them; None is none."""
        if process is not None:
            process.kill()
            self._running.remove(process)

    def logs(self) -> dict[str, str]:
        """The ends of all logs, by file name."""
        return {each.name: each.read_text(errors="replace")[-200_000:] for each in sorted(self.folder.glob("*.log"))}

    def close(self) -> None:
        """End all of them, the latest first, and remove the folder. Idempotent."""
        for each in reversed(self._running):
            each.kill()
        self._running.clear()
        self._starter.shutdown()
        self._alive.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_until_ready(process: Process, is_ready: Callable[[], bool], *, within: float) -> None:
    """Wait until a process is ready; `within` is in seconds before the time scale.

    Raises `DistrustError` when it exits or does not get there, and `UnavailableError` when it is a release that has not
    what was asked for; both with the end of its log.
    """
    begin = time.monotonic()
    while not is_ready():
        status = process.exit_status()
        if status is not None:
            raise _exited(process, status)
        if time.monotonic() - begin > within * time_scale():
            raise process.failure(f"was not ready after {time.monotonic() - begin:.0f} s")
        time.sleep(_EVERY)


def _exited(process: Process, status: int) -> Exception:
    said = process.said()
    if "feature gate" in said:
        line = next(line for line in said.splitlines() if "feature gate" in line)
        return UnavailableError(f"{process.name} of this release cannot be started so: {line.strip()}")
    how = f"was ended by signal {-status}" if status < 0 else f"exited with status {status}"
    return process.failure(f"{how} before it was ready")


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    found: list[int] = []
    for port in random.Random().sample(_PORTS, len(_PORTS)):  # noqa: S311  not a seed's: processes differ
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise UnavailableError(f"no {count} ports of loopback are free between {_PORTS.start} and {_PORTS.stop}")


def _roomy() -> Path:
    with contextlib.suppress(OSError):
        if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
            return _MEMORY
    return Path(tempfile.gettempdir())


def _sweep(place: Path) -> None:
    """Remove folders whose harness was killed: nobody holds their lock any more."""
    for each in place.glob(f"{_PREFIX}*/{_ALIVE}"):
        with contextlib.suppress(OSError), each.open("r+") as file:  # somebody else's, or alive
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(each.parent, ignore_errors=True)
