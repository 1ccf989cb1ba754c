"""Tests that a cleanup after a killed run restores the cluster, and does not change foreign objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from harness.api.client import Api
from harness.commands.main import main
from harness.errors import DistrustError
from harness.eventually import eventually
from harness.guest import lease_record
from harness.guest.labels import BEFORE_ANNOTATION, NAMESPACE, run_labels
from harness.guest.lease import cleanup, hold
from harness.guest.lease_record import LeaseRecord
from harness.guest.nodes import NodeChange, change_node
from harness.model import manifests
from harness.model.topology import Node
from reference.apiserver.server import HttpServer
from tests.harness.guest.snapshot import comparable, differences, snapshot

TAINT = {"key": "example.com/own", "effect": "NoSchedule"}


@pytest.fixture
def cluster(api: Api) -> Api:
    """Start a foreign cluster. It has a node, and a Service in its own namespace."""
    node = manifests.node(Node("a1", "a"), ["10.0.0.1"], ["10.244.1.0/24"])
    node["spec"]["taints"] = [TAINT]
    api.create("nodes", "", node)
    api.create("namespaces", "", {"metadata": {"name": "shop"}})
    api.create("services", "shop", manifests.service("web"))
    return api


def leave_behind(api: Api, run: str, *, seconds_ago: float = 31.0, process: str = "elsewhere/1 1 1") -> None:
    """Create all possible leftovers: a Lease, namespaces, a node that exists only in the API, and a changed node."""
    when = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    api.create("namespaces", "", {"metadata": {"name": NAMESPACE, "labels": run_labels(run)}})
    api.create("leases", NAMESPACE, LeaseRecord(run, "alice@laptop pid 1", when, when, process=process).lease())
    api.create("namespaces", "", {"metadata": {"name": f"td-{run}-main-1", "labels": run_labels(run)}})
    api.create("services", f"td-{run}-main-1", manifests.service("web"))
    api.create("nodes", "", {"metadata": {"name": f"api-only-{run}", "labels": run_labels(run)}})
    change_node(
        api, "a1", run, NodeChange({"topology.kubernetes.io/zone": "z", "new": "x"}, taints=[], unschedulable=True)
    )
    change_node(api, "a1", run, NodeChange({"topology.kubernetes.io/zone": None}))


def test_cluster_is_equal_before_and_after(cluster: Api) -> None:
    before = snapshot(cluster)
    leave_behind(cluster, "dead0000")
    assert differences(before, snapshot(cluster))
    done = cleanup(cluster)
    assert differences(before, snapshot(cluster)) == []
    assert "namespace td-dead0000-main-1 is removed" in done
    assert {"node a1 is restored", "node api-only-dead0000 is removed"} < set(done)


def test_concurrent_changes_of_a_node_are_preserved(cluster: Api) -> None:
    leave_behind(cluster, "dead0000")
    theirs = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    patch = {"metadata": {"labels": {"theirs": "1"}}, "spec": {"taints": [theirs]}}
    cluster.patch("nodes", "", "a1", patch)
    cleanup(cluster)
    node = cluster.get("nodes", "", "a1")
    assert node["metadata"]["labels"]["theirs"] == "1"
    assert node["spec"]["taints"] == [theirs, TAINT]
    assert BEFORE_ANNOTATION not in node["metadata"].get("annotations", {})


def test_a_cluster_without_leftovers_is_not_written_to(cluster: Api, server: HttpServer) -> None:
    seen = len(server.requests())
    assert cleanup(cluster) == []
    assert {each.method for each in server.requests()[seen:]} == {"GET"}


def test_leftovers_can_be_removed_during_another_run(cluster: Api) -> None:
    cluster.create("namespaces", "", {"metadata": {"name": "td-old", "labels": run_labels("dead0000")}})
    with hold(cluster, "aaaaaaaa", sweep=False) as held:
        assert cleanup(cluster, run="dead0000") == ["namespace td-old is removed"]
        held.check()
        cluster.get("namespaces", "", NAMESPACE)


def test_run_in_progress_is_not_disturbed_unless_forced(cluster: Api) -> None:
    before = snapshot(cluster)
    with hold(cluster, "aaaaaaaa", every=0.02) as held:
        with pytest.raises(DistrustError, match=r"in use by run aaaaaaaa.*--force"):
            cleanup(cluster)
        cleanup(cluster, force=True)
        eventually(lambda: held.lost, describe="the run to notice")
    assert differences(before, snapshot(cluster)) == []


def test_remote_lease_without_renewal_is_waited_for(cluster: Api) -> None:
    leave_behind(cluster, "dead0000", seconds_ago=29.0)
    said: list[str] = []
    assert "the Lease of run dead0000 is deleted" in cleanup(cluster, say=said.append)
    assert "its Lease expires at" in said[0]


def test_command_reports_what_it_removed(cluster: Api, server: HttpServer, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(server.kubeconfig()))
    leave_behind(cluster, "dead0000", process=f"{lease_record.process_name().partition(' ')[0]} 4194305 1")
    for expected in ("namespace td-dead0000-main-1 is removed", "nothing was left"):
        result = CliRunner().invoke(main, ["cleanup", "--kubeconfig", str(kubeconfig)])
        assert (result.exit_code, expected in result.output) == (0, True), result.output


def test_command_uses_the_environment_of_a_run(server: HttpServer, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(server.kubeconfig()))
    variables = {"TRAFFICDIST_KUBECONFIG": str(tmp_path / "kubeconfig"), "TRAFFICDIST_CONTEXT": "nowhere"}
    result = CliRunner().invoke(main, ["cleanup"], env=variables)
    assert (result.exit_code, "has no context 'nowhere'" in result.output) == (4, True), result.output


def test_command_refuses_invalid_run_ids() -> None:
    result = CliRunner().invoke(main, ["cleanup", "--run", "all"])
    assert (result.exit_code, "8 lower-case letters and digits" in result.output) == (4, True)


def test_heartbeats_are_not_differences() -> None:
    def node(beat: str) -> dict[str, object]:
        conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": beat}]
        metadata = {"name": "a1", "resourceVersion": beat}
        return {"metadata": metadata, "status": {"conditions": conditions, "images": [beat]}}

    assert comparable("nodes", node("1")) == comparable("nodes", node("2"))


def test_differences_name_object_and_field() -> None:
    before = {"nodes a1": {"spec": {"x": 1}}, "pods shop/web": {}}
    after = {"nodes a1": {"spec": {"x": 2}}, "pods shop/new": {}}
    assert differences(before, after) == [
        "new: pods shop/new",
        "gone: pods shop/web",
        "changed: nodes a1: spec.x was 1, is 2",
    ]
