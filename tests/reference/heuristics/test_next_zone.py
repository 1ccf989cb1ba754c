"""The hinted zones of the example heuristic."""

from __future__ import annotations

import pytest

from reference.heuristics import Endpoint, Hints, Node, PreferNextZone

NODES = {name: Node(name, name[0]) for name in ("a1", "a2", "b1", "c1")} | {"n1": Node("n1", "")}


def zones(where: str) -> list[str]:
    """Return the hinted zones of each endpoint. Each letter of `where` is the zone of one endpoint."""
    endpoints = [Endpoint(f"10.0.0.{n}", f"p{n}", f"{zone}1", zone.strip()) for n, zone in enumerate(where)]
    hints = PreferNextZone().hints(endpoints, NODES)
    return ["".join(hints.get(each, Hints()).zones) for each in endpoints]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("abc", ["a", "b", "c"]),
        ("ab", ["ac", "b"]),
        ("ac", ["a", "cb"]),
        ("bc", ["ba", "c"]),
        ("b", ["bac"]),
        ("aab", ["ac", "ac", "b"]),
        ("z", ["zabc"]),
        ("", []),
    ],
)
def test_zone_without_endpoints_borrows_those_of_the_next_one(where: str, expected: list[str]) -> None:
    assert zones(where) == expected


def test_endpoint_of_unknown_zone_has_no_hints() -> None:
    assert zones("a ") == ["abc", ""]
    assert zones(" ") == [""]
