"""Tests the parts of a node's isolated environment. Programs of the node see these parts, and other programs do not."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.checks.program_requirements import REQUIREMENTS, missing
from harness.eventually import eventually
from harness.netns import isolation
from harness.netns.isolation import OWN, Room

MakeRoom = Callable[..., Room]

with_mount = pytest.mark.skipif(shutil.which("mount") is None, reason="unavailable: mount is not installed")


@pytest.fixture
def room() -> Iterator[MakeRoom]:
    """Return a function that creates isolated environments.

    Skip the test if the machine or the user cannot create them.
    """
    made: list[Room] = []

    def make(*wanted: str, name: str = "a1") -> Room:
        if absent := missing(wanted):
            pytest.skip(str(absent))
        made.append(Room(name, wanted))
        return made[-1]

    yield make
    for each in made:
        each.close()


def run(room: Room, script: str) -> str:
    return subprocess.run(
        room.entering(["sh", "-c", script]), capture_output=True, text=True, timeout=30, check=True
    ).stdout.strip()


def kind_of(room: Room, place: str) -> str:
    """Return the type of the filesystem that a program sees at a path."""
    mounts = [line.split(" - ") for line in run(room, "cat /proc/self/mountinfo").splitlines()]
    return [last.split()[0] for first, last in mounts if first.split()[4] == place][-1]


def test_host_name_is_that_of_the_node(room: MakeRoom) -> None:
    before = socket.gethostname()
    assert [run(room("hostname", name=name), "uname -n") for name in ("a1", "node.b")] == ["a1", "node.b"]
    assert socket.gethostname() == before


def test_run_is_empty_and_of_one_node(room: MakeRoom) -> None:
    one, other = room("run"), room("run")
    assert run(one, "ls -A /run; echo 7 > /run/agent.pid") == ""
    assert (run(one, "cat /run/agent.pid"), run(other, "ls -A /run")) == ("7", "")
    assert not Path("/run/agent.pid").exists()


@with_mount
def test_mounts_are_visible_only_to_the_nodes_programs(room: MakeRoom, tmp_path: Path) -> None:
    one, other = room("mounts"), room("mounts")
    run(one, f"mount -t tmpfs none {tmp_path} && touch {tmp_path}/here")
    assert (run(one, f"ls {tmp_path}"), run(other, f"ls {tmp_path}"), list(tmp_path.iterdir())) == ("here", "", [])


def test_bpffs_is_of_one_node_and_outlives_its_programs(room: MakeRoom) -> None:
    one, other = room("bpffs"), room("bpffs")
    run(one, "mkdir /sys/fs/bpf/pinned")
    assert kind_of(one, "/sys/fs/bpf") == "bpf"
    assert "pinned" in run(one, "ls /sys/fs/bpf").split()
    assert "pinned" not in run(other, "ls /sys/fs/bpf").split()


def test_control_group_is_the_top_for_the_programs_of_the_node(room: MakeRoom) -> None:
    one, other = room("cgroup2"), room("cgroup2")
    assert kind_of(one, "/sys/fs/cgroup") == "cgroup2"
    assert run(one, "grep ^0:: /proc/self/cgroup; mkdir /sys/fs/cgroup/mine") == "0::/"
    assert run(one, "grep -x $$ /sys/fs/cgroup/cgroup.procs").isdigit()
    assert (run(one, "ls -d /sys/fs/cgroup/mine"), run(other, "ls -d /sys/fs/cgroup/*/ || true")) == (
        "/sys/fs/cgroup/mine",
        "",
    )
    run(one, "rmdir /sys/fs/cgroup/mine")


def has_group(room: Room, name: str) -> bool:
    """Return whether a control group exists, as an isolated program sees it."""
    mounted = "mount -t tmpfs none /mnt && mkdir /mnt/all && mount -t cgroup2 none /mnt/all"
    return run(room, f"{mounted} && find /mnt/all -name {name}") != ""


@with_mount
def test_closing_the_isolation_stops_its_programs_and_removes_the_control_group(room: MakeRoom) -> None:
    ending = room("cgroup2")
    name = f"trafficdist-{ending._keeper.pid}"
    with subprocess.Popen(ending.entering(["sleep", "600"])) as sleeping:
        own = Path(f"/proc/{sleeping.pid}/cgroup")
        eventually(lambda: name in own.read_text(encoding="ascii"), within=10, describe="it to be in the group")
        assert has_group(room("mounts"), name)
        ending.close()
        assert sleeping.wait(10) == -signal.SIGKILL
    assert not has_group(room("mounts"), name)
    ending.close()  # a second close does nothing


@with_mount
def test_sigkill_of_the_creator_leaves_nothing(room: MakeRoom) -> None:
    room("cgroup2").close()  # skips the test if unavailable
    mine = "from harness.netns import sandbox; sandbox.enter(); from harness.netns.isolation import Room; import os; "
    script = f"{mine}print(Room('a1', ['cgroup2'])._keeper.pid, flush=True); os.kill(os.getpid(), 9)"
    ended = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    name = f"trafficdist-{int(ended.stdout)}"
    eventually(lambda: not has_group(room("mounts"), name), within=10, describe="the group's end")


def test_failed_isolation_names_the_failing_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "_KEEPER", isolation._KEEPER.replace('mount("bpf"', 'mount("nosuch"'))
    with pytest.raises(OSError, match="cannot mount nosuch at /sys/fs/bpf: No such device") as raised:
        Room("a1", ["bpffs"])
    assert raised.value.errno == errno.ENODEV


def test_missing_program_is_reported(room: MakeRoom) -> None:
    found = {**os.environ, "PATH": os.defpath}  # an unreadable folder on PATH would change the error
    ended = subprocess.run(room("mounts").entering(["no-such"]), capture_output=True, text=True, check=False, env=found)
    assert (ended.returncode, ended.stderr) == (127, "cannot run no-such: No such file or directory\n")


def test_program_keeps_its_folder(room: MakeRoom) -> None:
    assert run(room("mounts"), "pwd") == str(Path.cwd())


def test_each_part_of_the_isolation_is_checked_before_the_start() -> None:
    assert set(OWN) <= set(REQUIREMENTS)
