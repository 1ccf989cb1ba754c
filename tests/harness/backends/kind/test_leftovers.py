"""Tests that the clusters of ended processes are found and deleted, and that other clusters are not."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.backends.containers.engine import CLUSTER_LABEL, ContainerEngine
from harness.backends.kind.cluster_folder import ClusterFolder, root
from harness.backends.kind.leftovers import remove_leftovers
from harness.commands.cleanup import cleanup
from tests.harness.backends.kind.conftest import Install

HOLD = """
import sys
from harness.backends.kind.cluster_folder import ClusterFolder
print(ClusterFolder(sys.argv[1]).take(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def run_id(engine: ContainerEngine, kind: Path, tmp_path: Path) -> Iterator[str]:
    """Return the id of a run that left a container, which never started and whose image has no files."""
    run = uuid.uuid4().hex[:8]
    name, image = f"trafficdist-{run}", f"trafficdist-empty:{run}"
    (tmp_path / "empty.tar").write_bytes(bytes(10240))
    engine.ask("import", str(tmp_path / "empty.tar"), image)
    engine.ask("create", "--name", f"{name}-worker", "--label", f"{CLUSTER_LABEL}={name}", "--network=none", image, "x")
    yield run
    if engine.containers(name):
        engine.ask("rm", "--force", f"{name}-worker")
    engine.ask("rmi", image)


def test_cluster_of_a_killed_process_is_deleted(run_id: str, engine: ContainerEngine) -> None:
    name = f"trafficdist-{run_id}"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        said: list[str] = []
        assert remove_leftovers(say=said.append) == []
        assert said == [f"kind cluster {name} is in use by a running process and is not deleted"]
        process.send_signal(signal.SIGKILL)
    assert remove_leftovers() == [name]
    assert engine.containers(name) == []
    assert not (root() / name).exists()


def test_kept_cluster_is_deleted_only_by_run_id(run_id: str, engine: ContainerEngine) -> None:
    state = ClusterFolder(f"trafficdist-{run_id}")
    assert state.take()
    state.kept.touch()
    state.let_go()
    assert remove_leftovers() == []
    assert remove_leftovers(run_id) == [f"trafficdist-{run_id}"]
    assert engine.clusters().count(f"trafficdist-{run_id}") == 0


def test_cluster_of_another_user_is_deleted_only_by_run_id(run_id: str, engine: ContainerEngine) -> None:
    assert remove_leftovers() == []
    assert engine.containers(f"trafficdist-{run_id}") == [f"trafficdist-{run_id}-worker"]
    assert remove_leftovers(run_id) == [f"trafficdist-{run_id}"]


def test_deletion_is_reported_once(install: Install, tmp_path: Path) -> None:
    install("docker", "")
    kind = install("kind", 'echo "$*" >> "$0.asked"; echo kind version 0.33.0')
    state = ClusterFolder("trafficdist-abcdefgh")
    assert state.take()
    state.let_go()
    done = CliRunner().invoke(cleanup, ["--kubeconfig", str(tmp_path / "none")])
    assert "delete cluster --name trafficdist-abcdefgh" in Path(f"{kind}.asked").read_text(encoding="utf-8")
    assert done.output.splitlines() == ["kind cluster trafficdist-abcdefgh is deleted"]


def test_without_an_engine_there_is_nothing_to_delete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert remove_leftovers() == []


def test_cluster_folder_is_accessible_only_to_its_owner() -> None:
    state = ClusterFolder("trafficdist-abcdefgh")
    assert state.take()
    assert not ClusterFolder("trafficdist-abcdefgh").take()
    assert state.folder.stat().st_mode & 0o077 == 0
    state.remove()
    assert not state.folder.exists()
