"""Tests the script that runs make targets as on a fresh machine. The test uses a small project."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.netns import sandbox

SCRIPT = Path(__file__).resolve().parents[3] / ".ci/fresh-machine"
NEEDED = ("bash", "git", "find", *(["setpriv"] if os.geteuid() == 0 else []))
MISSING = [each for each in NEEDED if shutil.which(each) is None]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"unavailable: {', '.join(MISSING)} is not installed"),
    pytest.mark.skipif(sandbox.left(), reason="unavailable: root of a user namespace cannot become an ordinary user"),
]

MAKEFILE = """
show:
\t@id -u; echo "$$USER $$HOME"; python3 -c 'print("python")'
\t@for each in dig nft iptables ip kubectl curl go node git; do command -v $$each; done; true
leave:
\ttouch $$TMPDIR/left
stay:
\tsleep 600 &
fail:
\t@exit 3
wait:
\t@echo up; read line
"""


class ScriptCheckout:
    """A checkout that has the script, and the temp folder of the script."""

    def __init__(self, folder: Path, temp: Path) -> None:
        self.folder = folder
        self.temp = temp
        (folder / ".ci").mkdir()
        shutil.copy(SCRIPT, folder / ".ci")
        (folder / "Makefile").write_text(MAKEFILE, encoding="utf-8")
        me = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
        for arguments in (["init", "--quiet"], ["add", "."], [*me, "commit", "--quiet", "--message=all"]):
            subprocess.run(["git", *arguments], cwd=folder, check=True, timeout=30)

    def start(self, *targets: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.folder / ".ci/fresh-machine", *targets],
            env=os.environ | {"TMPDIR": str(self.temp)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *targets: str) -> tuple[int, str]:
        with self.start(*targets) as process:
            said = process.communicate(timeout=60)[0]
            return process.returncode, said


@pytest.fixture
def project(tmp_path: Path) -> Iterator[ScriptCheckout]:
    with tempfile.TemporaryDirectory() as temp:  # tmp_path is readable only by its owner
        Path(temp).chmod(0o755)
        yield ScriptCheckout(tmp_path, Path(temp))
        assert list(Path(temp).iterdir()) == []


def test_targets_run_as_an_ordinary_user_with_few_programs(project: ScriptCheckout) -> None:
    code, said = project.run("show")
    assert code == 0, said
    title, user, home, python = said.splitlines()
    assert title == "fresh machine: make show"
    assert int(user) != 0
    assert home.startswith(f"ordinary {project.temp}/")
    assert python == "python"


@pytest.mark.parametrize(("target", "left"), [("leave", "/tmp/left\n"), ("stay", "sleep 600 \n")])
def test_leftover_process_is_an_error_and_is_stopped(project: ScriptCheckout, target: str, left: str) -> None:
    code, said = project.run(target)  # returns after every process that could write has ended
    assert code == 1
    assert f"error: make {target} left this behind: " in said
    assert said.endswith(left)


def test_failing_target_ends_the_script(project: ScriptCheckout) -> None:
    code, said = project.run("fail", "show")
    assert code == 2
    assert "make show" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_nothing_is_left_after_ctrl_c(project: ScriptCheckout, number: signal.Signals) -> None:
    with project.start("wait") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "up\n":
                break
        os.killpg(process.pid, number)
        process.communicate(timeout=60)
    assert process.returncode not in (0, None)
