"""Tests the map of a cluster: the nodes of clients and pods, and the connections between them."""

from __future__ import annotations

import pytest

from harness.judging.verdict import AnyOf, CellMark, Expected, GridCell, GridRow, Tally, grid, plans
from harness.model.outcomes import TIMED_OUT, Observation, Reached
from harness.report.page.cluster_map import (
    NOWHERE,
    TIMES,
    ClusterMap,
    Connection,
    ConnectionKind,
    map_of,
    place_of_client,
    place_of_pod,
)

NODES = (("a1", "a"), ("a2", "a"), ("b1", "b"))


def row(client: str, **cells: GridCell) -> GridRow:
    return GridRow(client, "", cells)


def drawn(*rows: GridRow, pods: tuple[str, ...] = ("a1", "b1"), unrelated: tuple[str, ...] = ()) -> ClusterMap:
    return map_of(NODES, pods, rows, unrelated=unrelated)


def test_clients_and_pods_stand_in_their_nodes_in_their_zones() -> None:
    found = drawn(
        row("a1", a1=GridCell(9, CellMark.RIGHT)), row("node a1", a1=GridCell(9, CellMark.RIGHT)), row("outside via b1")
    )
    nodes = {zone: [(each.name, dict(each.clients), each.pods) for each in some] for zone, some in found.zones.items()}
    assert nodes == {
        "a": [("a1", {"a1": "client", "node a1": "node"}, ["a1"]), ("a2", {}, [])],
        "b": [("b1", {"outside via b1": "outside"}, ["b1"])],
    }


def test_connections_lead_from_the_client_to_the_pod() -> None:
    found = drawn(row("a1", b1=GridCell(3, CellMark.WRONG), a1=GridCell(1, CellMark.NONE))).connections
    assert found == [Connection(ConnectionKind.WRONG, "a1", "b1", True, f"3{TIMES}")]


def test_a_connection_that_reaches_no_pod_leads_to_its_outcome() -> None:
    found = drawn(GridRow("a1", "", {"timed out": GridCell(30, CellMark.WRONG)})).connections
    assert found == [Connection(ConnectionKind.WRONG, "a1", "timed out", False, f"30{TIMES}")]


def test_what_is_expected_and_never_seen_is_missing() -> None:
    assert drawn(row("a1", b1=GridCell(0, CellMark.UNSEEN))).connections == [
        Connection(ConnectionKind.MISSING, "a1", "b1", True, "never")
    ]


def test_wrong_connections_come_after_all_others() -> None:
    cells = {"a1": GridCell(5, CellMark.WRONG), "b1": GridCell(0, CellMark.UNSEEN)}
    found = drawn(GridRow("a1", "", cells), row("a2", a1=GridCell(4, CellMark.RIGHT))).connections
    assert [each.kind for each in found] == [ConnectionKind.RIGHT, ConnectionKind.MISSING, ConnectionKind.WRONG]


def test_pods_that_no_client_should_reach_are_unrelated() -> None:
    found = drawn(row("a1", a1=GridCell(9, CellMark.RIGHT)), pods=("a1",), unrelated=("a1", "b1-2"))
    assert [(each.pods, each.unrelated) for some in found.zones.values() for each in some] == [
        (["a1"], []),
        ([], []),
        ([], ["b1-2"]),
    ]


def test_who_is_on_no_known_node_is_elsewhere() -> None:
    found = drawn(row("z9", a1=GridCell(9, CellMark.RIGHT)))
    assert [each.name for some in found.zones.values() for each in some] == ["a1", "a2", "b1", NOWHERE]


@pytest.mark.parametrize(
    ("label", "place"),
    [
        ("a1", ("a1", "client")),
        ("node a2", ("a2", "node")),
        ("outside via b1", ("b1", "outside")),
        ("pod a1-2", ("a1", "client")),
        ("a1 in the new port", ("a1", "client")),
        ("node a2 in a port in use", ("a2", "node")),
    ],
)
def test_clients_are_found_by_their_labels(label: str, place: tuple[str, str]) -> None:
    assert place_of_client(label, ["a1", "a2", "b1"], ["a1-2"]) == place


@pytest.mark.parametrize(
    ("pod", "node"), [("a1", "a1"), ("a1-2", "a1"), ("a1:8081", "a1"), ("n-1", "n-1"), ("n-1-3", "n-1"), ("x", NOWHERE)]
)
def test_pods_are_found_by_their_names(pod: str, node: str) -> None:
    assert place_of_pod(pod, ["a1", "n-1"]) == node


def test_the_map_shows_what_the_grid_shows() -> None:
    expectation: dict[str, Expected] = {"a1": {"a1"}, "b1": AnyOf(frozenset({"b1"}))}
    seen: dict[str, list[Observation]] = {"a1": [Reached("b1")] * 60, "b1": [Reached("b1")] * 59 + [TIMED_OUT]}
    tallies = {client: Tally.of(some) for client, some in seen.items()}
    columns, rows = grid(expectation, tallies, plans(expectation))
    found = map_of(NODES, columns, rows).connections
    assert {(each.client, each.to, each.kind) for each in found} == {
        ("a1", "a1", ConnectionKind.MISSING),
        ("a1", "b1", ConnectionKind.WRONG),
        ("b1", "b1", ConnectionKind.RIGHT),
        ("b1", "timed out", ConnectionKind.WRONG),
    }
