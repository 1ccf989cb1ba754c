"""Tests the output during a run, both on a terminal and in a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pyte
import pytest

from harness.judging.results import Outcome
from harness.report.outcomes import MARKS

IDS = ("KEP-3015/node-level-stuck-service-keeps-working", "KEP-2/waits", "KEP-1/never")
SUITE = """
import time
import pytest
from harness.model.requirements import MUST, Feature, Profile, requirement

FEATURES = [Feature("Routing", Profile.SERVICE_PROXY, True, "")]

@requirement("KEP-3015/node-level-stuck-service-keeps-working", "A.", level=MUST, source="KEP-1", features=FEATURES)
def test_a():
    time.sleep(1.5)  # the subject of this suite is that something takes long

@requirement("KEP-2/waits", "B.", level=MUST, source="KEP-1", features=FEATURES)
def test_b():
    time.sleep({seconds})
    pytest.skip("a long reason " * 9)

@requirement("KEP-1/never", "C.", level=MUST, source="KEP-1", features=FEATURES)
def test_c():
    pass
"""
RUN = [sys.executable, "-c", "from harness.commands.main import main; main()", "run", "--suite", "test_suite.py"]
CHOSEN = ["--run-test=KEP-3015/*,KEP-2/*"]


def suite(folder: Path, seconds: float = 1.5) -> None:
    (folder / "test_suite.py").write_text(SUITE.replace("{seconds}", str(seconds)))


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    return {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", "XDG_CACHE_HOME": str(folder), **more}


def on_terminal(folder: Path, columns: int, *options: str, **more: str) -> tuple[list[str], list[list[str]], str]:
    """Return the final lines on the terminal, the screens during the run, and the complete output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
    run = [*RUN, *CHOSEN, *options]
    process = subprocess.Popen(
        run, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment(folder, **more)
    )
    os.close(theirs)
    screen = pyte.Screen(columns, 60)
    stream, screens, written = pyte.ByteStream(screen), [], b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        written += data
        stream.feed(data)
        screens.append([line.rstrip() for line in screen.display])
    os.close(ours)
    assert process.wait() == 11, screen.display
    assert not screen.cursor.hidden
    return [line.rstrip() for line in screen.display], screens, written.decode()


@pytest.mark.parametrize(("columns", "workers"), [(40, "0"), (80, "2"), (200, "0")])
def test_terminal_shows_running_tests_and_keeps_printed_lines(tmp_path: Path, columns: int, workers: str) -> None:
    suite(tmp_path)
    end, screens, _ = on_terminal(tmp_path, columns, "-n", workers)
    during = ["".join(lines) for lines in screens]
    assert any(re.search(r"of 2, about \d+ s left +KEP-", text) for text in during)
    assert any(re.search(f"left .*{IDS[0]}", text) for text in during)
    assert any(re.search(f"left .*{IDS[1]}", text) for text in during)
    assert not any(" left" in line or "━" in line for line in end)
    assert "".join(end).count(IDS[0]) == 1
    assert len([line for line in end if "of 2" in line]) == 0
    assert IDS[2] not in "".join(during)


@pytest.mark.parametrize("name", ["NO_COLOR", "nothing"])
def test_no_color_removes_all_styles(tmp_path: Path, name: str) -> None:
    suite(tmp_path)
    _, _, written = on_terminal(tmp_path, 80, "-n0", **{name: "1"})
    assert bool(re.search(r"\x1b\[[0-9;]+m", written)) is (name == "nothing")
    assert "about" in written


def test_a_terminal_without_a_cursor_gets_plain_lines(tmp_path: Path) -> None:
    suite(tmp_path, 5)
    _, _, written = on_terminal(tmp_path, 80, "-n0", TERM="dumb")
    assert re.search(r"^  … 0 of 2, about \d+ s left; still running: KEP-2/waits \(\d s\)", written, re.MULTILINE)
    assert "\x1b[?25l" not in written
    assert "\x1b[2K" not in written


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("columns", ["40", pytest.param("80", marks=pytest.mark.slow)])
def test_pipe_gets_full_ids_and_periodic_progress(tmp_path: Path, columns: str, workers: str) -> None:
    suite(tmp_path, 6)
    run = [*RUN, *CHOSEN, "-n", workers]
    given = environment(tmp_path, COLUMNS=columns)
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, env=given, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 11, done.stdout
    assert [line for line in lines if re.fullmatch(rf"  ✓ {IDS[0]} +\d\.\d+ s", line)]
    assert [line for line in lines if re.search(r"still running: .*KEP-2/waits \(\d s\)", line)]
    assert [
        line
        for line in lines
        if line.startswith(f"  {MARKS[Outcome.NOT_RUN]} {IDS[1]}  unavailable: a long reason") and len(line) > 130
    ]
    assert "\x1b" not in done.stdout
    assert IDS[2] not in done.stdout
