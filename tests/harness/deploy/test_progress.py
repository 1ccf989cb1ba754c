"""Tests the progress that `make` prints during an installation."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / ".ci/progress.py"
WAITS = "print('Collecting a', flush=True); input(); print('Collecting b')"


def command(program: str) -> list[str]:
    return [sys.executable, str(SCRIPT), "Installing", sys.executable, "-c", program]


def heard(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("program", "newest"), [(WAITS, "Collecting a"), ("input()", "no output yet")])
def test_silent_command_is_reported_periodically(program: str, newest: str) -> None:
    environment = os.environ | {"PROGRESS_EVERY": "0.04"}
    with subprocess.Popen(
        command(program), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        assert run.stdout.readline() == "Installing ...\n"
        told = 0
        while told < 3:  # the command prints nothing more until then
            told += run.stdout.readline().endswith(f" s  {newest}\n")
        run.stdin.write("\n")
        run.stdin.close()
        run.stdout.read()
    assert run.returncode == 0


def test_quick_command_has_one_line() -> None:
    run = heard(command("print('Requirement already satisfied: a')"))
    assert (run.returncode, run.stdout, run.stderr) == (0, "Installing ...\n", "")


def test_failing_command_shows_its_full_output() -> None:
    program = "import sys; print('Requirement already satisfied: a'); print('x' * 300); sys.exit('ERROR: no b')"
    run = heard(command(program))
    assert run.returncode == 1
    said = run.stderr.splitlines()
    assert sorted(said[:2]) == ["ERROR: no b", "x" * 300]
    assert said[2].startswith("error: exit code 1 of ")


def test_terminal_shows_one_updating_line() -> None:
    ours, theirs = pty.openpty()
    run = subprocess.run(command("print('Collecting a')"), stdout=theirs, stderr=theirs, check=False)
    os.close(theirs)
    said = ""
    with (
        os.fdopen(ours, "rb", buffering=0) as terminal,
        contextlib.suppress(OSError),
    ):  # EIO: the terminal is closed after all output was read
        while part := terminal.read(10_000):
            said += part.decode()
    assert run.returncode == 0
    assert said.count("\n") == 1
    assert "\r\x1b[K    0 s  Collecting a\r\x1b[K" in said


def test_missing_command_is_reported() -> None:
    missing = "/no/such/python"
    run = heard([sys.executable, str(SCRIPT), "Installing", missing])
    assert (run.returncode, run.stderr) == (127, f"error: cannot run {missing}: No such file or directory\n")
