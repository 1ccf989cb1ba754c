"""Specs run in separate processes, and a killed run leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator import cluster_control, cluster_state
from harness.eventually import eventually
from tests.upstream_e2e import records, run_specs
from tests.upstream_e2e.run_specs import CompiledSpecs
from tests.upstream_e2e.specs import FAILED, PASSED, SpecResult

SPEC = "[sig-network] Topology Hints should distribute endpoints evenly"
PASSES = {
    "ContainerHierarchyTexts": ["[sig-network] Topology Hints"],
    "LeafNodeText": "should distribute endpoints evenly",
    "LeafNodeType": "It",
    "State": "passed",
    "RunTime": 2_000_000_000,
}
WRITES = """#!/bin/sh
for each; do case $each in --ginkgo.json-report=*) cp {report} "${{each#*=}}";; esac; done
echo "$@"
"""


@pytest.fixture
def suite(tmp_path: Path) -> CompiledSpecs:
    """A suite whose program writes a report and prints its arguments."""
    (tmp_path / "made.json").write_text(json.dumps([{"SpecReports": [PASSES]}]))
    return _suite(tmp_path, WRITES.format(report=tmp_path / "made.json"))


def _suite(folder: Path, script: str) -> CompiledSpecs:
    program = folder / "e2e"
    program.write_text(script)
    program.chmod(0o755)
    return CompiledSpecs("1.37.2", program, folder / "kubectl", seed=7)


def test_a_spec_is_run_by_its_name_on_the_cluster_and_leaves_its_log(suite: CompiledSpecs, tmp_path: Path) -> None:
    assert run_specs.run(suite, Path("/k"), [SPEC], tmp_path / "left", at_once=2) == [SpecResult(SPEC, PASSED, 2.0)]
    said = (tmp_path / "left/1/log").read_text()
    assert "--kubeconfig=/k" in said
    assert "--ginkgo.seed=7" in said
    assert r"--ginkgo.focus=\[sig\-network\]\ Topology" in said


def test_specs_are_those_of_the_groups(suite: CompiledSpecs) -> None:
    assert suite.names(["Topology Hints"]) == [SPEC]
    assert suite.names(["Services"]) == []


def test_a_program_without_report_fails_its_spec_with_the_end_of_its_log(tmp_path: Path) -> None:
    (result,) = run_specs.run(_suite(tmp_path, "#!/bin/sh\necho panic\n"), Path("/k"), [SPEC], tmp_path, at_once=1)
    assert (result.end, "panic" in result.why) == (FAILED, True)


def test_specs_end_with_the_first_trouble_of_the_run(tmp_path: Path) -> None:
    suite = _suite(tmp_path, "#!/bin/sh\nexec sleep 600\n")
    threading.Timer(0.5, suite.ending.set).start()
    (result,) = run_specs.run(suite, Path("/k"), [SPEC], tmp_path, at_once=1)
    assert (result.end, result.seconds < 60) == (FAILED, True)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield
    for state in cluster_state.running():
        cluster_control.down(state.name)


@pytest.mark.usefixtures("runtime")
def test_cluster_of_a_run_that_was_killed_is_taken_down() -> None:
    code = "from tests.upstream_e2e.run_specs import cluster\nwith cluster() as path: print(path, flush=True); input()"
    starter = subprocess.Popen(
        [sys.executable, "-c", code], cwd=records.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    kubeconfig = Path(starter.stdout.readline().strip())
    assert kubeconfig.exists()
    os.kill(starter.pid, signal.SIGKILL)
    starter.communicate()
    eventually(lambda: not kubeconfig.exists() and not cluster_state.running(), describe="the cluster to go")
