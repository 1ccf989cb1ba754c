"""Patch: read, change, and write as an update, all under the store's lock, so that it never meets a conflict.

Only a patch that names a resourceVersion itself can conflict, and it asked for that.
"""

from __future__ import annotations

from typing import Any

from reference.apiserver import status, writes
from reference.apiserver.merge_rules import list_rules
from reference.apiserver.patches import apply_patch
from reference.apiserver.registry import Call, ObjectRef, Registry
from reference.apiserver.store import Stored


def patch(registry: Registry, target: ObjectRef, content_type: str, value: Any, call: Call) -> Stored:
    """Patch an object; `value` must be private to this call. Raises `ApiError`: 400, 404, 409, 415, 422."""
    strategy = registry.strategy(target.resource)
    with registry.store.lock:
        obj = registry.get(target.resource, target.namespace, target.name).copy()
        if target.view is not None:
            obj = target.view.from_stored(obj)
        obj = apply_patch(obj, content_type, value, list_rules(strategy.resource.kind))
        if target.view is not None:
            obj = target.view.to_stored(obj)
        if target.subresource == "status":
            return writes.update_status(registry, target.resource, target.namespace, obj, call, name=target.name)
        if target.subresource:
            raise status.no_such_path()
        return writes.update(registry, target.resource, target.namespace, obj, call, name=target.name)
