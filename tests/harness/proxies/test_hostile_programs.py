"""Runs judge hostile proxies. Each run ends on its own, names what the proxy did, and leaves nothing on the machine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.eventually import eventually
from harness.netns.namespace import Namespace
from harness.netns.process import search_path
from tests.harness.hostile_programs import ACKNOWLEDGED, SECONDS, HostileRun
from tests.harness.proxies import hostile_proxy
from tests.harness.run.network_state import network_state
from tests.machine_load import crowding

ROOT = Path(__file__).resolve().parents[3]
SMALL_PROXY = ROOT / "examples/small-proxy/small_proxy.py"
NEEDS = ("nft", "conntrack", "ip", "mount")
MACHINE = ("ip link set lo up", "ip link add machine0 type veth peer name machine1", "nft add table inet machine")
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
def machine(netns_allowed: None) -> Iterator[Namespace]:
    """Return a netns that stands in for the machine. It has an interface and a rule that a program could remove."""
    with Namespace.create() as made, made.entered():
        for command in MACHINE:
            subprocess.run(command.split(), check=True, env={"PATH": search_path()})
        yield made


@pytest.fixture
def judge(tmp_path: Path, machine: Namespace) -> Iterator[Any]:
    told, runs, before = tmp_path / "told", list[HostileRun](), network_state()
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
    assert network_state() == before


HEALTH = {"ready": [{"log": "serving"}, {"http": {"port": 10301}}], "ready_seconds": 6}

# the limits and options of each program, the exit code of the run, and a pattern in its output
CASES: dict[str, tuple[Mapping[str, Any], int, str]] = {
    "daemonize": ({}, 0, "All 1 selected requirements are met"),
    "mount": ({}, 0, "All 1 selected requirements are met"),
    "take_all_processes": (
        {"limits": {"processes": 200}},
        12,
        r"limit of 200 processes and threads \(limits.processes\)",
    ),
    "take_all_memory": ({"limits": {"memory": 300}}, 12, r"limit of 300 MB of memory \(limits.memory\)"),
    "fill_the_log": ({}, 12, r"limit of 256 MB of logs \(limits.log\)"),
    "take_all_descriptors": ({}, 12, "Too many open files"),
    "answer_without_end": (HEALTH, 12, "the answer is longer than"),
    "answer_garbage": (HEALTH, 12, "did not send an HTTP response"),
    "kill_everything": ({}, 12, "hostile on a1 was ended by SIGKILL"),
    "delete_interfaces": (
        {},
        12,
        r"interface .* of node .* has been deleted, and not by the suite: only programs of the proxy hostile could do",
    ),
    "delete_nodes": ({}, 12, r"\(user agent Python-urllib.*\) has deleted nodes from the API \(/api/v1/nodes"),
    "flush_rules": ({"converges_within": 1}, 1, "get no answer, although there are endpoints for them"),
}


@pytest.mark.parametrize("what", CASES)
def test_hostile_program_is_named_and_leaves_nothing(judge: Any, what: str) -> None:
    more, code, words = CASES[what]
    run, crowded = judge(what, **more), crowding() > 1
    ended, said = run.end()
    if what == "flush_rules" and ended == 10 and (crowded or crowding() > 1):
        code, words = 10, "the machine is too busy"  # the proxy may be too slow to write its rules again
    assert (ended, bool(re.search(words, said))) == (code, True), said
    assert "Traceback" not in said
    run.expect_clean()


@pytest.mark.parametrize(("how", "code"), [("kill", -9), ("ctrl-c", 2)])
def test_ended_run_leaves_no_daemon_and_no_kubeconfig(judge: Any, how: str, code: int, tmp_path: Path) -> None:
    run, told = judge("daemonize"), tmp_path / "told"
    eventually(
        lambda: told.exists() and told.read_text(),
        within=SECONDS,
        describe="the first daemon",
        stop_reason=run.final_output,
    )
    kubeconfig = Path(told.read_text())
    token = json.loads(kubeconfig.read_text())["users"][0]["user"]["token"].encode()
    run.note_namespaces()
    assert len(run.namespaces) > 1
    if how == "kill":
        run.process.kill()
    else:
        run.interrupt()
    ended, said = run.end()
    assert (ended, ACKNOWLEDGED in said, "Traceback" in said) == (code, how == "ctrl-c", False), said
    run.expect_clean()
    assert not kubeconfig.exists()
    assert [each for each in tmp_path.rglob("*") if each.is_file() and token in each.read_bytes()] == []
