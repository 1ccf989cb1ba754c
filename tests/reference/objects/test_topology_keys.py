"""The first matching topology key selects the endpoints. The cases are those of KEP-536's test plan, and edge cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.objects.topology_keys import ANY, Labels, first_match

# A rack may contain nodes of several zones. Only the rack label matters here.
NODES = {
    "a1": {"host": "a1", "rack": "r1", "zone": "a", "region": "north"},
    "a2": {"host": "a2", "rack": "r2", "zone": "a", "region": "north"},
    "b1": {"host": "b1", "rack": "r2", "zone": "b", "region": "north"},
    "c1": {"host": "c1", "zone": "c", "region": "south"},
    "bare": {},
}


def labels(node: str) -> Labels:
    return frozenset(NODES.get(node, {}).items())


def matched(keys: str, client: str, endpoints: str) -> tuple[str, str]:
    key, chosen = first_match(keys.split(), labels(client), endpoints.split(), labels)
    return key, " ".join(chosen)


ALL = "a1 a2 b1 c1"


@pytest.mark.parametrize(
    ("keys", "client", "endpoints", "expected"),
    [
        # one hard constraint
        ("host", "a1", ALL, ("host", "a1")),
        ("zone", "a1", ALL, ("zone", "a1 a2")),
        ("rack", "a2", ALL, ("rack", "a2 b1")),
        ("region", "b1", ALL, ("region", "a1 a2 b1")),
        ("host", "a1", "a2 b1", ("", "")),
        ("zone", "c1", "a1 b1", ("", "")),
        # one "*"
        ("*", "a1", ALL, ("*", ALL)),
        ("*", "bare", "b1", ("*", "b1")),
        # several hard constraints
        ("host zone", "a1", ALL, ("host", "a1")),
        ("host zone", "a1", "a2 b1", ("zone", "a2")),
        ("host zone", "a1", "b1 c1", ("", "")),
        ("zone host", "a1", ALL, ("zone", "a1 a2")),
        ("host rack zone region", "a2", "a1 b1", ("rack", "b1")),
        ("host zone region", "a2", "b1 c1", ("region", "b1")),
        # several constraints and a final "*"
        ("host zone *", "a1", ALL, ("host", "a1")),
        ("host zone *", "a1", "a2 b1", ("zone", "a2")),
        ("host zone *", "a1", "b1 c1", ("*", "b1 c1")),
        # missing labels
        ("rack", "c1", ALL, ("", "")),
        ("rack *", "c1", ALL, ("*", ALL)),
        ("rack zone", "c1", ALL, ("zone", "c1")),
        ("host", "bare", ALL, ("", "")),
        ("host", "bare", "bare", ("", "")),
        ("zone", "a1", "unknown", ("", "")),
        ("zone *", "a1", "unknown", ("*", "unknown")),
        # no match
        ("host *", "a1", "", ("*", "")),
        ("host", "a1", "", ("", "")),
    ],
)
def test_first_key_with_an_endpoint_decides(keys: str, client: str, endpoints: str, expected: tuple[str, str]) -> None:
    assert matched(keys, client, endpoints) == expected


def test_empty_keys_match_no_endpoint() -> None:
    assert first_match((), labels("a1"), ["a1"], labels) == ("", ())


def test_empty_label_value_matches_itself() -> None:
    empty: Labels = frozenset({("rack", "")})
    assert first_match(["rack"], empty, ["x", "y"], lambda name: empty if name == "x" else frozenset()) == (
        "rack",
        ("x",),
    )


nodes = st.sampled_from(sorted(NODES))
key_lists = st.lists(st.sampled_from(["host", "rack", "zone", "region"]), unique=True, min_size=1)


@given(key_lists, nodes, st.lists(nodes))
def test_final_star_matches_only_when_nothing_else_does(keys: list[str], client: str, endpoints: list[str]) -> None:
    hard = first_match(keys, labels(client), endpoints, labels)
    soft = first_match([*keys, ANY], labels(client), endpoints, labels)
    assert soft == (hard if hard[1] else (ANY, tuple(endpoints)))


@given(key_lists, nodes, st.lists(nodes), nodes)
def test_added_endpoint_never_makes_a_later_key_decide(
    keys: list[str], client: str, endpoints: list[str], joining: str
) -> None:
    key, _ = first_match(keys, labels(client), [*endpoints, joining], labels)
    before, _ = first_match(keys, labels(client), endpoints, labels)
    assert not before or keys.index(key) <= keys.index(before)


@given(key_lists, nodes, st.lists(nodes))
def test_matching_endpoints_are_all_with_the_same_label_value(
    keys: list[str], client: str, endpoints: list[str]
) -> None:
    key, chosen = first_match(keys, labels(client), endpoints, labels)
    own = NODES[client].get(key)
    assert list(chosen) == [each for each in endpoints if own is not None and NODES[each].get(key) == own]
