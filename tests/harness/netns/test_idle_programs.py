"""Tests that idle programs are distinguished from programs that work, wait for a CPU, or have unread data."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.errors import StarvedError
from harness.eventually import eventually
from harness.netns import activity, process, sandbox
from harness.netns.activity import ActivitySample, IdleDetector
from harness.netns.namespace import Namespace
from harness.netns.rtnetlink import LOOPBACK, execute, up
from harness.run_delay import ThreadTimes

READER = """
import socket, sys, time
server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
"""


def sample(wanted: dict[str, int], *, busy: bool = False, runnable: tuple[str, ...] = ()) -> ActivitySample:
    states = {each: "R" if each in runnable else "D" if busy else "S" for each in wanted}
    return ActivitySample({each: ThreadTimes(states[each], ns, 0) for each, ns in wanted.items()})


@pytest.mark.parametrize(
    ("does", "said", "is_idle"),
    [
        ("while True: server.recv(100)", b"news", True),
        ("time.sleep(600)", b"", True),
        ("time.sleep(600)", b"news", False),
        ("while True: pass", b"", False),
    ],
    ids=["has-read-everything", "has-nothing-to-do", "has-unread-data", "is-busy"],
)
def test_program_is_idle_once_it_has_read_everything_and_stopped_working(
    does: str, said: bytes, is_idle: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.enter()
    monkeypatch.setattr(activity, "IDLE_EVERY", 0.05)
    with Namespace.create() as namespace, namespace.socket() as listening:
        execute(namespace, [up(LOOPBACK)])
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        running = process.start(
            "reader", [sys.executable, "-c", READER + does, str(port)], namespace=namespace, log=tmp_path / "log"
        )
        try:
            talking, _ = listening.accept()
            with talking:
                eventually(lambda: "up" in running.said(), describe="its start")
                talking.sendall(said)
                seen = IdleDetector({"a1": namespace}, port)
                if is_idle:
                    eventually(lambda: seen.seconds() >= 0.3, describe="the program to become idle")
                else:
                    with pytest.raises((AssertionError, StarvedError)):  # a busy program may wait for a CPU
                        eventually(lambda: seen.seconds() >= 0.3, within=1, describe="the program to become idle")
        finally:
            running.stop(0)


@pytest.mark.parametrize(
    ("later", "is_idle"),
    [
        (sample({"7": 50}), True),
        (sample({"7": 50 + 10**8}), True),
        (sample({"7": 51 + 10**8}), False),
        (sample({"7": 50, "8": 1 + 10**8}), False),
        (sample({"8": 5}), True),
        (sample({"7": 50}, busy=True), False),
        (sample({}), False),
    ],
    ids=["no-cpu", "little-cpu", "ran", "new-thread-ran", "another-thread", "waits-or-has-unread-data", "has-ended"],
)
def test_program_that_uses_little_cpu_is_idle(later: ActivitySample, is_idle: bool) -> None:
    earlier = sample({"7": 50})
    assert later.idle_since(earlier, 1.0) is is_idle
    assert not later.idle_since(sample({}, busy=True), 1.0)


def test_thread_that_is_runnable_twice_waits_for_a_processor() -> None:
    starved, woken = sample({"7": 50, "8": 5}, runnable=("7",)), sample({"7": 50, "8": 5}, runnable=("8",))
    assert not starved.idle_since(starved, 1.0)
    assert woken.idle_since(starved, 1.0)


def test_one_busy_node_restarts_the_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "IDLE_EVERY", 0.0)
    sights = {"a1": sample({"7": 0}), "a2": sample({"8": 0})}
    seen = IdleDetector({}, 1)
    monkeypatch.setattr(seen, "_look", lambda **_: dict(sights))
    seen.seconds()
    assert 0 < seen.seconds() < seen.seconds()
    sights["a2"] = sample({"8": 10**12})
    assert seen.seconds() == 0.0
