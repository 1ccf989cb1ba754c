"""Objects are checked against the shape of their kind, and share equal parts with the stored object."""

from __future__ import annotations

from typing import Any

import pytest

from reference.apiserver import ApiServer
from reference.apiserver.kinds.shapes import (
    ANY,
    BOOLEAN,
    INT_OR_STRING,
    INTEGER,
    OTHERS,
    STRING,
    STRING_MAP,
    Shape,
    conform,
    same,
)
from reference.client import ApiError

SHAPE: Shape = {
    "text": STRING,
    "number": INTEGER,
    "flag": BOOLEAN,
    "either": INT_OR_STRING,
    "labels": STRING_MAP,
    "items": [{"name": STRING}],
    "open": {"text": STRING, OTHERS: ANY},
}


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"text": "a", "number": 1, "flag": True, "either": "a", "labels": {"a": "b"}},
        {"either": 1, "items": [{"name": "a"}, {}], "open": {"text": "a", "more": [1, {}]}},
    ],
)
def test_valid_object_is_unchanged(obj: dict[str, Any]) -> None:
    before = repr(obj)
    assert conform(obj, SHAPE) == []
    assert repr(obj) == before


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), ([{"a": 0}], [{"a": False}])])
def test_values_equal_only_in_python_are_different(one: Any, other: Any) -> None:
    assert not same(one, other)


def test_wrong_type_is_refused_where_the_stored_value_is_equal_for_python() -> None:
    api = ApiServer()
    endpoint = {"addresses": ["10.0.0.1"], "conditions": {"ready": True}}
    slice_ = {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [endpoint]}
    api.create("endpointslices", "default", slice_)
    endpoint["conditions"] = {"ready": 1}
    with pytest.raises(ApiError, match="cannot unmarshal number"):
        api.update("endpointslices", "default", slice_)


def test_older_version_shares_unchanged_parts_and_has_its_own_metadata() -> None:
    api = ApiServer()
    slice_ = {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]}
    old = api.create("endpointslices", "default", slice_)
    new = api.update("endpointslices", "default", {**slice_, "ports": [{"port": 80}]})
    assert new["endpoints"] is old["endpoints"]
    assert new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]
