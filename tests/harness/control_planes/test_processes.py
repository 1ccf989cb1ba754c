"""Tests the processes of a control plane. An error names the process and quotes the end of its log."""

from __future__ import annotations

import errno
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from harness.control_planes.processes import Processes, free_ports, wait_until_ready
from harness.errors import DistrustError, StartError, UnavailableError
from harness.eventually import eventually
from harness.model import limits
from harness.netns.process import Process

Script = Callable[[str], Path]


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.close()


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Return a function that creates a program from lines of shell script."""
    numbers = itertools.count(1)

    def make(text: str) -> Path:
        path = tmp_path / f"program-{next(numbers)}"  # another one may be about to start
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    return make


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end during the read
        return True


def test_process_that_exits_is_named_with_its_log(processes: Processes, script: Script) -> None:
    process = processes.start("etcd", [script("echo no room left; exit 3")])
    with pytest.raises(DistrustError, match="etcd exited with 3; its log has no error, and ends with: no room left"):
        wait_until_ready(process, lambda: False, within=10)


def test_process_that_never_gets_ready_is_named_with_its_log(processes: Processes, script: Script) -> None:
    process = processes.start("kube-apiserver", [script("echo waiting for etcd; sleep 60")])
    eventually(lambda: "etcd" in process.said(), describe="its first line")
    with pytest.raises(DistrustError, match=r"kube-apiserver was not ready after 0 s; .*: waiting for etcd"):
        wait_until_ready(process, lambda: False, within=0.1)


def test_unknown_gate_makes_the_component_unavailable(processes: Processes, script: Script) -> None:
    process = processes.start("kube-apiserver", [script("echo 'unrecognized feature gate: Nope'; exit 1")])
    with pytest.raises(UnavailableError, match="unrecognized feature gate: Nope"):
        wait_until_ready(process, lambda: False, within=10)


HOGS = {
    "memory": "it = []\nwhile True:\n  it.append(b'x' * 1000000)",
    "processes": "import os, signal\nwhile True:\n  try: os.fork() or signal.pause()\n  except OSError: pass",
    "log": "while True: print('x' * 10000)",
}


@pytest.mark.parametrize(
    ("name", "limit", "said"),
    [("memory", 60, "60 MB of memory"), ("processes", 50, "50 processes and threads"), ("log", 2, "2 MB of logs")],
)
def test_programs_have_the_limits_of_the_option(
    script: Script, monkeypatch: pytest.MonkeyPatch, name: str, limit: int, said: str
) -> None:
    monkeypatch.setattr("harness.model.limits.DEFAULTS", dict(limits.DEFAULTS))
    limits.set_limits([f"{name}={limit}"])
    with closing(Processes()) as processes:
        etcd = processes.start("etcd", [script("exec sleep 600")])
        hog = processes.start("kube-apiserver", [script(f'exec "{sys.executable}" -c "{HOGS[name]}"')])
        told = f"was ended because the programs of the control plane reached their limit of {said} (limits.{name})"
        with pytest.raises(StartError, match=re.escape(f"kube-apiserver {told}")):
            wait_until_ready(hog, lambda: False, within=600)
        with pytest.raises(StartError, match=re.escape(f"etcd {told}")):
            wait_until_ready(etcd, lambda: False, within=600)


def test_program_that_cannot_be_run_is_unavailable(processes: Processes, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"etcd: .* is not executable"):
        processes.start("etcd", [tmp_path / "nothing"])


def test_port_taken_meanwhile_is_replaced(processes: Processes, script: Script) -> None:
    first: list[int] = []

    def arguments(ports: Sequence[int]) -> list[str | Path]:
        first.extend(ports)
        taken = "echo address already in use; exit 1" if len(first) == 1 else "echo serving; sleep 60"
        return [script(taken), str(ports[0])]

    def wait(process: Process) -> None:
        wait_until_ready(process, lambda: "serving" in process.said(), within=10)

    process = processes.start_on_ports("etcd", 1, arguments, wait)
    assert len(set(first)) == 2
    assert process.alive


def test_process_that_fails_for_another_reason_is_not_retried(processes: Processes, script: Script) -> None:
    tries: list[Sequence[int]] = []

    def arguments(ports: Sequence[int]) -> list[str | Path]:
        tries.append(ports)
        return [script("exit 1")]

    with pytest.raises(DistrustError, match="its log is empty"):
        processes.start_on_ports("etcd", 2, arguments, lambda each: wait_until_ready(each, lambda: False, within=10))
    assert len(tries) == 1


def test_process_whose_start_is_interrupted_is_ended(processes: Processes, script: Script) -> None:
    begun: list[Process] = []

    def wait(process: Process) -> None:
        begun.append(process)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        processes.start_on_ports("etcd", 1, lambda _: [script("sleep 60")], wait)
    assert not begun[0].alive


def test_free_ports_are_unbound() -> None:
    ports = free_ports(3)
    assert len(set(ports)) == 3
    for port in ports:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", port))


def test_nothing_is_left_when_all_end(script: Script) -> None:
    processes = Processes()
    process = processes.start("etcd", [script("echo begun; sleep 60")])
    processes.close()
    processes.close()
    assert _is_gone(process.pid)
    assert not processes.folder.exists()


_HARNESS = """
import sys, time
from harness.control_planes.processes import Processes
from harness.netns import sandbox
sandbox.enter()
processes = Processes()
print(processes.start("etcd", [sys.argv[1]]).pid, processes.folder, flush=True)
time.sleep(60)
"""


def test_processes_of_a_killed_harness_exit_and_are_cleaned_up(script: Script) -> None:
    command = [sys.executable, "-c", _HARNESS, str(script("exec sleep 60"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        pid, folder = harness.stdout.readline().decode().split()
        with closing(Processes()) as other:
            assert {Path(folder).exists(), other.folder.exists()} == {True}  # the folder of a live process stays
        os.kill(harness.pid, signal.SIGKILL)
    eventually(lambda: _is_gone(int(pid)), describe=f"process {pid} to be gone")
    eventually(lambda: not Path(folder).exists(), describe="its folder to be removed")


def test_folder_of_another_user_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "trafficdist-processes-theirs"
    theirs.mkdir()
    exists = Path.exists

    def look(path: Path) -> bool:
        """Fail as if the user were not root and had no access to the folder."""
        if path.parent == theirs:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", look)
    monkeypatch.setattr("harness.control_planes.processes._roomy", lambda: tmp_path)
    Processes().close()
    assert list(tmp_path.iterdir()) == [theirs]
