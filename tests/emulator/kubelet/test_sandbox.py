"""Programs of this machine can run in a pod's sandbox, and change nothing outside of it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulator.kubelet.sandbox import KILLED, PATH, NoProgramError, Sandbox, SandboxProcess
from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.netns.fabric import Network
from tests.emulator.kubelet.program_waits import wait

pytestmark = [
    pytest.mark.skipif(shutil.which(program, path=PATH) is None, reason=f"{program} is not installed")
    for program in ("sh", "cat", "sleep")
]
REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True)
class ExitedProgram:
    code: int | None
    output: str


class SandboxRunner:
    """Runs programs in a sandbox and waits until they exit."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def start(self, *argv: str, output: int | None = None, **more: str) -> SandboxProcess:
        nothing = os.open(os.devnull, os.O_RDWR)
        out = nothing if output is None else output
        try:
            return self.sandbox.start(argv, env={"PATH": PATH, **more}, stdin=nothing, stdout=out, stderr=out)
        finally:
            os.close(nothing)

    def run(self, *argv: str, **more: str) -> ExitedProgram:
        reading, writing = os.pipe()
        try:
            process = self.start(*argv, output=writing, **more)
        finally:
            os.close(writing)
        with os.fdopen(reading) as read:
            said = read.read()
        code = wait(process)
        process.close()
        return ExitedProgram(code, said)

    def sh(self, script: str, **more: str) -> ExitedProgram:
        return self.run("/bin/sh", "-c", script, **more)


@pytest.fixture
def make(network: Network) -> Iterator[Callable[[], SandboxRunner]]:
    """Yield a function that creates a sandbox in a pod on a1. Skip the test if the machine cannot create one."""
    made: list[Sandbox] = []
    pod = network.add_pod("a1")

    def one() -> SandboxRunner:
        made.append(Sandbox(pod.namespace, hostname="web-1", files={"/etc/resolv.conf": "nameserver 192.0.2.1\n"}))
        runs = SandboxRunner(made[-1])
        try:
            runs.run("true")
        except UnavailableError as error:
            pytest.skip(str(error))
        return runs

    yield one
    for each in made:
        each.close()


@pytest.fixture
def inside(make: Callable[[], SandboxRunner]) -> SandboxRunner:
    return make()


def test_program_has_its_exit_code_output_environment_and_host_name(inside: SandboxRunner) -> None:
    assert inside.sh('echo "$WHO at $(cat /proc/sys/kernel/hostname)"; exit 3', WHO="me") == ExitedProgram(
        3, "me at web-1\n"
    )


def test_program_sees_files_of_its_own_in_place_of_the_machine_s(inside: SandboxRunner) -> None:
    assert inside.run("cat", "/etc/resolv.conf").output == "nameserver 192.0.2.1\n"


def test_program_is_in_the_netns_of_its_pod(inside: SandboxRunner) -> None:
    outside = Path("/proc/self/ns/net").readlink()
    assert inside.run("readlink", "/proc/self/ns/net").output.strip() != str(outside)
    assert "eth0" in inside.run("cat", "/proc/self/net/dev").output


@pytest.mark.parametrize("place", ["/", "/etc", "/usr", "/usr/bin", "/.etc", "/proc/sys/net/ipv4", "/dev"])
def test_program_cannot_write_the_machine_s_files(inside: SandboxRunner, place: str) -> None:
    ended = inside.sh(f"echo x > {place}/written-by-a-pod")
    assert ended.code != 0
    assert not Path(place, "written-by-a-pod").exists()


def test_program_cannot_change_its_node_s_sysctls(inside: SandboxRunner) -> None:
    assert inside.sh("echo 1 > /proc/sys/net/ipv4/ip_forward").code != 0


