"""Tests that names of nodes and zones are translated in both directions, and that other names do not change."""

from __future__ import annotations

import contextlib
from typing import Any

from harness.api.client import Api
from harness.api.name_translation import NameTranslation
from harness.backends.any_cluster.target import ALWAYS, ClusterTarget, match_nodes
from harness.backends.kubeconfig import KubeconfigBackend
from harness.guest.nodes import NodeChange
from harness.model.topology import THREE_ZONES, ZONE_LABEL
from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer

NAMES = NameTranslation({"a1": "kind-worker", "b1": "kind-worker2"}, {"a": "europe-1a", "b": "europe-1b"})


def node(name: str, zone: str = "", *, ready: bool = True, **spec: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    labels = {ZONE_LABEL: zone} if zone else {}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"conditions": conditions}}


def test_endpoint_is_translated_in_both_directions() -> None:
    ours = {
        "nodeName": "a1",
        "zone": "a",
        "hints": {"forZones": [{"name": "a"}, {"name": "z"}], "forNodes": [{"name": "b1"}]},
        "targetRef": {"kind": "Pod", "name": "a1"},
    }
    theirs = NAMES.outgoing({"endpoints": [ours]})
    assert theirs["endpoints"][0]["nodeName"] == "kind-worker"
    assert theirs["endpoints"][0]["zone"] == "europe-1a"
    assert theirs["endpoints"][0]["hints"]["forZones"] == [{"name": "europe-1a"}, {"name": "z"}]
    assert theirs["endpoints"][0]["targetRef"]["name"] == "a1"  # a pod with the same name is not renamed
    assert NAMES.incoming(theirs) == {"endpoints": [ours]}


def test_nodes_are_renamed_in_lists_and_in_paths() -> None:
    listed = {
        "items": [{"metadata": {"name": "kind-worker"}, "status": {"nodeInfo": {}}}, {"metadata": {"name": "b1"}}]
    }
    assert [each["metadata"]["name"] for each in NAMES.incoming(listed)["items"]] == ["a1", "b1"]
    assert NAMES.path("/api/v1/nodes/a1/status") == "/api/v1/nodes/kind-worker/status"
    assert NAMES.path("/api/v1/namespaces/a1/pods/a1") == "/api/v1/namespaces/a1/pods/a1"


def test_malformed_objects_are_not_translated() -> None:
    odd = {"hints": {"forZones": [{"name": 3}, "a", None]}, "nodeName": ["a1"], "zone": None}
    assert NAMES.outgoing(odd) == odd


def test_zones_with_most_nodes_are_matched_in_natural_order() -> None:
    nodes = [node(f"w{number}", zone) for number, zone in ((10, "x"), (9, "x"), (3, "z"), (1, "y"), (2, "y"))]
    names = match_nodes(THREE_ZONES, [*nodes, node("control", "x", taints=[{"key": "c", "effect": "NoSchedule"}])])
    assert names.nodes == {"a1": "w9", "a2": "w10", "b1": "w1", "b2": "w2", "c1": "w3"}
    assert names.zones == {"a": "x", "b": "y", "c": "z"}


def test_equal_names_are_matched() -> None:
    nodes = [node("c1", "c"), node("b2", "b"), node("b1", "b"), node("b9", "b"), node("a1", "a")]
    names = match_nodes(THREE_ZONES, nodes)
    assert names.nodes == {"a1": "a1", "b1": "b1", "b2": "b2", "c1": "c1"}
    assert names.trivial


def test_unschedulable_nodes_are_not_matched() -> None:
    nodes = [node("w1", "x", ready=False), node("w2", "x", unschedulable=True), node("w3"), node("w4", "y")]
    assert match_nodes(THREE_ZONES, nodes).nodes == {"a1": "w4"}


def test_node_is_changed_by_its_name_in_the_cluster() -> None:
    server = HttpServer(ApiServer())
    server.start()
    with contextlib.closing(Api(server.kubeconfig())) as api:
        api.create("nodes", "", {"metadata": {"name": "kind-worker"}})
        target = ClusterTarget("", "", "abcd1234", NAMES, THREE_ZONES, ALWAYS)
        with contextlib.closing(KubeconfigBackend(target, Api(server.kubeconfig()))) as backend:
            backend.change_node("a1", NodeChange(labels={ZONE_LABEL: "b"}))
        assert api.get("nodes", "", "kind-worker")["metadata"]["labels"] == {ZONE_LABEL: "europe-1b"}
    server.stop()
