"""Tests that two concurrent runs can create, use and delete their own clusters without affecting each other."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from harness.backends.containers.engine import ContainerEngine
from harness.eventually import eventually
from tests.harness.backends.compare_verdicts import RUN, trafficdist

ASKED = ["KEP-*", "METRICS/*", "SERVICE/*"]  # requirements that need at most two nodes; about 30 s
MADE = 600.0  # seconds for the creation of two clusters


@pytest.fixture
def started(node_image: str, tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start two runs. Each run writes its log to the test's folder."""
    with ExitStack() as stack:

        def start(name: str) -> subprocess.Popen[bytes]:
            log = stack.enter_context((tmp_path / f"{name}.log").open("wb"))
            on_kind = ["--backend=kind", f"--kind-image={node_image}", "--topology=a=1,b=1", "--families=IPv4", "-n0"]
            chosen = [*ASKED, "--profile=service-proxy", f"--output-dir={tmp_path / name}"]
            running = subprocess.Popen([*RUN, "run", *on_kind, *chosen], stdout=log, stderr=log)
            stack.callback(running.wait)
            stack.callback(running.terminate)
            return running

        yield [start("one"), start("other")]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_deleting_one_cluster_does_not_disturb_the_other(
    started: list[subprocess.Popen[bytes]], engine: ContainerEngine, state_home: Path, tmp_path: Path
) -> None:
    def clusters() -> int:
        return len({each.name for each in (state_home / "trafficdist" / "kind").iterdir()} & {*engine.clusters()})

    one, other = started
    logs = [tmp_path / "one.log", tmp_path / "other.log"]
    eventually(lambda: all("✓" in each.read_text() for each in logs), within=MADE, every=0.1, describe="verdicts")
    assert other.poll() is None
    assert clusters() == 2
    one.kill()
    one.wait()
    cleaned = trafficdist("cleanup", f"--kubeconfig={tmp_path / 'none'}")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert clusters() == 1
    other.wait()
    tests = yaml.safe_load((tmp_path / "other" / "report.yaml").read_text())["tests"]
    assert {each["verdict"] for each in tests} == {"passed", "skipped"}
    assert clusters() == 0
