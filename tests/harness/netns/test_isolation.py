"""Tests the parts of a node's isolated environment. Programs of the node see these parts, and other programs do not."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.checks.program_requirements import REQUIREMENTS, missing
from harness.errors import EndedError, StartError
from harness.eventually import eventually
from harness.model import limits as node_limits
from harness.model.limits import Limits
from harness.netns import isolation
from harness.netns import sandbox as user_namespace
from harness.netns.isolation import OWN, ProgramSandbox
from harness.netns.namespace import Namespace
from harness.netns.process import Process, start
from tests.harness.proxies.conftest import processes_in

MakeSandbox = Callable[..., ProgramSandbox]

with_mount = pytest.mark.skipif(shutil.which("mount") is None, reason="unavailable: mount is not installed")


@pytest.fixture
def sandbox() -> Iterator[MakeSandbox]:
    """Return a function that creates isolated environments.

    Skip the test if the machine or the user cannot create them.
    """
    made: list[ProgramSandbox] = []

    def make(*wanted: str, name: str = "a1", namespace: Namespace | None = None, **limits: int) -> ProgramSandbox:
        if absent := missing(wanted):
            pytest.skip(str(absent))
        made.append(ProgramSandbox(name, wanted, limits=Limits(**limits), namespace=namespace))
        return made[-1]

    yield make
    for each in made:
        each.close()


def started(sandbox: ProgramSandbox, log: Path, *command: str, namespace: Namespace | None = None) -> Process:
    return start("it", command, log=log, sandbox=sandbox, namespace=namespace)


def run(sandbox: ProgramSandbox, script: str) -> str:
    with tempfile.NamedTemporaryFile() as file:
        code = started(sandbox, Path(file.name), "sh", "-c", script).result(30)
        said = file.read().decode().strip()
    assert code == 0, said
    return said


def kind_of(sandbox: ProgramSandbox, place: str) -> str:
    """Return the type of the filesystem that a program sees at a path."""
    mounts = [line.split(" - ") for line in run(sandbox, "cat /proc/self/mountinfo").splitlines()]
    return [last.split()[0] for first, last in mounts if first.split()[4] == place][-1]


def test_host_name_is_that_of_the_node(sandbox: MakeSandbox) -> None:
    before = socket.gethostname()
    assert [run(sandbox("hostname", name=name), "uname -n") for name in ("a1", "node.b")] == ["a1", "node.b"]
    assert socket.gethostname() == before


def test_settings_of_the_machine_stay_as_they_are(sandbox: MakeSandbox) -> None:
    """A program can change machine-wide settings for its node. Settings of the netns and random numbers are real."""
    setting = Path("/proc/sys/vm/swappiness")
    before = setting.read_text()
    one, other = sandbox("sysctls"), sandbox("sysctls")
    try:
        assert run(one, f"echo 43 > {setting}; cat {setting}") == "43"
        assert (run(one, f"cat {setting}"), run(other, f"cat {setting}"), setting.read_text()) == (
            "43",
            before.strip(),
            before,
        )
    finally:
        with contextlib.suppress(OSError):  # an ordinary user cannot have changed it
            setting.write_text(before)
    assert len(set(run(one, "cat /proc/sys/kernel/random/uuid /proc/sys/kernel/random/uuid").split())) == 2
    for same in ("net/ipv4/ip_forward", "kernel/ostype"):
        assert run(one, f"cat /proc/sys/{same}") == (Path("/proc/sys") / same).read_text().strip()


def test_run_is_empty_and_of_one_node(sandbox: MakeSandbox) -> None:
    one, other = sandbox("run"), sandbox("run")
    assert run(one, "ls -A /run; echo 7 > /run/agent.pid") == ""
    assert (run(one, "cat /run/agent.pid"), run(other, "ls -A /run")) == ("7", "")
    assert not Path("/run/agent.pid").exists()


@with_mount
def test_mounts_are_visible_only_to_the_nodes_programs(sandbox: MakeSandbox, tmp_path: Path) -> None:
    one, other = sandbox("mounts"), sandbox("mounts")
    run(one, f"mount -t tmpfs none {tmp_path} && touch {tmp_path}/here")
    assert (run(one, f"ls {tmp_path}"), run(other, f"ls {tmp_path}"), list(tmp_path.iterdir())) == ("here", "", [])


@with_mount
def test_remounts_do_not_reach_the_machine(sandbox: MakeSandbox) -> None:
    """Root changes the options that its node sees. An ordinary user cannot change those of /sys."""
    before = {place: os.statvfs(place).f_flag for place in ("/proc", "/sys")}
    with Namespace.create() as namespace:
        mine = sandbox(namespace=namespace)
        said = run(mine, "for each in /proc /sys; do mount -o remount,ro $each; done; umount -l /sys; echo done")
    assert said.endswith("done")
    assert {place: os.statvfs(place).f_flag for place in before} == before


@pytest.mark.skipif(
    os.getuid() != 0 or user_namespace.left(), reason="unavailable: only root of the machine has another /sys"
)
def test_sys_of_a_node_shows_its_interfaces_and_keeps_the_mounts_below(sandbox: MakeSandbox) -> None:
    with Namespace.create() as namespace:
        mine = sandbox(namespace=namespace)
        assert run(mine, "ls /sys/class/net") == "lo"
        below = "cut -d' ' -f5 /proc/self/mountinfo | grep '^/sys/' | sort"
        assert run(mine, below) == run(sandbox(), below)


def test_bpffs_is_of_one_node_and_outlives_its_programs(sandbox: MakeSandbox) -> None:
    one, other = sandbox("bpffs"), sandbox("bpffs")
    run(one, "mkdir /sys/fs/bpf/pinned")
    assert kind_of(one, "/sys/fs/bpf") == "bpf"
    assert "pinned" in run(one, "ls /sys/fs/bpf").split()
    assert "pinned" not in run(other, "ls /sys/fs/bpf").split()


def test_control_group_is_the_top_for_the_programs_of_the_node(sandbox: MakeSandbox) -> None:
    one, other = sandbox("cgroup2"), sandbox("cgroup2")
    assert kind_of(one, "/sys/fs/cgroup") == "cgroup2"
    assert run(one, "grep ^0:: /proc/self/cgroup; mkdir /sys/fs/cgroup/mine") == "0::/"
    assert run(one, "grep -x $$ /sys/fs/cgroup/cgroup.procs").isdigit()
    assert (run(one, "ls -d /sys/fs/cgroup/mine"), run(other, "ls -d /sys/fs/cgroup/*/ 2>/dev/null || true")) == (
        "/sys/fs/cgroup/mine",
        "",
    )
    run(one, "rmdir /sys/fs/cgroup/mine")


def has_group(sandbox: ProgramSandbox, name: str) -> bool:
    """Return whether a control group exists, as an isolated program sees it."""
    mounted = "mount -t tmpfs none /mnt && mkdir /mnt/all && mount -t cgroup2 none /mnt/all"
    return run(sandbox, f"{mounted} && find /mnt/all -name {name}") != ""


@with_mount
def test_closing_the_isolation_stops_its_programs_and_removes_the_control_group(sandbox: MakeSandbox) -> None:
    ending = sandbox("cgroup2")
    name = f"trafficdist-{ending._supervisor.pid}"
    with subprocess.Popen(ending.entering(["sleep", "600"])) as sleeping:
        own = Path(f"/proc/{sleeping.pid}/cgroup")
        eventually(lambda: name in own.read_text(encoding="ascii"), describe="it to be in the group")
        assert has_group(sandbox("mounts"), name)
        ending.close()
        assert sleeping.wait(10) == -signal.SIGKILL
    assert not has_group(sandbox("mounts"), name)
    ending.close()  # a second close does nothing


@with_mount
def test_sigkill_of_the_creator_leaves_nothing(sandbox: MakeSandbox) -> None:
    sandbox("cgroup2").close()  # skips the test if unavailable
    imports = "import os; from harness.netns import isolation, sandbox"
    made = "isolation.ProgramSandbox('a1', ['cgroup2'])"
    script = f"{imports}; sandbox.enter(); print({made}._supervisor.pid, flush=True); os.kill(os.getpid(), 9)"
    ended = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    name = f"trafficdist-{int(ended.stdout)}"
    eventually(lambda: not has_group(sandbox("mounts"), name), describe="the group's end")


def test_failed_isolation_names_the_failing_step(monkeypatch: pytest.MonkeyPatch) -> None:
    imports, main = isolation._SUPERVISOR.rsplit("; ", 1)
    other = "it = sandbox_supervisor; real = it.mount; it.mount = lambda _, path: real('nosuch', path)"
    monkeypatch.setattr(isolation, "_SUPERVISOR", "; ".join((imports, other, main)))
    with pytest.raises(OSError, match="cannot mount nosuch at /sys/fs/bpf: No such device") as raised:
        ProgramSandbox("a1", ["bpffs"])
    assert raised.value.errno == errno.ENODEV


def test_program_is_reported(sandbox: MakeSandbox, tmp_path: Path) -> None:
    program = started(sandbox(), tmp_path / "log", "/no/such")
    assert (program.result(10), program.said()) == (
        127,
        "cannot run /no/such: No such file or directory",
    )


def test_program_that_is_stopped_as_it_starts_is_killed(sandbox: MakeSandbox, tmp_path: Path) -> None:
    mine = sandbox()
    for _ in range(100):
        program = started(mine, tmp_path / "log", "sleep", "1")
        program.stop(grace=0)
        assert program.result(0) == -signal.SIGKILL


def test_program_keeps_its_folder(sandbox: MakeSandbox) -> None:
    assert run(sandbox("mounts"), "pwd") == str(Path.cwd())


DAEMON = """
import os, signal, sys, time
for _ in range(2):
    if os.fork():
        os._exit(0)
    os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.stat("/proc/self/ns/pid").st_ino, os.stat("/proc/self/ns/net").st_ino, flush=True)
