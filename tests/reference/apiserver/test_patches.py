from __future__ import annotations

from typing import Any

import pytest

from reference.apiserver import patches
from reference.apiserver.merge_rules import list_rules
from reference.apiserver.patches import apply_patch
from reference.client import ApiError

RULES = list_rules("Service")


def strategic(obj: dict[str, Any], patch: dict[str, Any], kind: str = "Service") -> dict[str, Any]:
    return apply_patch(obj, patches.STRATEGIC, patch, list_rules(kind))


def test_json_patch_changes_one_place() -> None:
    patch = [{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]
    patched = apply_patch({"spec": {"ports": [{"port": 80}]}}, patches.JSON, patch, RULES)
    assert patched == {"spec": {"ports": [{"port": 81}]}}


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "remove", "path": "/b"}], 422),
        ([{"op": "what", "path": "/a"}], 400),
        ({"a": 1}, 400),
    ],
)
def test_json_patch_that_does_not_fit_is_refused(patch: Any, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        apply_patch({"a": 1}, patches.JSON, patch, RULES)
    assert refused.value.code == code


def test_merge_patch_removes_nulls_and_replaces_lists() -> None:
    patched = apply_patch({"a": {"b": 1, "c": 2}, "l": [1, 2]}, patches.MERGE, {"a": {"b": None}, "l": [3]}, RULES)
    assert patched == {"a": {"c": 2}, "l": [3]}


def test_strategic_patch_merges_ports_by_their_number() -> None:
    ports = [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]
    patched = strategic({"spec": {"ports": ports}}, {"spec": {"ports": [{"port": 81, "name": "c"}]}})
    assert patched["spec"]["ports"] == [{"port": 80, "name": "a"}, {"port": 81, "name": "c"}]


def test_strategic_patch_deletes_an_item() -> None:
    ports = [{"port": 80}, {"port": 81}]
    patched = strategic({"spec": {"ports": ports}}, {"spec": {"ports": [{"port": 80, "$patch": "delete"}]}})
    assert patched["spec"]["ports"] == [{"port": 81}]


def test_strategic_patch_replaces_a_whole_list() -> None:
    patch = {"spec": {"ports": [{"port": 9}, {"$patch": "replace"}]}}
    assert strategic({"spec": {"ports": [{"port": 80}]}}, patch)["spec"]["ports"] == [{"port": 9}]


def test_strategic_patch_replaces_an_object() -> None:
    assert strategic({"spec": {"a": 1}}, {"spec": {"b": 2, "$patch": "replace"}}) == {"spec": {"b": 2}}


def test_strategic_patch_orders_a_list() -> None:
    ports = [{"port": 80}, {"port": 81}]
    patch = {"spec": {"$setElementOrder/ports": [{"port": 82}, {"port": 81}, {"port": 80}], "ports": [{"port": 82}]}}
    assert [each["port"] for each in strategic({"spec": {"ports": ports}}, patch)["spec"]["ports"]] == [82, 81, 80]


def test_strategic_patch_takes_values_out_of_a_set() -> None:
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}}
    assert strategic({"metadata": {"finalizers": ["a", "b"]}}, patch)["metadata"]["finalizers"] == ["b", "c"]


def test_strategic_patch_keeps_only_retained_keys() -> None:
    volumes = [{"name": "v", "emptyDir": {}}]
    patch = {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}]}}
    patched = strategic({"spec": {"volumes": volumes}}, patch, kind="Pod")
    assert patched["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/"}}]


def test_strategic_patch_replaces_lists_that_do_not_merge() -> None:
    patched = strategic({"endpoints": [{"zone": "a"}]}, {"endpoints": [{"zone": "b"}]}, kind="EndpointSlice")
    assert patched["endpoints"] == [{"zone": "b"}]


def test_strategic_patch_without_the_merge_key_is_a_bad_request() -> None:
    with pytest.raises(ApiError, match="merge key") as refused:
        strategic({"spec": {"ports": []}}, {"spec": {"ports": [{"name": "a"}]}})
    assert refused.value.code == 400
