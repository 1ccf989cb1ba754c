"""`explain` reports each cause with its id, nodes and remedy."""

from __future__ import annotations

import pytest

from explain.causes import causes
from explain.cluster import Cluster
from explain.diagnosis import Diagnosis, diagnose
from explain.objects import Objects
from explain.text import answer
from reference.features import Features, Reading
from tests.explain.building import labelled, nodes, objects, proxy, service
from tests.explain.page import stale
from tests.explain.rows import AT, EARLY, NODE_HINTS, NOTES, ROWS, Row


def diagnosis(seen: Objects, follow: Reading = "released") -> Diagnosis:
    return diagnose(seen.services[0], Cluster(seen, follow))


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_first_cause_is_named_with_nodes_evidence_and_remedy(row: Row) -> None:
    found = diagnosis(row.seen)
    first = found.findings[0]
    assert first.cause.id == row.cause, (answer(found), found.findings)
    assert row.says in answer(found)
    assert row.remedy in first.remedy or (not first.remedy and row.remedy in first.cause.remedy)
    assert " ".join(first.nodes) == row.nodes
    assert any(row.evidence in each for each in first.evidence) or not row.evidence
    assert (" ".join(found.crossing), " ".join(found.failing)) == (row.crossing, row.failing)


@pytest.mark.parametrize(("cause", "seen"), NOTES.items(), ids=NOTES)
def test_harmless_finding_is_a_note(cause: str, seen: Objects) -> None:
    found = diagnosis(seen)
    assert cause in {each.cause.id for each in found.findings}
    assert not found.wanting


def test_proxy_that_reads_its_zone_at_start_needs_a_restart() -> None:
    calico = proxy("c1", started=EARLY)
    calico["metadata"] |= {"name": "calico-node-x", "labels": {"k8s-app": "calico-node"}}
    found = diagnosis(objects(service(), on=nodes(c1=labelled("c1", "c", "csr")), proxies=[calico]))
    other, first = found.findings
    assert (other.cause.id, other.nodes, found.uncertain) == ("not-kube-proxy", ("c1",), ("c1",))
    assert (first.cause.id, first.nodes) == ("zone-label-changed", ("c1",))
    assert first.remedy == "kubectl -n kube-system delete pod calico-node-x"
    assert first.evidence == (f"zone label of c1 written by csr at {AT}, calico-node-x started at {EARLY}",)


def test_no_cause_is_reported_if_every_zone_has_an_endpoint() -> None:
    found = diagnosis(objects())
    assert (found.findings, found.crossing) == ((), ())
    assert answer(found) == "connections stay in the zone of the client, from all 5 nodes"


def test_topology_keys_are_a_cause_while_their_gate_is_on() -> None:
    seen = objects(service(asks="", topologyKeys=["topology.kubernetes.io/zone"]), version="v1.20.0")
    cluster = Cluster(seen, "kep")
    cluster.features = Features((1, 20), gates={"ServiceTopology": True})
    assert diagnose(seen.services[0], cluster).findings[0].cause.id == "topology-keys"


def test_preferring_the_node_uses_the_zone_where_the_node_has_none() -> None:
    found = diagnosis(objects(service(asks="PreferSameNode"), NODE_HINTS))
    assert (found.findings, found.crossing) == ((), ())
    assert {name: each.tier for each in found.routes for name in each.nodes} == {
        "a1": "node", "a2": "zone", "b1": "node", "b2": "zone", "c1": "node",
    }  # fmt: skip


def test_each_cause_has_a_scenario() -> None:
    seen = (
        {row.cause for row in ROWS.values()}
        | {*NOTES}
        | {"topology-keys", "proxy-does-otherwise", "nobody-listens", "not-known"}
    )
    assert seen == causes().keys()


def test_each_cause_has_its_paragraph() -> None:
    assert stale() == [], "run `python -m tests.explain.page` to update the page"
