"""Runs judge hostile programs. Nothing of them may remain on the machine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.errors import StarvedError
from harness.eventually import eventually
from harness.netns.namespace import Namespace
from harness.run_delay import RUN_DELAY
from tests.harness.run.terminals import marked, marked_processes

SECONDS = 280
"""The time limit of a run, on a machine that is busy with others."""

ACKNOWLEDGED = "interrupted: the run is ending"
SO_NETNS_COOKIE = 71  # since Linux 5.14


class HostileRun:
    """A run that judges a hostile program by one requirement, and everything that it could leave on the machine."""

    def __init__(self, folder: Path, *, kind: str, requirement: str, recipe: Mapping[str, Any]) -> None:
        """`kind` is the option that takes the recipe, such as "proxy"."""
        self.temp, self._output = folder / "temp", folder / "output"
        self.temp.mkdir()
        self.mark = uuid.uuid4().hex
        (folder / "hostile.yaml").write_text(yaml.safe_dump({"name": "hostile", **recipe}), encoding="utf-8")
        own = {"ENDS": self.mark, "TMPDIR": str(self.temp), "PYTHONDONTWRITEBYTECODE": "1"}
        self.mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        self.namespaces = set[int]()
        self.seconds = 0.0  # the time in which the programs of the run could run
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [Path(sys.executable).with_name("trafficdist"), "run", f"--run-test={requirement}",
                 f"--{kind}={folder / 'hostile.yaml'}", f"--output-dir={folder / 'out'}"],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **own},
                start_new_session=True,
            )  # fmt: skip

    def said(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")

    def final_output(self) -> str:
        """Return the output of a run that has ended, or ""."""
        return self.said() if self.process.poll() is not None else ""

    def end(self) -> tuple[int, str]:
        """Wait for the end. Returns the exit code and the output."""
        begin = time.monotonic()
        with RUN_DELAY.watched():
            code = self.process.wait(SECONDS)
            now = time.monotonic()
            self.seconds = now - begin - RUN_DELAY.lost(begin, now)
        return code, self.said()

    def note_namespaces(self) -> None:
        """Remember the network namespaces of the run. `expect_clean` then raises if one of them is left."""
        self.namespaces = network_namespaces(marked_processes(self.mark)) - network_namespaces([Path("/proc/self")])

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait for the acknowledgement. Raises if the run does not write it within a second.

        Only the time in which the programs of the run could run counts. Without a second of it, the test cannot judge.
        """
        os.killpg(self.process.pid, signal.SIGINT)
        with contextlib.suppress(StarvedError):
            eventually(lambda: ACKNOWLEDGED in self.said(), within=1, every=0.01, describe="the acknowledgement")

    def expect_clean(self) -> None:
        """Raise if a process or a netns is left, or a file or a mount."""
        eventually(lambda: not marked(self.mark), within=30, describe=lambda: f"the end of {marked(self.mark)}")
        eventually(lambda: not list(self.temp.iterdir()), within=30, describe="the removal of files")
        eventually(lambda: not self._namespaces_left(), within=30, describe="the end of the network namespaces")
        assert Path("/proc/self/mountinfo").read_text(encoding="utf-8") == self.mounts

    def _namespaces_left(self) -> set[int]:
        return self.namespaces & network_namespaces(Path("/proc").glob("[0-9]*")) if self.namespaces else set()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def network_namespaces(processes: Iterable[Path]) -> set[int]:
    """Return numbers of the network namespaces that these processes are in or keep open.

    Unlike the number of an inode, the kernel never uses such a number again.
    """
    paths: dict[str, Path] = {}
    for process in processes:
        with contextlib.suppress(OSError):  # the process has ended
            for path in (*process.glob("task/*/ns/net"), *process.glob("fd/*")):
                with contextlib.suppress(OSError):
                    paths[str(path.readlink())] = path
    found = set()
    for link, path in paths.items():
        if link.startswith("net:["):
            with (
                contextlib.suppress(OSError),
                Namespace(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as namespace,
                namespace.socket() as opened,
            ):
                found.add(_number(opened) or namespace.inode)
    return found


def _number(opened: socket.socket) -> int:
    """Return the number of a socket's netns, or 0 on an older kernel."""
    with contextlib.suppress(OSError):
        return int.from_bytes(opened.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8), sys.byteorder)
    return 0