def test_program_sees_neither_homes_nor_the_repository(inside: SandboxRunner, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    for path in (REPOSITORY / "pyproject.toml", tmp_path / "secret", Path.home() / ".profile", Path("/home")):
        assert inside.run("ls", str(path)).code != 0, path
    own = Path(f"/tmp/mine-{os.getpid()}")
    assert inside.sh(f"echo mine > {own} && cat {own}").output == "mine\n"
    assert not own.exists()


def test_program_has_no_capabilities_and_gets_none(inside: SandboxRunner) -> None:
    status = dict(line.split(":\t") for line in inside.run("cat", "/proc/self/status").output.splitlines())
    assert {int(status[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert status["NoNewPrivs"] == "1"


def test_program_does_not_see_other_processes(inside: SandboxRunner) -> None:
    ids = [name for name in inside.run("ls", "/proc").output.split() if name.isdigit()]
    assert len(ids) == 2, "the sandbox must have two processes: its first process and the program"


@pytest.mark.skipif(shutil.which("bash", path=PATH) is None, reason="bash is not installed")
def test_program_cannot_reach_the_machine_s_network(inside: SandboxRunner) -> None:
    with socket.create_server(("", 0)) as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        port = server.getsockname()[1]
        asking.connect_ex(("192.0.2.1", 9))  # sends nothing
        for address in {"127.0.0.1", asking.getsockname()[0]} - {"0.0.0.0"}:
            ended = inside.run("timeout", "2", "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}")
            assert ended.code != 0, f"{address}: {ended.output}"


def test_missing_program_is_reported_as_by_a_container_runtime(inside: SandboxRunner) -> None:
    with pytest.raises(NoProgramError, match=r'^exec: "nope": executable file not found in \$PATH$'):
        inside.run("nope")
    with pytest.raises(NoProgramError, match=r'^exec: "/nope": stat /nope: no such file or directory$'):
        inside.run("/nope")
    with pytest.raises(NoProgramError, match=r'^exec: "/etc": permission denied$'):
        inside.run("/etc")


def test_programs_of_one_sandbox_share_files_and_processes(inside: SandboxRunner) -> None:
    sleeping = inside.start("sleep", "600")
    inside.sh("echo shared > /tmp/it")
    assert inside.run("cat", "/tmp/it").output == "shared\n"
    assert inside.sh(f"kill -TERM {sleeping.pid}").code == 0
    assert wait(sleeping) == 128 + 15


def test_program_has_only_three_descriptors(inside: SandboxRunner) -> None:
    inside.start("sleep", "600")
    assert inside.sh("ls /proc/$$/fd; exit").output == "0\n1\n2\n"


def test_sandboxes_share_nothing(make: Callable[[], SandboxRunner]) -> None:
    one, other = make(), make()
    one.sh("echo mine > /tmp/it")
    assert other.run("cat", "/tmp/it").code != 0


def test_signal_ends_a_program(inside: SandboxRunner) -> None:
    sleeping = inside.start("sleep", "600")
    assert sleeping.poll() is None
    sleeping.signal(15)
    assert wait(sleeping) == 128 + 15


def test_program_starts_with_no_blocked_signals(make: Callable[[], SandboxRunner]) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGHUP})
    try:
        inside = make()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert "SigBlk:\t0000000000000000\n" in inside.run("cat", "/proc/self/status").output


def test_closed_process_is_killed(inside: SandboxRunner) -> None:
    inside.start("sleep", "600").close()
    eventually(
        lambda: "sleep" not in inside.sh("cat /proc/[0-9]*/comm").output, within=10, describe="no sleep to be left"
    )


def test_close_ends_all_programs_and_their_children(inside: SandboxRunner) -> None:
    reading, writing = os.pipe()
    process = inside.start("/bin/sh", "-c", "(setsid sleep 600 &); sleep 600", output=writing)
    os.close(writing)
    inside.sandbox.close()
    with os.fdopen(reading) as read:
        assert read.read() == "", "no process holds the program's output open"
    assert wait(process) == KILLED
    with pytest.raises(NoProgramError):
        inside.run("true")


def test_program_has_a_controlling_terminal_on_request(inside: SandboxRunner) -> None:
    ours, theirs = os.openpty()
    process = inside.sandbox.start(
        ["/bin/sh", "-c", "echo it is > /dev/tty"],
        env={"PATH": PATH},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        tty=True,
    )
    assert wait(process) == 0
    assert os.read(ours, 100) == b"it is\r\n"
    os.close(theirs)
    os.close(ours)


def test_programs_end_with_their_starter_even_after_sigkill(inside: SandboxRunner) -> None:
    script = textwrap.dedent("""
        import os
        from emulator.kubelet.sandbox import PATH, Sandbox
        from harness.netns import sandbox
        from harness.netns.namespace import Namespace
        sandbox.enter()
        made = Sandbox(Namespace.create(), hostname="web-1")
        made.start(["sleep", "600"], env={"PATH": PATH}, stdin=0, stdout=1, stderr=2)
        os.write(1, b"up\\n")
        os.kill(os.getpid(), 9)
    """)
    started = [sys.executable, "-c", script]
    ended = subprocess.run(started, capture_output=True, timeout=30, check=False, cwd=REPOSITORY)
    assert ended.stdout == b"up\n", "the program's output is closed, or this call would not have returned"
