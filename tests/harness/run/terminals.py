"""Runs three small requirements on a pseudo-terminal, pauses at chosen moments, and finds everything that a run leaves.

The module compares the state before and after the run: files in the temp folder and in memory, processes, the output
folder, and all objects of the cluster.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from emulator.kubelet.images import REGISTRY
from harness.api.client import Api
from harness.api.kubeconfig import Kubeconfig
from harness.eventually import eventually
from harness.model.private_folder import in_use
from tests.harness.guest.snapshot import differences, snapshot

AT = """
import os, pathlib, time

HERE = pathlib.Path(__file__).parent

def at(moment):
    (HERE / f"almost-{moment}").write_text(str(os.getpid()))
    (HERE / f"almost-{moment}").rename(HERE / f"at-{moment}")
    while (HERE / f"wait-{moment}").exists():
        time.sleep(0.02)
"""

SUITE = (
    AT
    + """
from harness.model.requirements import *
from harness.scenario.service import same_zone
from harness.scenario.traffic import expect_traffic

FEATURE = Feature("Routing", Profile.SERVICE_PROXY, True, "Routes.")

def must(slug):
    return requirement(f"KEP-1/{slug}", f"The {slug} holds.", level=MUST, features={FEATURE}, source="KEP-1, Design")

def see(cluster):
    service = cluster.create_service(traffic_distribution="PreferClose")
    a1, b1 = cluster.run_servers(on=["a1", "b1"])
    cluster.publish(service, [same_zone(a1), same_zone(b1)])
    expect_traffic(cluster, service, {"a1": {a1}})

@must("first")
def test_first(three_zones): see(three_zones)

@must("second")
def test_second(three_zones):
    see(three_zones)
    at("scenario")
    if (HERE / "fill").exists():
        with open((HERE / "fill").read_text(), "wb", buffering=0) as file:
            size = 1 << 16
            while size:
                try:
                    file.write(b"0" * size)
                except OSError:
                    size //= 2
    see(three_zones)

@must("third")
def test_third(three_zones): see(three_zones)
"""
)

CONFTEST = (
    AT
    + """
import pytest
import harness.plugin.result_collector as ledger

write = ledger.write_reports
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")

def slowly(*arguments):
    at("report")
    return write(*arguments)

ledger.write_reports = slowly
if WORKER == "gw1":
    at("start")

@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    if WORKER == "gw0":
        at("idle")

def pytest_sessionfinish():
    if WORKER == "gw0":
        at("end")
"""
)

TRAFFICDIST = str(Path(sys.executable).with_name("trafficdist"))


def _take_terminal() -> None:
    """Make the terminal that of this process, and hear its end, even if the tests run under nohup."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@dataclass
class TerminalRun:
    """A run on its own pseudo-terminal."""

    command: list[str]
    environment: dict[str, str]
    text: str = ""
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.keys, screen = pty.openpty()
        self.process = subprocess.Popen(
            self.command,
            stdin=screen,
            stdout=screen,
            stderr=screen,
            env=self.environment,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509  no thread holds a lock here
        )
        os.close(screen)
        self._closed = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(OSError):  # the other end of the terminal is closed
                if select.select([self.keys], [], [], 0.05)[0]:
                    self.text += os.read(self.keys, 65536).decode(errors="replace")
                    continue
            if self.process.poll() is not None:
                return

    def close(self) -> None:
        """Close the terminal, as if the user closed its window."""
        self._closed.set()
        self._reader.join()
        with contextlib.suppress(OSError):
            os.close(self.keys)

    def ctrl_c(self) -> None:
        os.write(self.keys, b"\x03")

    def end(self) -> int:
        """Wait for the end, and return the exit code."""
        try:
            code = self.process.wait(200)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the run does not end: {self.text}") from None
        self._reader.join()
        return code


def marked_processes(mark: str) -> Iterator[Path]:
    """Yield the live processes with the variable ENDS=`mark`, which child processes inherit."""
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"ENDS={mark}".encode() in (each / "environ").read_bytes():
                yield each


