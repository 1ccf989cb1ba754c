"""Tests the creation of a kind cluster: the shown progress, and the state after a failure."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.backends.containers.engine import ContainerEngine
from harness.backends.kind.cluster import KindCluster, explain, progress_step
from harness.backends.kind.cluster_folder import root
from harness.backends.kind.nodes import ready_nodes
from harness.errors import UnavailableError, UsageError
from harness.model.topology import ONE_ZONE
from tests.harness.backends.kind.conftest import Install

NO_SUCH_IMAGE = "localhost:1/no-such-node:v1.34.0"
ENGINE = """case "$1" in
  info) echo '{"ServerVersion": "28.0.0", "CgroupVersion": "2", "KernelVersion": "6.8.0"}';;
esac"""
KIND_THAT_FAILS = """case "$1" in
  --version) echo kind version 0.33.0; exit 0;;
  delete) echo "$*" >> "$0.asked"; exit 0;;
esac
echo ' • Preparing nodes 📦 📦  ...'
echo ' ✗ Preparing nodes 📦 📦'
echo 'ERROR: failed to create cluster: no luck' >&2
exit 1"""
KIND_THAT_HANGS = """case "$1" in
  --version) echo kind version 0.33.0; exit 0;;
  delete) echo "$*" >> "$0.asked"; exit 0;;
esac
echo $$ > "$0.pid"
echo ' • Waiting ...'
exec sleep 60"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (" • Ensuring node image (kindest/node:v1.37.0) 🖼️  ...", "Ensuring node image (kindest/node:v1.37.0)"),
        (" ✓ Ensuring node image (kindest/node:v1.37.0) 🖼️", ""),
        ("Have a nice day! 👋", ""),
    ],
)
def test_progress_of_kind_is_shown_without_emojis(line: str, said: str) -> None:
    assert progress_step(line) == said


def test_cause_is_shown_without_kubeadms_call_stack() -> None:
    stack = "\n".join(f"k8s.io/kubernetes/cmd.f{n}\n\tk8s.io/kubernetes@v1.34.0/cmd/f.go:{n}" for n in range(30))
    error = explain(
        f"ERROR: failed to init node\nerror: the kubelet is not healthy\n{stack}\nruntime.main\n\tproc.go:1"
    )
    assert str(error).endswith("\nERROR: failed to init node\nerror: the kubelet is not healthy")


def test_failure_of_kind_is_shown_with_scarce_resources() -> None:
    error = explain("Creating cluster ...\nERROR: failed to init node\nCommand Output: no", ["12 MB of memory"])
    assert "ERROR: failed to init node\nCommand Output: no\nPossible cause: 12 MB of memory" in str(error)
    assert "Creating" not in str(error)


def test_node_is_ready_when_its_kubelet_reports_ready() -> None:
    ready, other = ({"metadata": {"name": n}, "status": {"conditions": [{"type": "Ready", "status": s}]}}
                    for n, s in (("w1", "True"), ("w2", "False")))  # fmt: skip
    held = {**ready, "metadata": {"name": "w4"}, "spec": {"taints": [{"key": "node.kubernetes.io/not-ready"}]}}
    nodes = [ready, other, {"metadata": {"name": "w3"}}, held]
    assert ready_nodes(cast("Any", SimpleNamespace(list=lambda _: nodes))) == {"w1"}


def test_failed_cluster_leaves_nothing(install: Install) -> None:
    kind = install("kind", KIND_THAT_FAILS)
    install("docker", ENGINE)
    said: list[str] = []
    cluster = KindCluster(ONE_ZONE, run_id="abcdefgh", say=said.append)
    with pytest.raises(UnavailableError, match="ERROR: failed to create cluster: no luck"):
        cluster.start()
    assert said == ["kind 0.33.0 creates cluster trafficdist-abcdefgh with docker", "Preparing nodes"]
    assert "delete cluster --name trafficdist-abcdefgh" in Path(f"{kind}.asked").read_text(encoding="utf-8")
    assert not (root() / cluster.name).exists()


def test_kind_is_stopped_when_the_run_is_interrupted(install: Install) -> None:
    kind = install("kind", KIND_THAT_HANGS)
    install("docker", ENGINE)

    def interrupt(text: str) -> None:
        if text == "Waiting":
            raise KeyboardInterrupt

    cluster = KindCluster(ONE_ZONE, run_id="abcdefgh", say=interrupt)
    with pytest.raises(KeyboardInterrupt):
        cluster.start()
    assert not Path("/proc", Path(f"{kind}.pid").read_text(encoding="ascii").strip()).exists()
    assert not (root() / cluster.name).exists()


def test_run_ids_are_checked() -> None:
    with pytest.raises(UsageError, match="run id 'x'"):
        KindCluster(run_id="x")


@pytest.mark.slow
def test_missing_node_image_is_reported_and_leaves_nothing(kind: Path, engine: ContainerEngine) -> None:
    before = engine.clusters()
    cluster = KindCluster(ONE_ZONE, image=NO_SUCH_IMAGE)
    with pytest.raises(UnavailableError, match=f"node image {NO_SUCH_IMAGE} cannot be pulled; check the network"):
        cluster.start()
    assert engine.clusters() == before
    assert not (root() / cluster.name).exists()
