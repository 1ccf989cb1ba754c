"""Tests the map of a cluster: the position of boxes, the pods in them, and the labels of arrows."""

from __future__ import annotations

import pytest

from harness.judging.grid import Cell, Mark, Row
from harness.judging.verdict import AnyOf, Expected, Tally, grid, plans
from harness.model.outcomes import TIMED_OUT, Observation, Reached
from harness.report.page.cluster_map import (
    CLIENTS,
    NOWHERE,
    OUTSIDE,
    PODS,
    RADIUS,
    STUB,
    Box,
    ClusterMap,
    Kind,
    lay_out,
    on_curve,
    place_of_client,
    place_of_pod,
)

NODES = (("a1", "a"), ("a2", "a"), ("b1", "b"))


def row(client: str, **cells: Cell) -> Row:
    return Row(client, "", cells)


def drawn(*rows: Row, pods: tuple[str, ...] = ("a1", "b1"), beside: tuple[str, ...] = ()) -> ClusterMap:
    return lay_out(NODES, pods, rows, beside=beside)


def test_zones_are_side_by_side_and_contain_their_nodes() -> None:
    found = drawn(row("a1", a1=Cell(9, Mark.RIGHT)))
    assert [(each.name, each.x, each.width) for each in found.zones] == [("a", 1.0, 225.0), ("b", 240.0, 116.0)]
    assert found.nodes == (
        Box("a1", 8.0, 26.0, 102.0, 235.0),
        Box("a2", 117.0, 26.0, 102.0, 235.0),
        Box("b1", 247.0, 26.0, 102.0, 235.0),
    )
    assert (found.width, found.height) == (357.0, 278.0)


def test_clients_are_above_and_pods_below_in_the_box_of_their_node() -> None:
    found = drawn(row("a1", a1=Cell(9, Mark.RIGHT)), row("node a1", a1=Cell(9, Mark.RIGHT)))
    assert found.nodes[0].width == 190.0  # two clients side by side
    assert [(each.name, each.label, each.x, each.y) for each in found.clients] == [
        ("a1", "client", 55.5, CLIENTS),
        ("node a1", "node", 150.5, CLIENTS),
    ]
    assert [(each.name, each.x, each.y) for each in found.pods] == [("a1", 103.0, PODS), ("b1", 386.0, PODS)]


def test_arrows_run_from_the_client_to_the_pod() -> None:
    (arrow,) = drawn(row("a1", b1=Cell(3, Mark.WRONG), a1=Cell(1, Mark.NONE))).arrows
    assert (arrow.kind, arrow.client, arrow.pod, arrow.label) == (Kind.WRONG, "a1", "b1", "3\N{MULTIPLICATION SIGN}")
    assert (arrow.x1, arrow.y1) == (59.0, CLIENTS + RADIUS)
    assert (arrow.x2, arrow.y2) == (298.0, PODS - 13)
    assert arrow.share == 0.75


def test_two_arrows_to_one_pod_end_side_by_side() -> None:
    first, second = drawn(row("a1", a1=Cell(9, Mark.RIGHT)), row("b1", a1=Cell(9, Mark.RIGHT))).arrows
    assert second.x2 - first.x2 == 12.0
    assert (first.x2 + second.x2) / 2 == 59.0


def test_arrow_without_a_pod_ends_below_its_client() -> None:
    (arrow,) = drawn(Row("a1", "", {"timed out": Cell(30, Mark.WRONG)})).arrows
    assert (arrow.pod, arrow.label) == ("", "timed out\n30\N{MULTIPLICATION SIGN}")
    assert (arrow.x1, arrow.x2, arrow.y2) == (59.0, 59.0, CLIENTS + RADIUS + STUB)


def test_expected_pod_that_was_never_reached_is_missing() -> None:
    (arrow,) = drawn(row("a1", b1=Cell(0, Mark.UNSEEN))).arrows
    assert (arrow.kind, arrow.label) == (Kind.MISSING, "never")


def test_wrong_arrows_are_drawn_on_top() -> None:
    cells = {"a1": Cell(5, Mark.WRONG), "b1": Cell(0, Mark.UNSEEN)}
    found = drawn(Row("a1", "", cells), row("a2", a1=Cell(4, Mark.RIGHT))).arrows
    assert [each.kind for each in found] == [Kind.RIGHT, Kind.MISSING, Kind.WRONG]


def test_external_clients_are_above_the_zones() -> None:
    found = drawn(row("outside via a2", a1=Cell(9, Mark.RIGHT)))
    assert [each.y for each in found.zones] == [OUTSIDE + 1, OUTSIDE + 1]
    (client,) = found.clients
    assert (client.label, client.y) == ("outside", 38.0)
    assert found.nodes[1].x < client.x < found.nodes[1].x + found.nodes[1].width


def test_pods_that_no_client_should_reach_are_at_the_side() -> None:
    found = drawn(row("a1", a1=Cell(9, Mark.RIGHT)), pods=("a1",), beside=("a1", "b1-2"))
    assert {each.name: each.concerned for each in found.pods} == {"a1": True, "b1-2": False}


def test_clients_and_pods_without_a_known_node_are_elsewhere() -> None:
    found = drawn(row("z9", a1=Cell(9, Mark.RIGHT)))
    assert [each.name for each in found.nodes] == ["a1", "a2", "b1", NOWHERE]


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


def test_curve_starts_and_ends_vertically() -> None:
    ends = (0.0, 0.0, 100.0, 80.0)
    assert [on_curve(ends, t) for t in (0.0, 0.5, 1.0)] == [(0.0, 0.0), (50.0, 40.0), (100.0, 80.0)]
    assert on_curve(ends, 0.01)[0] < on_curve(ends, 0.01)[1]


def test_the_map_shows_what_the_grid_shows() -> None:
    expectation: dict[str, Expected] = {"a1": {"a1"}, "b1": AnyOf(frozenset({"b1"}))}
    seen: dict[str, list[Observation]] = {"a1": [Reached("b1")] * 60, "b1": [Reached("b1")] * 59 + [TIMED_OUT]}
    tallies = {client: Tally.of(some) for client, some in seen.items()}
    columns, rows = grid(expectation, tallies, plans(expectation))
    found = lay_out(NODES, columns, rows).arrows
    assert {(each.client, each.pod, each.kind) for each in found} == {
        ("a1", "a1", Kind.MISSING),
        ("a1", "b1", Kind.WRONG),
        ("b1", "b1", Kind.RIGHT),
        ("b1", "", Kind.WRONG),
    }
