"""A program in a node's netns, with a log file, that can neither outlive this process nor be waited for for ever.

Proxies under test are other people's programs: they exit at start, hang, or leave children. What such a program says
goes to a file, because a pipe that nobody empties would stop it, and the end of that file stands in every error.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from harness.errors import DistrustError
from harness.netns.namespace import Namespace

TAIL = 20
"""So many lines of a log stand in an error."""

_SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")  # an ordinary user has them not in PATH; nft and iptables are there

# The kernel ends the program when the thread that started it does, so also after `kill -9`. A program of its own asks
# for that, because Python code between fork and exec may deadlock where there are threads.
_BOUND = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
if os.getppid() != int(sys.argv[1]):
    os._exit(1)  # whom it was to end with is gone already
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    print(f"cannot run {sys.argv[2]}: {error.strerror}", file=sys.stderr)
    os._exit(127)
"""


class Process:
    """One program in one netns. It ends with `stop`, or with the thread that started it."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._popen = popen

    @classmethod
    def start(
        cls,
        name: str,
        command: Sequence[str],
        namespace: Namespace,
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Run a command in a netns; what it writes is added to `log`. `name` is for people.

        A command that cannot be run has exited with 127, and its log says why.
        """
        bound = [sys.executable, "-I", "-S", "-c", _BOUND, str(os.getpid()), *command]
        with log.open("ab") as file, namespace.entered():
            popen = subprocess.Popen(  # noqa: S603  the program that is judged
                bound,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(environment or {}),
            )
        return cls(name, popen, log)

    @property
    def pid(self) -> int:
        """Its process id, which is that of its session as well."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._popen.poll() is None

    def tail(self, lines: int = TAIL) -> str:
        """The last lines of its log."""
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 400 * lines))
            text = file.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def broken(self, what: str) -> DistrustError:
        """An error that says what is wrong with it, and how its log ends."""
        said = self.tail() or "(nothing)"
        return DistrustError(f"{self.name} {what}; its log ends with:\n{said}")

    def check(self) -> None:
        """Raise `DistrustError` if it has exited."""
        code = self._popen.poll()
        if code is not None:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
            raise self.broken(how)

    def stop(self, grace: float = 5.0) -> None:
        """End it, by SIGTERM and after `grace` seconds by SIGKILL, and whatever it has started. Idempotent."""
        if self._popen.poll() is None:
            self._popen.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(grace)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path += [folder for folder in _SBIN if folder not in path]
    return {**os.environ, "PATH": os.pathsep.join(path), **more}


def search_path() -> str:
    """The PATH that programs get."""
    return _environment({})["PATH"]
