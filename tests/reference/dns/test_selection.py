"""The endpoints that the DNS answer for a client contains. Source: KEP-536, Service API changes and Test Plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.dns import records
from reference.objects.topology_keys import Labels


@dataclass(frozen=True)
class ClientLocation:
    name: str
    labels: Labels = field(compare=False)


def place(name: str) -> ClientLocation:
    """Parse text such as `a1r2`: node a1, zone a, rack r2."""
    labels = {"host": name[:2], "zone": name[0], **({"rack": name[2:]} if name[2:] else {})}
    return ClientLocation(name, frozenset(labels.items()))


def select(keys: Sequence[str], client: Labels | None, places: Sequence[ClientLocation]) -> Sequence[ClientLocation]:
    service = records.Service(True, tuple(keys), endpoints={"IPv4": places})  # type: ignore[dict-item]
    return records.select(service, "IPv4", client)  # type: ignore[return-value]


CLIENT = place("a1r1").labels
ROWS = {
    "no keys": ((), "b1 a1 c1", "b1 a1 c1"),
    "one hard key that is met": (("zone",), "b1 a2 a1", "a2 a1"),
    "one hard key that is not": (("zone",), "b1 c1", ""),
    "one hard key and no endpoints": (("zone",), "", ""),
    "everywhere": (("*",), "b1 a1", "b1 a1"),
    "several hard keys, the first is met": (("host", "zone"), "a1 a2 b1", "a1"),
    "several hard keys, the last is met": (("host", "zone"), "a2 b1", "a2"),
    "several hard keys, none is met": (("host", "zone"), "b1 c1", ""),
    "a key and everywhere, the key is met": (("zone", "*"), "a2 b1", "a2"),
    "a key and everywhere, the key is not": (("zone", "*"), "c1 b1", "c1 b1"),
    "several keys and everywhere": (("host", "zone", "*"), "b1 a2", "a2"),
    "a key of the user's own": (("rack", "*"), "b1r1 a1r2", "b1r1"),
    "a key that no endpoint has": (("rack", "zone"), "b1 a2", "a2"),
    "a key that nobody has": (("row", "zone"), "b1 a2", "a2"),
}


@pytest.mark.parametrize(("keys", "there", "chosen"), ROWS.values(), ids=ROWS)
def test_first_key_with_a_matching_endpoint_decides(keys: tuple[str, ...], there: str, chosen: str) -> None:
    endpoints = [place(each) for each in there.split()]
    assert [each.name for each in select(keys, CLIENT, endpoints)] == chosen.split()


def test_missing_labels_do_not_match_each_other() -> None:
    assert list(select(["rack"], place("a1").labels, [place("a2"), place("b1")])) == []


def test_unknown_client_gets_all_endpoints() -> None:
    endpoints = [place("a1"), ClientLocation("somewhere", frozenset())]
    assert list(select(["zone"], None, endpoints)) == endpoints


NAMES = st.lists(st.sampled_from(["a1", "a1r1", "a2", "a2r1", "b1", "b1r1", "b2", "c1r2"]), unique=True)
KEYS = st.lists(st.sampled_from(["host", "rack", "zone", "none"]), unique=True)


@given(NAMES, KEYS)
def test_additional_keys_never_empty_an_answer(names: list[str], keys: list[str]) -> None:
    endpoints = [place(each) for each in names]
    answers = [list(select(keys[:count], CLIENT, endpoints)) for count in range(1, len(keys) + 1)]
    assert all(longer == shorter or not shorter for shorter, longer in pairwise(answers))
    assert list(select([*keys, "*"], CLIENT, endpoints)) == (answers[-1] if keys and answers[-1] else endpoints)
