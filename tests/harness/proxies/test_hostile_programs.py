"""Runs judge hostile proxies. Each run ends by itself, names what the proxy did, and leaves nothing on the machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.eventually import eventually
from harness.netns.process import search_path
from tests.harness.proxies import hostile
from tests.harness.run.terminals import marked

ROOT = Path(__file__).resolve().parents[3]
SMALL_PROXY = ROOT / "examples/small-proxy/small_proxy.py"
NEEDS = ("nft", "conntrack", "ip", "mount")
REQUIREMENT = "KEP-4444/zone-hints-keep-traffic-in-the-zone"
SECONDS = 280
"""The time limit of a run, on a machine that is busy with others."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        any(shutil.which(each, path=search_path()) is None for each in NEEDS),
        reason=f"unavailable: {' or '.join(NEEDS)}",
    ),
]


class Hostile:
    """A run that judges a hostile proxy, and everything that the run could leave on the machine."""

    def __init__(self, folder: Path, what: str, more: Mapping[str, Any]) -> None:
        self.told, self.temp = folder / "told", folder / "temp"
        self.temp.mkdir()
        self.mark = uuid.uuid4().hex
        proxy = [str(SMALL_PROXY), "{node}", "{kubeconfig}", "{cluster_cidrs}", "10300"]
        recipe = {
            "name": "hostile",
            "command": [sys.executable, hostile.__file__, what, str(self.told), *proxy],
            "ready": [{"log": "serving"}],
            "synced": [{"http": {"port": 10300, "path": "/synced"}}],
            **more,
        }
        (folder / "hostile.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
        own = {"ENDS": self.mark, "TMPDIR": str(self.temp), "PYTHONDONTWRITEBYTECODE": "1"}
        self.mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        self.process = subprocess.Popen(
            [Path(sys.executable).with_name("trafficdist"), "run", f"--run-test={REQUIREMENT}",
             f"--proxy={folder / 'hostile.yaml'}", f"--output-dir={folder / 'out'}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **own},
            start_new_session=True,
        )  # fmt: skip

    def end(self) -> tuple[int, str]:
        """Wait for the end. Returns the exit code and the output."""
        said, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, said

    def expect_clean(self) -> None:
        """Raise if a process is left, which would also keep a netns, or a file or a mount."""
        eventually(lambda: not marked(self.mark), within=30, describe=lambda: f"the end of {marked(self.mark)}")
        eventually(lambda: not list(self.temp.iterdir()), within=30, describe="the removal of files")
        assert Path("/proc/self/mountinfo").read_text(encoding="utf-8") == self.mounts


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[Any]:
    runs: list[Hostile] = []

    def begin(what: str, **more: Any) -> Hostile:
        runs.append(Hostile(tmp_path, what, more))
        return runs[-1]

    yield begin
    for each in runs:
        each.process.kill()
        each.process.communicate()


HEALTH = {"ready": [{"log": "serving"}, {"http": {"port": 10301}}], "ready_seconds": 6}

CASES: dict[str, tuple[Mapping[str, Any], int, str]] = {
    "daemonize": ({}, 0, "All 1 selected requirements are met"),
    "mount": ({}, 0, "All 1 selected requirements are met"),
    "take_all_processes": ({"limits": {"processes": 200}}, 12, "limit of 200 processes and threads (limits.processes)"),
    "take_all_memory": ({"limits": {"memory": 300}}, 12, "limit of 300 MB of memory (limits.memory)"),
    "fill_the_log": ({}, 12, "limit of 256 MB of logs (limits.log)"),
    "take_all_descriptors": ({}, 12, "Too many open files"),
    "answer_without_end": (HEALTH, 12, "the answer is longer than"),
    "answer_garbage": (HEALTH, 12, "did not answer as HTTP"),
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
def test_ended_run_leaves_no_daemon_and_no_kubeconfig(judge: Any, how: signal.Signals, code: int) -> None:
    run = judge("daemonize")
    eventually(run.told.exists, within=SECONDS, describe="the first daemon")
    run.process.send_signal(how)
    assert run.end()[0] == code
    run.expect_clean()
