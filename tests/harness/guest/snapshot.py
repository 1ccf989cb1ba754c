"""Reads all objects of a cluster, so that a test can compare them before and after a run.

Fields that the cluster changes are left out: object versions, heartbeats, Events, and the list of images on a node,
which the API cannot change back.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from harness.api.client import Api, Object, RefusedError

_PAGE = 500
_PASSING = {"events", "componentstatuses"}
_PASSING_GROUPS = {"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"}
_OF_METADATA = ("resourceVersion", "managedFields", "selfLink")
_OF_NODE_STATUS = ("images", "volumesInUse", "volumesAttached", "nodeInfo")
_HEARTBEATS = ("lastHeartbeatTime",)

Snapshot = Mapping[str, Object]


def snapshot(api: Api) -> Snapshot:
    """Return all objects of all listable resources. The keys are "resource.group namespace/name".

    A resource that this user may not list has an entry with this fact. Raises `RefusedError` if discovery is forbidden.
    """
    return {key: value for each in _resources(api) for key, value in _objects(api, *each)}


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """Return a line for each added, missing or changed object. The list is empty if both snapshots are equal."""
    lines = [f"new: {key}" for key in sorted(after.keys() - before.keys())]
    lines += [f"gone: {key}" for key in sorted(before.keys() - after.keys())]
    for key in sorted(before.keys() & after.keys()):
        lines += [f"changed: {key}: {where}" for where in _changes(before[key], after[key], "")]
    return lines


def comparable(resource: str, obj: Object) -> Object:
    """Return an object without fields that the cluster changes."""
    kept = copy.deepcopy(obj)
    metadata = kept.get("metadata") or {}
    for field in [*_OF_METADATA, *(each for each in ("labels", "annotations") if not metadata.get(each))]:
        metadata.pop(field, None)
    if resource == "leases":  # the holder renews a Lease continuously
        kept.pop("spec", None)
        metadata.pop("annotations", None)
    if resource == "nodes":
        status = kept.get("status") or {}
        for field in _OF_NODE_STATUS:
            status.pop(field, None)
        for condition in status.get("conditions") or ():
            for field in _HEARTBEATS:
                condition.pop(field, None)
    return kept


def _resources(api: Api) -> Iterator[tuple[str, str, str]]:
    """Yield, for each listable resource, the path of its group version, its group, and its plural name."""
    versions = [("/api/v1", "")]
    for group in _read(api, "/apis").get("groups") or ():
        if group["name"] not in _PASSING_GROUPS:
            preferred = group.get("preferredVersion") or group["versions"][0]
            versions.append((f"/apis/{preferred['groupVersion']}", group["name"]))
    for path, group in versions:
        for resource in _read(api, path).get("resources") or ():
            name = str(resource["name"])
            if "/" not in name and "list" in resource.get("verbs", ()) and name not in _PASSING:
                yield path, group, name


def _objects(api: Api, path: str, group: str, resource: str) -> Iterator[tuple[str, Object]]:
    named = f"{resource}.{group}" if group else resource
    query = {"limit": str(_PAGE)}
    while True:
        answer = api.request("GET", f"{path}/{resource}", query=query)
        if answer.code >= 400:
            yield f"{named} (not listed: {answer.code})", {}
            return
        for obj in answer.body.get("items") or ():
            metadata = obj["metadata"]
            place = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
            yield f"{named} {place}", comparable(resource, obj)
        following = (answer.body.get("metadata") or {}).get("continue")
        if not following:
            return
        query = {**query, "continue": following}


def _read(api: Api, path: str) -> Object:
    answer = api.request("GET", path)
    if answer.code in {404, 503}:  # a group whose server is unavailable
        return {}
    if answer.code >= 400:
        raise RefusedError("GET", path, answer)
    return answer.body


def _changes(before: Any, after: Any, where: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _changes(before.get(key), after.get(key), f"{where}.{key}" if where else key)
    elif before != after:
        yield f"{where} was {before!r}, is {after!r}"
