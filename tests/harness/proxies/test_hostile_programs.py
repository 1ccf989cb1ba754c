"""Runs judge hostile proxies. Each run ends on its own, names what the proxy did, and leaves nothing on the machine."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.eventually import eventually
from harness.netns.process import search_path
from tests.harness.hostile_programs import SECONDS, HostileRun
from tests.harness.proxies import hostile_proxy

ROOT = Path(__file__).resolve().parents[3]
SMALL_PROXY = ROOT / "examples/small-proxy/small_proxy.py"
NEEDS = ("nft", "conntrack", "ip", "mount")
REQUIREMENT = "KEP-4444/zone-hints-keep-traffic-in-the-zone"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        any(shutil.which(each, path=search_path()) is None for each in NEEDS),
        reason=f"unavailable: {' or '.join(NEEDS)}",
    ),
]


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[Any]:
    told, runs = tmp_path / "told", list[HostileRun]()
    proxy = [str(SMALL_PROXY), "{node}", "{kubeconfig}", "{cluster_cidrs}", "10300"]

    def begin(what: str, **more: Any) -> HostileRun:
        recipe = {
            "command": [sys.executable, hostile_proxy.__file__, what, str(told), *proxy],
            "ready": [{"log": "serving"}],
            "synced": [{"http": {"port": 10300, "path": "/synced"}}],
            **more,
        }
        runs.append(HostileRun(tmp_path, kind="proxy", requirement=REQUIREMENT, recipe=recipe))
        return runs[-1]

    yield begin
    for each in runs:
        each.kill()


HEALTH = {"ready": [{"log": "serving"}, {"http": {"port": 10301}}], "ready_seconds": 6}

CASES: dict[str, tuple[Mapping[str, Any], int, str]] = {
    "daemonize": ({}, 0, "All 1 selected requirements are met"),
    "mount": ({}, 0, "All 1 selected requirements are met"),
    "take_all_processes": ({"limits": {"processes": 200}}, 12, "limit of 200 processes and threads (limits.processes)"),
    "take_all_memory": ({"limits": {"memory": 300}}, 12, "limit of 300 MB of memory (limits.memory)"),
    "fill_the_log": ({}, 12, "limit of 256 MB of logs (limits.log)"),
    "take_all_descriptors": ({}, 12, "Too many open files"),
    "answer_without_end": (HEALTH, 12, "the answer is longer than"),
    "answer_garbage": (HEALTH, 12, "did not send an HTTP response"),
    "kill_everything": ({}, 12, "hostile on a1 was ended by SIGKILL"),
    "delete_interfaces": (
        {},
        12,
        "has been deleted, and not by the suite: only programs of the proxy hostile could do this",
    ),
    "delete_nodes": ({}, 12, "has deleted nodes from the API"),
    "flush_rules": ({}, 1, "connections get no answer"),
}


@pytest.mark.parametrize("what", CASES)
def test_hostile_program_is_named_and_leaves_nothing(judge: Any, what: str) -> None:
    more, code, words = CASES[what]
    run = judge(what, **more)
    ended, said = run.end()
    assert (ended, words in said) == (code, True), said
    assert "Traceback" not in said
    run.expect_clean()


@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 2)])
def test_ended_run_leaves_no_daemon_and_no_kubeconfig(
    judge: Any, how: signal.Signals, code: int, tmp_path: Path
) -> None:
    run = judge("daemonize")
    eventually((tmp_path / "told").exists, within=SECONDS, describe="the first daemon")
    run.process.send_signal(how)
    assert run.end()[0] == code
    run.expect_clean()