def marked(mark: str) -> list[str]:
    """Return the command lines of `marked_processes`."""
    found = []
    for each in marked_processes(mark):
        with contextlib.suppress(OSError):
            found.append((each / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


class RunEnvironment:
    """The environment of runs: a backend, and everything that a run could leave."""

    def __init__(self, folder: Path, backend: str, kubeconfig: Path | None) -> None:
        self.folder, self.backend, self.kubeconfig = folder, backend, kubeconfig
        self.suite, self.out, self.temp = folder / "suite", folder / "out", folder / "temp"
        self.suite.mkdir()
        self.temp.mkdir()
        (self.suite / "test_it.py").write_text(SUITE)
        (self.suite / "conftest.py").write_text(CONFTEST)
        self.mark = uuid.uuid4().hex
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("TRAFFICDIST_", "PYTEST_"))}
        own = {"TMPDIR": str(self.temp), "XDG_CACHE_HOME": str(folder / "cache"), "ENDS": self.mark, "TERM": "dumb"}
        if self.kubeconfig:
            own["TRAFFICDIST_IMAGE_REGISTRY"] = REGISTRY  # the real image may not be in the cache of components
        self.environment = ours | own | {"PYTHONDONTWRITEBYTECODE": "1"}
        self.before = self.left()

    def command(self, *options: str, workers: int = 0) -> list[str]:
        where = [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig else []
        what = [f"--suite={self.suite}", f"--output-dir={self.out}", f"--workers={workers}"]
        return [TRAFFICDIST, "run", f"--backend={self.backend}", *where, *what, *options]

    def begin(self, moment: str, *, workers: int, before: tuple[str, ...] = ()) -> TerminalRun:
        """Start a run, and return when it reaches this moment. The run pauses there until `go_on` is called."""
        (self.suite / f"wait-{moment}").touch()
        run = TerminalRun([*before, *self.command(workers=workers)], self.environment)
        at = self.suite / f"at-{moment}"

        def reached() -> bool:
            assert run.process.poll() is None, run.text
            return "  results  " in run.text if moment == "header" else at.exists()

        eventually(reached, within=120, every=0.01, describe=f"the moment {moment}")
        return run

    def go_on(self) -> None:
        for each in self.suite.glob("wait-*"):
            each.unlink()

    def left(self) -> dict[Any, Any]:
        """Return all files, and all objects of the cluster except those that the cluster's own components write."""
        in_memory = [each for each in Path("/dev/shm").glob("trafficdist-*") if not in_use(each)]  # not others'
        files = [*self.temp.rglob("*"), *in_memory]
        found: dict[Any, Any] = {str(path): "a file" for path in files}
        if self.kubeconfig:
            with contextlib.closing(Api(Kubeconfig(str(self.kubeconfig)))) as api:
                objects = snapshot(api)
            found |= {key: each for key, each in objects.items() if "service-proxy-" not in str(key)}
        return found

    def expect_clean(self) -> None:
        eventually(lambda: not marked(self.mark), describe=lambda: f"the end of {marked(self.mark)}")
        found = list(differences(self.before, self.left()))
        assert found == [], found

    def end_runs(self) -> None:
        """Kill the processes that a failed test left, and remove their objects from the cluster for later tests."""
        for each in marked_processes(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(each.name), signal.SIGKILL)
        eventually(lambda: not marked(self.mark), describe=lambda: f"the end of {marked(self.mark)}")
        if self.kubeconfig and differences(self.before, self.left()):
            command = [TRAFFICDIST, "cleanup", f"--kubeconfig={self.kubeconfig}"]
            subprocess.run(command, check=True, env=self.environment)

    def report(self) -> Any:
        return yaml.safe_load((self.out / "report.yaml").read_text())

    def verdicts(self) -> dict[str, str]:
        return {test["id"].partition("/")[2]: test["verdict"] for test in self.report()["tests"]}

    def hidden(self) -> list[str]:
        """Return the internal files of the run in the output folder."""
        return sorted(path.name for path in self.out.glob(".*") if path.name != ".trafficdist")
