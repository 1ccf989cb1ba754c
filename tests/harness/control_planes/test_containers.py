"""Tests control planes in containers: the errors if they are unavailable, and the removal of containers.

See test_binaries.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from harness.control_planes import containers
from harness.control_planes.containers import RUN_LABEL, ContainerProcesses, check, connect, remove_leftovers
from harness.control_planes.processes import ComponentProgram, wait_until_ready
from harness.errors import DistrustError, UnavailableError
from harness.eventually import eventually
from harness.model.limits import Limits
from harness.netns import sandbox
from harness.settings.implementations import of_settings
from harness.settings.options import resolve


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/docker.sock")
    monkeypatch.setattr(sandbox, "left", lambda: False)


def test_missing_engine_is_unavailable_with_the_fix(no_engine: None) -> None:
    with pytest.raises(UnavailableError, match=r"none answers at unix:///no/such/docker.sock .*--control-plane binar"):
        of_settings(resolve({"control-plane": "containers:1.34"}, environment={}))


def test_missing_engine_leaves_nothing(no_engine: None) -> None:
    assert remove_leftovers() == []


def test_process_outside_the_host_netns_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "left", lambda: True)
    with pytest.raises(UnavailableError, match=r"run as root"):
        check([("etcd", "")])


def test_engine_on_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _engine().client.close()
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    with pytest.raises(UnavailableError, match="is on another machine"):
        connect()


def _engine() -> Any:
    try:
        return connect()
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")


@pytest.fixture
def etcd() -> Iterator[tuple[ContainerProcesses, ComponentProgram]]:
    """Return a folder with an engine and an etcd image."""
    try:
        made = ContainerProcesses()
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")
    with closing(made):
        try:
            image = made.find("etcd")
        except UnavailableError as error:
            pytest.skip(f"unavailable: {error}")
        yield made, image


def _names(run: str) -> list[str]:
    with closing(_engine().client) as client:
        found = client.containers.list(all=True, filters={"label": f"{RUN_LABEL}={run}"}, ignore_removed=True)
        return [each.name for each in found]


class FakeContainer:
    """A container whose program writes endlessly until it is killed, or has taken too much memory."""

    def __init__(self, chunks: Iterable[bytes], *, out_of_memory: bool = False) -> None:
        self._chunks = iter(chunks)
        self.attrs = {"State": {"OOMKilled": out_of_memory}}
        self.killed = False

    def get_wrapped_container(self) -> Any:
        return self

    def logs(self, **_: Any) -> Iterator[bytes]:
        return self._chunks

    def wait(self, **_: Any) -> Any:
        return {"StatusCode": 128 + signal.SIGKILL}

    def kill(self) -> None:
        self.killed = True

    def reload(self) -> None:
        pass


@pytest.mark.parametrize(
    ("engine", "killed", "said"),
    [
        (FakeContainer(itertools.repeat(b"x" * 100_000)), True, "2 MB of logs (limits.log)"),
        (FakeContainer([b"x"], out_of_memory=True), False, "60 MB of memory (limits.memory)"),
    ],
    ids=["log", "memory"],
)
def test_limit_that_a_container_reaches_is_named(
    tmp_path: Path, engine: FakeContainer, killed: bool, said: str
) -> None:
    running: Any = containers._ContainerHandle(cast("Any", engine), tmp_path / "log", Limits(memory=60, log=2))
    eventually(lambda: running.poll() is not None, describe="the end of the program")
    assert (running.poll(), engine.killed) == (-signal.SIGKILL, killed)
    assert running.reason == f"was ended because the programs of its container reached their limit of {said}"


@pytest.mark.slow
def test_container_that_exits_is_named_with_its_log(etcd: tuple[ContainerProcesses, ComponentProgram]) -> None:
    made, image = etcd
    process = made.start("etcd", [image.place, "--data-dir=/proc/nothing"])
    with pytest.raises(DistrustError, match=r"etcd exited with [12]; the first error of its log.*/proc/nothing"):
        wait_until_ready(process, lambda: False, within=30)


@pytest.mark.slow
def test_image_without_the_program_is_unavailable_and_leaves_no_container(
    etcd: tuple[ContainerProcesses, ComponentProgram],
) -> None:
    made, image = etcd
    with pytest.raises(UnavailableError, match=r"no-such-program cannot be started in a container of registry.k8s.io/"):
        made.start("no-such-program", [image.place])
    assert _names(made.run) == []


_HARNESS = """
import sys, time
from harness.control_planes.containers import ContainerProcesses
made = ContainerProcesses()
made.start("etcd", [made.find("etcd").place, f"--data-dir={made.folder}/etcd",
                    "--listen-client-urls=http://127.0.0.1:0", "--advertise-client-urls=http://127.0.0.1:0",
                    "--listen-peer-urls=http://127.0.0.1:0"])
print(made.run, made._reaper.pid, flush=True)
time.sleep(100)
"""


@pytest.mark.slow
@pytest.mark.parametrize("with_reaper", [True, False])
def test_containers_of_a_killed_harness_are_removed(
    etcd: tuple[ContainerProcesses, ComponentProgram], with_reaper: bool
) -> None:
    made, image = etcd
    made.start("etcd", [image.place, "--listen-peer-urls=http://127.0.0.1:0", f"--data-dir={made.folder}/etcd"])
    with subprocess.Popen([sys.executable, "-c", _HARNESS], stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        run, reaper = harness.stdout.readline().split()
        assert _names(run) == [f"trafficdist-{run}-etcd-1"]
        if not with_reaper:
            os.kill(int(reaper), signal.SIGKILL)
        os.kill(harness.pid, signal.SIGKILL)
    if not with_reaper:
        assert containers.remove_leftovers() == [f"trafficdist-{run}-etcd-1"]
    eventually(lambda: not _names(run), within=30, describe="the containers to be gone")
    assert _names(made.run) == [f"trafficdist-{made.run}-etcd-1"]  # belongs to a live harness