while True:
    time.sleep(600)
"""
"""A program that leaves its parent, session and process group, and ignores SIGTERM."""


def daemonized(sandbox: ProgramSandbox, log: Path, namespace: Namespace) -> int:
    """Start a daemon that leaves its program, and return the number of its PID namespace."""
    program = started(sandbox, log, sys.executable, "-c", DAEMON, namespace=namespace)
    eventually(lambda: program.said().endswith(str(namespace.inode)), describe="the daemon")
    assert program.result(20) == 0
    return int(program.said().split()[0])


def test_daemon_ends_when_the_sandbox_is_cleared_and_programs_can_start_again(
    sandbox: MakeSandbox, tmp_path: Path
) -> None:
    mine = sandbox()
    with Namespace.create() as namespace:
        number = daemonized(mine, tmp_path / "log", namespace)
        assert len(processes_in(number)) == 2
        mine.clear()
        eventually(lambda: len(processes_in(number)) == 1, describe="the init process of the sandbox to be alone")
        assert daemonized(mine, tmp_path / "log", namespace) == number
        mine.close()
        eventually(lambda: not processes_in(number), describe="the end of the sandbox")


CREATOR = """
import json, os, signal, sys
from pathlib import Path
from harness.netns import sandbox
sandbox.enter()
from harness.netns.isolation import ProgramSandbox
from harness.netns.namespace import Namespace
from harness.netns.process import start
folder = Path(sys.argv[1])
(folder / "token").write_text("secret")
sandbox = ProgramSandbox("a1", folder=folder)
namespace = Namespace.create()
start("it", [sys.executable, "-c", sys.argv[2]], log=folder / "log", sandbox=sandbox, namespace=namespace)
wrapper = start("it", ["sh", "-c", "sleep 600; true"], log=folder / "log", sandbox=sandbox, namespace=namespace)
sandbox.show(namespace, folder / "netns")
while len((folder / "log").read_text().split()) < 2:
    pass
