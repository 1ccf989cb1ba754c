"""Eligible nodes, and the CPU share of each zone. Source: KEP-2433, Assumptions, and Kubernetes' releases."""

from __future__ import annotations

import pytest

from reference.client import Object
from reference.endpointslice.zones import NoHintsReason, ZoneShares, ZoneTable, milli_cpu
from reference.features import Features
from tests.reference.endpointslice.objects import RELEASED, make_node, release

CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": ""}
MASTER = {"node-role.kubernetes.io/master": "true"}


def table(*nodes: Object, features: Features | None = None) -> ZoneTable:
    return ZoneTable(features or Features(), {node["metadata"]["name"]: node for node in nodes})


def weights(*nodes: Object, features: Features | None = None) -> dict[str, int] | str:
    shares = table(*nodes, features=features).shares
    return dict(shares.weights) if isinstance(shares, ZoneShares) else shares.why


def test_zones_are_weighted_by_the_cpu_of_their_nodes() -> None:
    nodes = (make_node("a1", cpu="12"), make_node("a2", cpu="8"), make_node("b1", cpu="16"), make_node("c1", cpu="14"))
    assert weights(*nodes) == {"a": 20_000, "b": 16_000, "c": 14_000}


@pytest.mark.parametrize("left_out", [make_node("d1", ready=False), make_node("d1", "", ready=False, cpu="")])
def test_nodes_that_are_not_ready_do_not_count(left_out: Object) -> None:
    assert weights(make_node("a1"), make_node("b1"), left_out) == {"a": 4000, "b": 4000}


@pytest.mark.parametrize("labels", [CONTROL_PLANE, MASTER])
def test_control_plane_nodes_do_not_count_since_1_23(labels: dict[str, str]) -> None:
    nodes = (make_node("a1"), make_node("b1"), make_node("b2", labels=labels))
    assert weights(*nodes) == {"a": 4000, "b": 4000}
    assert weights(*nodes, features=release("1.22")) == {"a": 4000, "b": 8000}


@pytest.mark.parametrize("cpu", ["", "0", "plenty"])
def test_unknown_cpu_makes_each_node_count_as_one_core(cpu: str) -> None:
    nodes = (make_node("a1", cpu="64"), make_node("a2", cpu=cpu), make_node("b1", cpu="4"))
    assert weights(*nodes) == {"a": 2, "b": 1}
    assert weights(*nodes, features=RELEASED) == "NodesUnknown"


def test_one_node_without_zone_leaves_all_shares_unknown() -> None:
    assert weights(make_node("a1"), make_node("b1"), make_node("n1", "")) == "NodesUnknown"


def test_one_zone_has_no_allocation() -> None:
    assert weights(make_node("a1"), make_node("a2")) == "OneZone"
    assert weights(make_node("a1"), make_node("a2"), features=RELEASED) == "NodesUnknown"


def test_cluster_without_ready_nodes_is_reported() -> None:
    assert table(make_node("a1", ready=False)).shares == NoHintsReason("OneZone", "No nodes are ready")


def test_added_changed_and_deleted_nodes_are_tracked() -> None:
    zones = table(make_node("a1"), make_node("b1"))
    zones.put("c1", make_node("c1", cpu="500m"))
    zones.put("a1", make_node("a1", cpu="2"))
    zones.put("b1", None)
    zones.put("unheard-of", None)
    assert zones.shares == ZoneShares({"a": 2000, "c": 500}, 2500)


def test_version_grows_only_when_a_sum_may_have_changed() -> None:
    zones = table(make_node("a1"), make_node("b1"))
    before = zones.version
    zones.put("a1", make_node("a1", labels={"example.org/heartbeat": "7"}))
    assert zones.version == before
    zones.put("a1", make_node("a1", cpu="3"))
    assert zones.version == before + 1


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        *[("4", 4000), ("1.5", 1500), ("250m", 250), ("1m", 1), ("100u", 1), ("2k", 2_000_000), ("1e1", 10_000)],
        *[("-1", 0), ("NaN", 0), ("1e20", 2**63 - 1), ("1e900000", 2**63 - 1), ("1e99999999", 0)],
    ],
)
def test_quantities_are_parsed_as_millicores(quantity: str, expected: int) -> None:
    assert milli_cpu(quantity) == expected
