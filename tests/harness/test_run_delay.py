"""Tests that the time in which programs could not run is measured, and no other time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import run_delay
from harness.eventually import eventually
from harness.run_delay import EVERY, RunDelay, ThreadSnapshot, ThreadTimes, family, program_text, sample, threads_of

SECOND = 10**9


def at(time: float, *, used: float = 0.0, **threads: ThreadTimes) -> ThreadSnapshot:
    return ThreadSnapshot(time, used, threads)


def idle(waited: float = 0.0, *, ran: float = 0.0, state: str = "S") -> ThreadTimes:
    return ThreadTimes(state, int(ran * SECOND), int(waited * SECOND))


@pytest.mark.parametrize(
    ("before", "now", "lost"),
    [
        (at(0, a=idle()), at(1, a=idle(), used=0.8), 0.0),
        (at(0, a=idle()), at(1, a=idle(ran=1.0), used=1.0), 0.0),
        (at(0, a=idle(2.0)), at(1, a=idle(2.4), used=0.5), 0.4),
        (at(0, a=idle(), b=idle()), at(1, a=idle(0.4), b=idle(0.5), used=0.5), 0.9),
        (at(0, a=idle(), b=idle()), at(1, a=idle(0.8), b=idle(0.9), used=0.5), 1.0),
        (at(0, a=idle(state="R")), at(1, a=idle(state="R"), used=0.5), 1.0),
        (at(0, a=idle(state="R")), at(1, a=idle(0.1, state="R"), used=0.5), 0.1),
        (at(0, a=idle(state="R")), at(1, used=0.5), 1.0),
        (at(0, a=idle()), at(1, used=0.5), 0.0),
        (at(0, a=idle()), at(1, a=idle(), b=idle(0.3), used=0.5), 0.3),
        (at(0, a=idle(state="T")), at(1, a=idle(state="T"), used=0.5), 1.0),
        (at(0), at(1, a=idle(7.0), used=0.5), 0.0),
        (at(0), at(2.1, a=idle(), used=0.0), 2.0),
    ],
    ids=[
        "sleeps",
        "runs",
        "waited",
        "waited-one-after-the-other",
        "waited-at-most-all-the-time",
        "still-waits",
        "has-run-in-between",
        "waited-until-it-ended",
        "ended",
        "new-thread-waited",
        "stopped",
        "first-sample",
        "this-process-did-not-run",
    ],
)
def test_time_is_lost_if_a_thread_waits_for_a_processor_or_is_stopped(
    before: ThreadSnapshot, now: ThreadSnapshot, lost: float
) -> None:
    assert now.lost_since(before) == pytest.approx(lost)


def test_time_that_was_lost_is_counted_within_a_wait_only() -> None:
    delay = RunDelay()
    for second in range(11):
        delay.note(at(second, a=idle(second * 0.5), used=second * 0.5))
    assert delay.lost(0, 10) == pytest.approx(5.0)
    assert delay.lost(8, 20) == pytest.approx(1.0)
    assert delay.lost(2, 4) == pytest.approx(1.0)
    assert delay.lost(10, 20) == 0.0


def test_room_whose_programs_ran_the_longest_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        run_delay, "_command", lambda process: b"sandbox_supervisor.main()" if process in ("10", "20") else b""
    )
    programs = {"a": ("10", "11"), "b": ("10", "12"), "c": ("20", "21"), "d": ("30", "31")}
    delay = RunDelay()
    for second in range(11):
        ran = {"a": 0.2 * second, "b": 0.3 * second, "c": 0.4 * second, "d": 0.9 * second}
        delay.note(ThreadSnapshot(second, 0.0, {name: idle(ran=each) for name, each in ran.items()}, programs))
    assert delay.busiest(0) == (pytest.approx(5.0), "12")
    assert delay.busiest(6) == (pytest.approx(2.0), "12")
    assert delay.busiest(10) == (0.0, "")


def test_samples_are_taken_during_a_wait_only() -> None:
    looked: list[ThreadSnapshot] = []

    def look(_without: int) -> ThreadSnapshot:
        looked.append(at(EVERY * len(looked), a=idle()))
        return looked[-1]

    delay = RunDelay(look)
    for _ in range(2):
        with delay.watched(), delay.watched():
            known = len(looked)
            eventually(lambda known=known: len(looked) > known, describe="a sample")  # type: ignore[misc]
        delay.end()
        assert delay._thread is not None
        assert not delay._thread.is_alive()


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a shell whose child sleeps."""
    script = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)"]
    with subprocess.Popen(["sh", "-c", '"$@" & wait', "sh", *script], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        yield shell
        for process in reversed(list(family(Path(f"/proc/{shell.pid}")))):
            os.kill(int(process.name), signal.SIGKILL)


def test_stopped_child_of_a_child_cannot_run(sleeping: subprocess.Popen[bytes]) -> None:
    shell, child = family(Path(f"/proc/{sleeping.pid}"))
    assert shell.name == str(sleeping.pid)
    assert program_text(child.name).startswith(sys.executable)
    assert program_text("0") == "process 0"
    before = sample()
    assert child.name in before.threads
    os.kill(int(child.name), signal.SIGSTOP)
    eventually(lambda: dict(threads_of(child))[child.name].state == "T", describe="its stop")
    first = sample()
    second = sample()
    assert second.programs[child.name] == (shell.name, child.name)
    assert first.threads[child.name] == second.threads[child.name]
    assert second.lost_since(first) == second.at - first.at
