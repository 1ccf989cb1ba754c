"""Tests programs in the netns of a node: their output, their exit, and that they end with the harness."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from harness.errors import DistrustError
from harness.eventually import eventually
from harness.netns.namespace import Namespace
from harness.netns.process import Process, start
from tests.harness.proxies.conftest import MakeFake


def exists(pid: int) -> bool:
    """Return whether a process runs. A zombie does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def said(process: Process, text: str) -> None:
    eventually(lambda: text in process.said(), describe=f"the program to say {text}")


def test_program_runs_in_the_netns_and_writes_its_log(namespace: Namespace, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os; print('in', os.stat('/proc/self/ns/net').st_ino)"]
    process = start("it", command, namespace=namespace, log=tmp_path / "log")
    said(process, f"in {namespace.inode}")
    process.stop()


def test_program_that_exits_is_an_error_with_the_end_of_its_log(
    namespace: Namespace, fake: MakeFake, tmp_path: Path
) -> None:
    process = start("proxy on a1", fake("exits"), namespace=namespace, log=tmp_path / "log")
    eventually(lambda: not process.alive, describe="its end")
    with pytest.raises(DistrustError, match=r"(?s)proxy on a1 exited with 3.*bad flag: --nodes"):
        process.check()
    process.stop()


def test_missing_program_is_reported_in_its_log(namespace: Namespace, tmp_path: Path) -> None:
    process = start("it", ["/no/such/proxy"], namespace=namespace, log=tmp_path / "log")
    said(process, "cannot run /no/such/proxy: No such file or directory")
    process.stop()


def test_program_that_ignores_sigterm_is_killed(namespace: Namespace, fake: MakeFake, tmp_path: Path) -> None:
    process = start("it", fake("stubborn"), namespace=namespace, log=tmp_path / "log")
    said(process, "no")  # from now on it ignores the signal
    process.stop(grace=0.1)
    assert not exists(process.pid)


def test_children_of_a_program_end_with_it(namespace: Namespace, tmp_path: Path) -> None:
    script = """
import subprocess, signal
print(subprocess.Popen(['sleep', '600']).pid, 'is born', flush=True)
signal.pause()
"""
    process = start("it", [sys.executable, "-c", script], namespace=namespace, log=tmp_path / "log")
    said(process, "is born")  # Python writes each word separately when it does not buffer
    child = int(process.said().split()[0])
    process.stop()
    eventually(lambda: not exists(child), describe="the child's end")


def test_nothing_is_left_after_kill_9_of_the_harness(tmp_path: Path) -> None:
    script = textwrap.dedent(
        f"""
        import signal
        from pathlib import Path
        from harness.netns import sandbox
        from harness.netns.namespace import Namespace
        from harness.netns.process import start
        sandbox.enter()
        process = start("it", ["sleep", "600"], namespace=Namespace.create(), log=Path({str(tmp_path / "log")!r}))
        print(process.pid, flush=True)
        signal.pause()
        """
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        pid = int(harness.stdout.readline())
        assert exists(pid)
        os.kill(harness.pid, signal.SIGKILL)
    eventually(lambda: not exists(pid), describe="the program's end")
