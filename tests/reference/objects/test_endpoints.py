"""Parsing of endpoints, especially of endpoints with missing fields."""

from __future__ import annotations

import pytest

from reference.client import Object
from reference.objects.endpoints import any_hints, is_ready, name_of


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ({"conditions": {"ready": True}}, True),
        ({"conditions": {"ready": False}}, False),
        ({"conditions": {"ready": None}}, True),
        ({"conditions": {"serving": False}}, True),
        ({"conditions": None}, True),
        ({}, True),
    ],
)
def test_endpoint_is_ready_unless_it_says_false(conditions: Object, ready: bool) -> None:
    assert is_ready(conditions) is ready


def test_endpoint_is_named_after_its_pod_or_its_address() -> None:
    endpoint = {"addresses": ["10.244.1.1"]}
    assert name_of({**endpoint, "targetRef": {"kind": "Pod", "name": "web-1"}}) == "web-1"
    assert name_of(endpoint) == name_of({**endpoint, "targetRef": None}) == "10.244.1.1"


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [
        ([{}, {"hints": {"forZones": [{"name": "a"}]}}], True),
        ([{"hints": {}}, {"hints": None}, {}], False),
        ([], False),
        (None, False),
    ],
)
def test_slice_has_hints_as_soon_as_one_endpoint_has(endpoints: list[Object] | None, expected: bool) -> None:
    assert any_hints({"endpoints": endpoints}) is expected
