"""Tests that hung programs are distinguished from slow programs and idle programs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.eventually import eventually
from harness.netns import activity, process, sandbox
from harness.netns.activity import LOOKS, ActivitySample, HangDetector
from harness.netns.namespace import Namespace
from harness.netns.rtnetlink import LOOPBACK, execute, up
from harness.run_delay import ThreadTimes

READER = """
import socket, sys, time
server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
"""
HANGS = "time.sleep(600)"
IS_BUSY = "while True: pass"
READS = "while server.recv(100): pass"


def sample(ran: dict[str, str], unread: dict[str, int], *, state: str = "S") -> ActivitySample:
    times = {thread: ThreadTimes(state, *map(int, told.split())) for thread, told in ran.items()}
    return ActivitySample(times, unread)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.enter()
    monkeypatch.setattr(activity, "HUNG_EVERY", 0.0)


@pytest.mark.parametrize(
    ("does", "said", "hangs"),
    [(HANGS, b"news", True), (HANGS, b"", False), (IS_BUSY, b"news", False), (READS, b"news", False)],
    ids=["hangs", "has-nothing-to-do", "is-busy", "reads"],
)
def test_idle_program_with_unread_data_is_hung(does: str, said: bytes, hangs: bool, tmp_path: Path) -> None:
    with Namespace.create() as namespace, namespace.socket() as listening:
        execute(namespace, [up(LOOPBACK)])
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        command = [sys.executable, "-c", READER + does, str(port)]
        running = process.start("reader", command, namespace=namespace, log=tmp_path / "log")
        try:
            talking, _ = listening.accept()
            with talking:
                eventually(lambda: "up" in running.said(), describe="its start")
                talking.sendall(said)
                looking = HangDetector({"a1": namespace, "a2": namespace}, port)
                if hangs:
                    eventually(lambda: looking.hung(["a1"]), describe="that it hangs")
                    assert looking.hung(["a2"]) == ["a2"]
                else:
                    assert [looking.hung(["a1"]) for _ in range(3 * LOOKS)] == [[]] * 3 * LOOKS
        finally:
            running.stop(0)


def test_program_is_hung_after_several_consecutive_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a suspend of an hour there is only one observation, which must not count as a hang."""
    sight = sample({"7": "1 2"}, {"0100007F:1": 4})
    looking = HangDetector({}, 1)
    monkeypatch.setattr(looking, "_look", lambda **_: {"a1": sight})
    found = [looking.hung(["a1"]) for _ in range(LOOKS + 1)]
    assert found == [[]] * LOOKS + [["a1"]]
    monkeypatch.setattr(looking, "_look", lambda **_: {"a1": sample({"7": "2 2"}, {"0100007F:1": 4})})
    assert looking.hung(["a1"]) == []


@pytest.mark.parametrize(
    "later",
    [
        sample({"7": "1 2"}, {"0100007F:1": 4}, state="R"),
        sample({"7": "1 2", "8": "0 0"}, {"0100007F:1": 4}),
        sample({"7": "1 2"}, {"0100007F:1": 3}),
        sample({"7": "1 2"}, {"0100007F:2": 4}),
        sample({}, {"0100007F:1": 4}),
    ],
    ids=["waits-for-a-processor", "has-started-a-thread", "has-read-data", "has-reconnected", "has-ended"],
)
def test_program_that_makes_progress_is_not_hung(later: ActivitySample) -> None:
    earlier = sample({"7": "1 2"}, {"0100007F:1": 4})
    assert earlier.hung_since(earlier)
    assert not later.hung_since(earlier)