(folder.parent / "told").write_text((folder / "log").read_text())
os.kill(os.getpid(), signal.SIGKILL)
"""


def netns_exists(inode: int) -> bool:
    """Return whether a process is in a netns or shows it to its programs."""
    found = set()
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found.add((each / "ns/net").stat().st_ino)
            found.update(int(each) for each in re.findall(r"net:\[(\d+)\]", (each / "mountinfo").read_text()))
    return inode in found


def test_sigkill_of_the_creator_ends_daemons_and_removes_netns_and_tokens(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    ended = subprocess.run([sys.executable, "-c", CREATOR, str(folder), DAEMON], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    pid_namespace, netns = map(int, (tmp_path / "told").read_text().split())
    eventually(lambda: not processes_in(pid_namespace), describe=lambda: f"the end of {processes_in(pid_namespace)}")
    eventually(lambda: not folder.exists(), describe="the removal of the token")
    eventually(lambda: not netns_exists(netns), describe="the end of the netns")


def test_sigkill_of_the_supervisor_ends_the_programs(sandbox: MakeSandbox, tmp_path: Path) -> None:
    mine = sandbox()
    with Namespace.create() as namespace:
        number = daemonized(mine, tmp_path / "log", namespace)
        program = started(mine, tmp_path / "log", "sleep", "600")
        mine._supervisor.kill()
        assert program.result(20) == -signal.SIGKILL
        eventually(lambda: not processes_in(number), describe="the daemon's end")
        mine.clear()  # does nothing
    with pytest.raises(StartError, match=r"it cannot start in the sandbox of its node: "):
        started(mine, tmp_path / "log", "true")


def test_program_sees_and_kills_only_the_processes_of_its_node(sandbox: MakeSandbox, tmp_path: Path) -> None:
    one, other = sandbox(), sandbox()
    victim, neighbour = (started(each, tmp_path / "log", "sleep", "600") for each in (one, other))
    said = run(one, "trap '' TERM; cat /proc/[0-9]*/comm; kill -9 -1; echo still")
    assert ("sleep" in said, said.splitlines()[-1]) == (True, "still")
    assert (victim.result(20), neighbour.alive) == (-signal.SIGKILL, True)
    assert run(other, "cat /proc/[0-9]*/comm | grep -c sleep") == "1"


HOGS = {
    "processes": "import os, signal\nwhile True:\n  try: os.fork() or signal.pause()\n  except OSError: pass",
    "memory": "it = []\nwhile True:\n  it.append(b'x' * 1000000)",
    "log": "while True: print('x' * 10000)",
}


@pytest.mark.parametrize(
    ("name", "limit", "said"),
    [
        ("processes", 50, "50 processes and threads"),
        ("memory", 60, "60 MB of memory"),
        ("log", 2, "2 MB of logs"),
    ],
)
def test_program_that_reaches_a_limit_is_ended_and_the_limit_is_named(
    sandbox: MakeSandbox, tmp_path: Path, name: str, limit: int, said: str
) -> None:
    mine = sandbox(**{name: limit})
    hog = started(mine, tmp_path / "log", sys.executable, "-c", HOGS[name])
    assert hog.result(60) == -signal.SIGKILL
    told = f"it was ended because the programs of its node reached their limit of {said} (limits.{name})"
    with pytest.raises(EndedError, match=re.escape(told)):
        hog.expect_alive()
    assert run(mine, "echo again") == "again"


def test_limits_of_an_option_are_the_defaults_of_all_nodes(
    sandbox: MakeSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.model.limits.DEFAULTS", dict(node_limits.DEFAULTS))
    node_limits.set_limits(["memory=300", "log=0"])
    assert (sandbox().limits, sandbox(log=5).limits) == (Limits(300, 4096, 0), Limits(300, 4096, 5))


FORKS = """
import os, signal
it = os.urandom(30_000_000)
for _ in range(10):
    os.fork() or signal.pause()
print("up", flush=True)
signal.pause()
"""


def test_memory_that_processes_have_in_common_counts_once(sandbox: MakeSandbox, tmp_path: Path) -> None:
    """Memory is compared first, so it is below its limit when the log reaches another one."""
    mine = sandbox(memory=200, log=1)
    parent = started(mine, tmp_path / "log", sys.executable, "-c", FORKS)
    eventually(lambda: parent.said() == "up", describe="ten children")
    hog = started(mine, tmp_path / "other", sys.executable, "-c", HOGS["log"])
    assert hog.result(60) == -signal.SIGKILL
    assert "limits.log" in hog._ended()


def test_each_part_of_the_isolation_is_checked_before_the_start() -> None:
    assert set(OWN) <= set(REQUIREMENTS)
