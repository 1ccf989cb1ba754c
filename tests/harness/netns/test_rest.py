"""Programs that have nothing left to do are told from those that work, wait for something, or have news to read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.eventually import eventually
from harness.netns import process, rest, sandbox
from harness.netns.namespace import Namespace
from harness.netns.rest import Rest, Sight
from harness.netns.rtnetlink import LOOPBACK, execute, up

READER = """
import socket, sys, time
server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
"""


@pytest.mark.parametrize(
    ("does", "said", "rests"),
    [
        ("while True: server.recv(100)", b"news", True),
        ("time.sleep(600)", b"", True),
        ("time.sleep(600)", b"news", False),
        ("while True: pass", b"", False),
    ],
    ids=["has-read-all", "has-nothing-to-do", "has-news-to-read", "is-busy"],
)
def test_program_rests_that_has_read_all_and_does_nothing(
    does: str, said: bytes, rests: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.enter()
    monkeypatch.setattr(rest, "EVERY", 0.05)
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
                eventually(lambda: "up" in running.said(), within=10, describe="its start")
                talking.sendall(said)
                seen = Rest({"a1": namespace}, port)
                if rests:
                    eventually(lambda: seen.seconds() >= 0.3, within=10, describe="that it rests")
                else:
                    with pytest.raises(AssertionError):
                        eventually(lambda: seen.seconds() >= 0.3, within=1, describe="that it rests")
        finally:
            running.stop(0)


@pytest.mark.parametrize(
    ("later", "rests"),
    [
        (Sight({"7": 50}), True),
        (Sight({"7": 50 + 10**8}), True),
        (Sight({"7": 51 + 10**8}), False),
        (Sight({"7": 50, "8": 1 + 10**8}), False),
        (Sight({"8": 5}), True),
        (Sight({"7": 50}, busy=True), False),
        (Sight({}), False),
    ],
    ids=["nothing", "hardly", "ran", "a-new-thread-ran", "another-thread", "waits-or-has-news", "has-ended"],
)
def test_who_hardly_wanted_a_processor_rests(later: Sight, rests: bool) -> None:
    earlier = Sight({"7": 50})
    assert later.rests(earlier, 1.0) is rests
    assert not later.rests(Sight({}, busy=True), 1.0)


def test_who_is_runnable_at_two_looks_waited_for_a_processor() -> None:
    starved, woken = Sight({"7": 50, "8": 5}, runnable={"7"}), Sight({"7": 50, "8": 5}, runnable={"8"})
    assert not starved.rests(starved, 1.0)
    assert woken.rests(starved, 1.0)


def test_one_place_that_works_is_enough_to_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "EVERY", 0.0)
    sights = {"a1": Sight({"7": 0}), "a2": Sight({"8": 0})}
    seen = Rest({}, 1)
    monkeypatch.setattr(seen, "_look", lambda: dict(sights))
    seen.seconds()
    assert 0 < seen.seconds() < seen.seconds()
    sights["a2"] = Sight({"8": 10**12})
    assert seen.seconds() == 0.0
