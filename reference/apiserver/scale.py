"""The scale subresource of custom resources: an `autoscaling/v1` Scale with replica counts from the object."""

from dataclasses import replace
from typing import Any

from reference.apiserver import patches, status, writes
from reference.apiserver.kinds import Scale, errors, json_paths
from reference.apiserver.registry import ObjectRef, Registry, Write
from reference.apiserver.store import StoredObject
from reference.client import Object

PATCH_TYPES = (patches.JSON, patches.MERGE)
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_INT32 = 1 << 31


def read(stored: StoredObject, scale: Scale) -> Object:
    obj = stored.object
    found: Object = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: obj["metadata"][name] for name in _SHOWN if obj["metadata"].get(name)},
        "spec": {"replicas": _number(obj, scale.replicas)},
        "status": {"replicas": _number(obj, scale.status_replicas)},
    }
    if scale.selector and isinstance(selector := json_paths.at(obj, scale.selector), str):
        found["status"]["selector"] = selector
    return found


def write(
    registry: Registry, target: ObjectRef, scale: Scale, value: Any, call: Write, *, patch_type: str = ""
) -> Object:
    """Replace or patch the Scale of an object. Return the new Scale. Raises `ApiError`: 400, 404, 409, 415, 422."""
    if patch_type and patch_type not in PATCH_TYPES:
        raise status.unsupported_media(patch_type, PATCH_TYPES)
    with registry.store.lock:
        current = registry.get(target.resource, target.namespace, target.name)
        if patch_type:
            value = patches.apply_patch(read(current, scale), patch_type, value, {})
        metadata, spec = (value.get(name) or {} if isinstance(value, dict) else None for name in ("metadata", "spec"))
        if not isinstance(metadata, dict) or not isinstance(spec, dict):
            raise status.bad_request("the object provided is not a Scale")
        if (metadata.get("name") or target.name) != target.name:
            raise status.bad_request("the name of the object does not match the name on the URL")
        replicas, where = spec.get("replicas", 0), f".{'.'.join(scale.replicas)}"
        resource = registry.strategy(target.resource).resource
        if type(replicas) is not int or not 0 <= replicas < _INT32:
            wrong = errors.invalid(where, replicas, "should be a non-negative integer")
            raise status.invalid(resource, target.name, [wrong])
        obj = current.copy()
        obj["metadata"]["resourceVersion"] = metadata.get("resourceVersion") or ""
        *parents, last = scale.replicas
        node = obj
        for name in parents:
            node = node.setdefault(name, {})
            if not isinstance(node, dict):
                raise status.invalid(resource, target.name, [errors.invalid(where, node, f"{name} is not an object")])
        node[last] = replicas
        stored = writes.update(registry, replace(target, subresource=""), obj, call)
    return read(stored, scale)


def _number(obj: Object, path: tuple[str, ...]) -> int:
    found = json_paths.at(obj, path)
    return found if type(found) is int else 0
