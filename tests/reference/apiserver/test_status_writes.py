"""Writes of the status subresource can change some fields outside of the status. The fields depend on kind and verb.

The tables follow `PrepareForUpdate` and `GetResetFields` of the status strategies of Kubernetes 1.37 (pkg/registry).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reference.apiserver import ApiServer
from reference.apiserver.apply import apply
from reference.apiserver.kinds import strategies
from reference.apiserver.registry import ObjectRef, Write
from reference.client import ApiError
from tests.reference.api_server_calls import listed, patched
from tests.reference.apiserver.widget_requests import definition

Object = dict[str, Any]

WriteFunction = Callable[[ApiServer, str, Object, Object], Object]

OWNER = {"apiVersion": "v1", "kind": "Node", "name": "a1", "uid": "1"}
METADATA: dict[str, tuple[Any, Any]] = {
    "labels": ({"was": "here"}, {"is": "here"}),
    "annotations": ({"was": "here"}, {"is": "here"}),
    "finalizers": (["example.org/was"], ["example.org/is"]),
    "ownerReferences": ([OWNER], [{**OWNER, "name": "a2", "uid": "2"}]),
}
"""Metadata fields, each with a value for the create and a different value for the status write."""

SPECS: dict[str, tuple[Object, Object]] = {
    "services": ({"ports": [{"port": 80}]}, {"sessionAffinity": "ClientIP"}),
    "pods": ({"containers": [{"name": "c", "image": "i"}]}, {"activeDeadlineSeconds": 7}),
    "nodes": ({}, {"unschedulable": True}),
    "namespaces": ({}, {"finalizers": ["example.org/other"]}),
    "servicecidrs": ({"cidrs": ["10.200.0.0/16"]}, {"cidrs": ["10.201.0.0/16"]}),
    "customresourcedefinitions": (definition()["spec"], {"scope": "Cluster"}),
}
NAMES = {"customresourcedefinitions": definition()["metadata"]["name"]}
KEPT = {"pods": {"ownerReferences"}, "servicecidrs": set(METADATA), "customresourcedefinitions": set(METADATA)}


def by_put(api: ApiServer, plural: str, live: Object, change: Object) -> Object:
    new = {**live, **{name: {**live.get(name, {}), **value} for name, value in change.items()}}
    return api.update_status(plural, live["metadata"].get("namespace", ""), new)


def by_patch(api: ApiServer, plural: str, live: Object, change: Object) -> Object:
    meta = live["metadata"]
    return patched(api, plural, meta.get("namespace", ""), meta["name"], change, subresource="status")


def by_apply(api: ApiServer, plural: str, live: Object, change: Object) -> Object:
    meta = live["metadata"]
    config = {"apiVersion": live["apiVersion"], "kind": live["kind"], **change}
    target = ObjectRef(plural, meta.get("namespace", ""), meta["name"], "status")
    return apply(api.registry, target, config, Write(manager="me"), force=True)[0].object


def create(api: ApiServer, plural: str, **metadata: Any) -> Object:
    strategy = api.registry.strategy(plural)
    obj = {"metadata": {"name": NAMES.get(plural, "web"), **metadata}, "spec": SPECS[plural][0]}
    return api.create(plural, "default" if strategy.resource.namespaced else "", obj)


WAYS = pytest.mark.parametrize("write", [by_put, by_patch, by_apply])
KINDS = pytest.mark.parametrize("plural", sorted(SPECS))


def test_each_kind_with_a_status_has_a_case() -> None:
    assert set(SPECS) == {each.resource.plural for each in strategies() if each.resource.has_status}


@WAYS
@KINDS
@pytest.mark.parametrize("field", sorted(METADATA))
def test_status_write_changes_metadata_as_upstream(
    api: ApiServer, write: WriteFunction, plural: str, field: str
) -> None:
    was, wanted = METADATA[field]
    live = create(api, plural, **{field: was})
    before, found = live["metadata"][field], write(api, plural, live, {"metadata": {field: wanted}})["metadata"][field]
    if field in KEPT.get(plural, ()):
        assert found == before
    else:
        assert found != before
        assert all(each in found for each in wanted)


@WAYS
@KINDS
def test_spec_does_not_change_with_the_status(api: ApiServer, write: WriteFunction, plural: str) -> None:
    live = create(api, plural)
    assert write(api, plural, live, {"spec": SPECS[plural][1]})["spec"] == live["spec"]


@WAYS
@KINDS
@pytest.mark.parametrize("field", ["uid", "creationTimestamp", "generation", "deletionTimestamp"])
def test_status_write_does_not_change_server_fields(
    api: ApiServer, write: WriteFunction, plural: str, field: str
) -> None:
    live = create(api, plural)
    wanted = {"generation": 99, "uid": live["metadata"]["uid"]}.get(field, "2001-02-03T04:05:06Z")
    written = write(api, plural, live, {"metadata": {field: wanted, "labels": {"is": "here"}}})
    assert written["metadata"].get(field) == live["metadata"].get(field)


@WAYS
@KINDS
def test_status_write_validates_metadata(api: ApiServer, write: WriteFunction, plural: str) -> None:
    live = create(api, plural)
    change = {"metadata": {"labels": {"a/b/c": "x"}}}
    if "labels" in KEPT.get(plural, ()):
        assert write(api, plural, live, change)["metadata"].get("labels") == live["metadata"].get("labels")
    else:
        with pytest.raises(ApiError) as refused:
            write(api, plural, live, change)
        assert refused.value.code == 422


@pytest.mark.parametrize("plural", ["services", "pods"])
def test_applying_a_status_owns_its_labels_and_not_the_spec(api: ApiServer, plural: str) -> None:
    live = create(api, plural)
    change = {"metadata": {"labels": {"is": "here"}, "ownerReferences": [OWNER]}, "spec": SPECS[plural][1]}
    entries = by_apply(api, plural, live, change)["metadata"]["managedFields"]
    (mine,) = [each["fieldsV1"] for each in entries if each["manager"] == "me"]
    assert set(mine) == {"f:metadata"}
    owned = {"f:labels"} if plural == "pods" else {"f:labels", "f:ownerReferences"}
    assert set(mine["f:metadata"]) == owned


def test_status_write_can_remove_the_last_finalizer(api: ApiServer) -> None:
    live = create(api, "services", finalizers=["example.org/x"])
    api.delete("services", "default", "web")
    by_patch(api, "services", live, {"metadata": {"finalizers": None}})
    assert listed(api, "services") == []
