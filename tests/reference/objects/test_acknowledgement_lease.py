"""The Lease that proxies write and controllers read."""

from __future__ import annotations

import pytest

from reference.client import Object
from reference.objects.acknowledgement_lease import lease_name, node_of, revision_of, with_revision


def lease(name: str = "service-proxy-a1", namespace: str = "kube-system", said: str = "7") -> Object:
    annotations = {"trafficdist.dev/programmed-resource-version": said, "example.org/other": "stays"}
    return {"metadata": {"name": name, "namespace": namespace, "annotations": annotations}, "spec": {}}


def test_lease_names_and_node_names_round_trip() -> None:
    assert lease_name("a1") == "service-proxy-a1"
    assert node_of(lease(lease_name("node-1.example"))) == "node-1.example"


@pytest.mark.parametrize("other", [lease("kube-scheduler"), lease(namespace="kube-node-lease")])
def test_other_leases_belong_to_no_node(other: Object) -> None:
    assert node_of(other) == ""


@pytest.mark.parametrize(("said", "revision"), [("7", 7), ("", None), ("-1", None), ("soon", None)])
def test_only_a_number_acknowledges(said: str, revision: int | None) -> None:
    assert revision_of(lease(said=said)) == revision


def test_lease_without_annotations_acknowledges_nothing() -> None:
    assert revision_of({"metadata": {"name": "service-proxy-a1"}}) is None
    assert revision_of({"metadata": {"name": "service-proxy-a1", "annotations": None}}) is None


def test_new_revision_preserves_the_rest() -> None:
    before = lease(said="7")
    after = with_revision(before, 8)
    assert (revision_of(before), revision_of(after)) == (7, 8)
    assert after["metadata"]["annotations"]["example.org/other"] == "stays"
