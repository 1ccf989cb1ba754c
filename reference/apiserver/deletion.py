"""Deletion: immediate, graceful, or after the last finalizer is removed. Namespaces are deleted with their contents.

A graceful deletion only sets `deletionTimestamp` to the end of the grace period. The component that runs the object
(for a pod, the kubelet) then deletes it again with a grace period of 0.
"""

from dataclasses import dataclass
from typing import Any

from reference.apiserver import status
from reference.apiserver.kinds import Strategy
from reference.apiserver.kinds.custom_resource_definitions import CLEANUP
from reference.apiserver.registry import DEFINITIONS, NAMESPACES, ObjectRef, Registry, Write
from reference.apiserver.selectors import Selection
from reference.apiserver.store import StoredObject
from reference.client import Object
from reference.objects.timestamps import timestamp

PERMANENT = ("default", "kube-system")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a deletion. If `grace` (in seconds) is None, the grace period in the spec applies."""

    grace: int | None = None
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The object after a delete request. If `remains` is false, the object is gone, and `stored` is its last state."""

    stored: StoredObject
    remains: bool


def delete(registry: Registry, target: ObjectRef, options: DeleteOptions, call: Write) -> Deletion:
    """Delete one object. Raises `ApiError`: 403, 404, 409 (a precondition is not met)."""
    strategy = registry.strategy(target.resource)
    with registry.store.lock:
        current = registry.get(target.resource, target.namespace, target.name)
        _check_preconditions(strategy, current.object["metadata"], options)
        if target.resource == NAMESPACES:
            return _delete_namespace(registry, strategy, current, call)
        return _delete(registry, strategy, current, options, call)


def delete_collection(
    registry: Registry, resource: str, selection: Selection, options: DeleteOptions, call: Write
) -> list[StoredObject]:
    strategy = registry.strategy(resource)
    with registry.store.lock:
        chosen = [each for each in registry.store.items(resource) if selection.matches(each.object)]
        return [_delete(registry, strategy, each, options, call).stored for each in chosen]


def remove(registry: Registry, strategy: Strategy, obj: Object) -> StoredObject:
    """Remove an object and free its addresses. Then remove its namespace, if that is terminating and now empty."""
    registry.pools.release(strategy, obj)
    stored = registry.store.remove(strategy.resource.key, obj)
    if namespace := obj["metadata"].get("namespace"):
        _remove_if_empty(registry, namespace)
    if strategy.resource.custom:
        _remove_definition(registry, strategy.resource.key)
    return stored


def _check_preconditions(strategy: Strategy, meta: dict[str, Any], options: DeleteOptions) -> None:
    name = meta["name"]
    if options.uid and options.uid != meta["uid"]:
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
        raise status.conflict(strategy.resource, name, why + "The object might have been deleted and then recreated")
    if options.resource_version and options.resource_version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion "
            f"in record ({meta['resourceVersion']}). The object might have been modified"
        )
        raise status.conflict(strategy.resource, name, why)


def _delete(
    registry: Registry, strategy: Strategy, current: StoredObject, options: DeleteOptions, call: Write
) -> Deletion:
    obj = current.copy()
    meta = obj["metadata"]
    if strategy.resource.key == DEFINITIONS and not meta.get("deletionTimestamp"):
        meta["finalizers"] = [*(meta.get("finalizers") or ()), CLEANUP]
    grace = _grace(strategy, obj, options.grace)
    if grace == 0 and not meta.get("finalizers"):
        if call.dry_run:
            return Deletion(current, remains=False)
        return Deletion(remove(registry, strategy, obj), remains=False)
    _mark(meta, grace)
    if not call.dry_run and meta != current.object["metadata"]:
        current = registry.store.put(strategy.resource.key, obj)
    if not call.dry_run and strategy.resource.key == DEFINITIONS:
        return _delete_objects(registry, current, call)
    return Deletion(current, remains=True)


def _grace(strategy: Strategy, obj: Object, asked: int | None) -> int:
    """Return the grace period in seconds: 0, except for pods that a kubelet may still run."""
    spec, phase = obj.get("spec") or {}, (obj.get("status") or {}).get("phase")
    if not strategy.grace_seconds or not spec.get("nodeName") or phase in {"Failed", "Succeeded"}:
        return 0
    if asked is not None:
        return max(asked, 0)
    own = spec.get("terminationGracePeriodSeconds")
    return strategy.grace_seconds if own is None else int(own)


def _mark(meta: dict[str, Any], grace: int) -> None:
    """Set `deletionTimestamp` and the grace period, which a repeated deletion can only shorten."""
    before = meta.get("deletionGracePeriodSeconds")
    if meta.get("deletionTimestamp") and (before is None or grace >= before):
        return
    meta["deletionTimestamp"] = timestamp(ahead=grace)
    meta["deletionGracePeriodSeconds"] = grace
    if "generation" in meta:
        meta["generation"] += 1


def _delete_namespace(registry: Registry, strategy: Strategy, current: StoredObject, call: Write) -> Deletion:
    name = current.object["metadata"]["name"]
    if name in PERMANENT:
        raise status.forbidden(strategy.resource, name, "this namespace may not be deleted", "Forbidden")
    if call.dry_run:
        return Deletion(current, remains=False)
    if not current.object["metadata"].get("deletionTimestamp"):
        obj = current.copy()
        _mark(obj["metadata"], 0)
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        current = registry.store.put(NAMESPACES, obj)
    for resource, stored in registry.contents(name):
        _delete(registry, registry.strategy(resource), stored, DeleteOptions(grace=0), call)
    _remove_if_empty(registry, name)
    left = registry.store.get(NAMESPACES, ("", name))
    return Deletion(left or current, remains=left is not None)


def _delete_objects(registry: Registry, definition: StoredObject, call: Write) -> Deletion:
    name = definition.object["metadata"]["name"]
    if (strategy := registry.strategies.get(name)) is not None:
        for each in registry.store.items(name):
            _delete(registry, strategy, each, DeleteOptions(grace=0), call)
    _remove_definition(registry, name)
    left = registry.store.get(DEFINITIONS, ("", name))
    return Deletion(left or definition, remains=left is not None)


def _remove_definition(registry: Registry, name: str) -> None:
    """Remove a CustomResourceDefinition that is being deleted, if no objects and no finalizers of clients remain."""
    found = registry.store.get(DEFINITIONS, ("", name))
    if found is None or not found.object["metadata"].get("deletionTimestamp"):
        return
    if registry.strategies.get(name) is not None and registry.store.keys(name):
        return
    obj = found.copy()
    before = obj["metadata"].get("finalizers") or []
    obj["metadata"]["finalizers"] = [each for each in before if each != CLEANUP]
    if not obj["metadata"]["finalizers"]:
        registry.store.remove(DEFINITIONS, obj)
    elif len(obj["metadata"]["finalizers"]) < len(before):
        registry.store.put(DEFINITIONS, obj)


def _remove_if_empty(registry: Registry, name: str) -> None:
    namespace = registry.store.get(NAMESPACES, ("", name))
    if namespace is None or not namespace.object["metadata"].get("deletionTimestamp"):
        return
    if not namespace.object["metadata"].get("finalizers") and registry.is_empty(name):
        registry.store.remove(NAMESPACES, namespace.copy())
