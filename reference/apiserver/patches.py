"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386), and the choice between all patch types of Kubernetes."""

from typing import Any

import jsonpatch
import jsonpointer
import orjson

from reference.apiserver import media, status, strategic_merge, writes
from reference.apiserver.kinds import Resource
from reference.apiserver.merge_rules import ListRules
from reference.apiserver.registry import ObjectRef, Registry, Write
from reference.apiserver.store import StoredObject
from reference.client import Object

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

MAX_OPERATIONS = 10_000
"""The maximum number of operations in a JSON patch, as in kube-apiserver."""

MAX_COPIED_BYTES = 3 * 1024 * 1024
"""The maximum number of bytes that the copy operations of a JSON patch may add, as in kube-apiserver."""

MAX_MOVED_ITEMS = 10_000_000
"""The maximum number of list items that a JSON patch may shift by adding or removing earlier items."""

_SHOWN = 1000  # maximum number of characters of an error, which may contain the whole object
PATCH_TYPES = (JSON, MERGE, APPLY, STRATEGIC)


def types_of(resource: Resource) -> tuple[str, ...]:
    """Return the patch types of a kind. Strategic merge patches need Go types, which custom resources do not have."""
    return tuple(each for each in PATCH_TYPES if each != STRATEGIC or not resource.custom)


def patch(registry: Registry, target: ObjectRef, content_type: str, value: Any, call: Write) -> StoredObject:
    """Patch an object with `value`, which callers must not change later. Raises `ApiError`: 400, 404, 409, 415, 422."""
    strategy = registry.strategy(target.resource).rules(target.view)
    with registry.store.lock:
        obj = registry.get(target.resource, target.namespace, target.name).copy()
        if target.view is not None:
            obj = target.view.from_stored(obj)
        obj = apply_patch(obj, content_type, value, strategy.list_rules())
        if target.view is not None:
            obj = target.view.to_stored(obj)
        return writes.update(registry, target, obj, call)


def apply_patch(obj: Object, content_type: str, patch: Any, rules: ListRules) -> Object:
    """Return the patched object. This may change `obj` in place. Raises `ApiError`: 400, 415, 422."""
    if content_type == JSON:
        return _json_patch(obj, patch)
    if not isinstance(patch, dict):
        raise status.bad_request("the patch must be an object")
    if content_type == MERGE:
        merged = merge(obj, patch)
        assert isinstance(merged, dict)
        return merged
    if content_type == STRATEGIC:
        try:
            return strategic_merge.merge(obj, patch, rules)
        except ValueError as error:
            raise status.bad_request(str(error)) from None
    raise status.unsupported_media(content_type, PATCH_TYPES)


def merge(target: Any, patch: Any) -> Any:
    """Merge as in RFC 7386: null removes a field, objects are merged, and all other values replace the target."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def _applied(obj: Object, patch: list[Any]) -> Any:
    copied = moved = 0
    for each in patch:
        if isinstance(each, dict) and each.get("op") == "copy" and isinstance(each.get("from"), str):
            value = orjson.dumps(jsonpointer.resolve_pointer(obj, each["from"]))
            copied += len(value)
            if copied > MAX_COPIED_BYTES:
                raise status.too_large(f"copies may add at most {MAX_COPIED_BYTES} bytes")
            each = {"op": "add", "path": each.get("path"), "value": orjson.loads(value)}  # noqa: PLW2901
        moved += sum(_behind(obj, each, pointer) for pointer in ("path", "from"))
        if moved > MAX_MOVED_ITEMS:
            raise status.too_large(f"operations on list items may shift at most {MAX_MOVED_ITEMS} items")
        obj = jsonpatch.JsonPatch([each]).apply(obj, in_place=True)
    return obj


def _behind(obj: Any, operation: Any, pointer: str) -> int:
    """Return the maximum number of items that an operation can shift: the length of the list, or 0 without a list."""
    path = operation.get(pointer) if isinstance(operation, dict) and operation.get("op") != "test" else None
    if not isinstance(path, str) or not path.startswith("/") or path.endswith("/-"):
        return 0
    around = jsonpointer.resolve_pointer(obj, path.rpartition("/")[0], None)
    return len(around) if isinstance(around, list) else 0


def _json_patch(obj: Object, patch: Any) -> Object:
    if not isinstance(patch, list):
        raise status.bad_request("a JSON patch must be a list of operations")
    if len(patch) > MAX_OPERATIONS:
        raise status.too_large(f"a JSON patch may have at most {MAX_OPERATIONS} operations, not {len(patch)}")
    try:
        patched = media.bounded(_applied(obj, patch))
    except jsonpatch.InvalidJsonPatch as error:
        raise status.bad_request(f"error decoding patch: {error}") from None
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
        raise status.failure(
            422, "Invalid", f"the server rejected our request due to an error in our request: {str(error)[:_SHOWN]}"
        ) from None
    except ValueError as error:
        raise status.bad_request(str(error)) from None
    if not isinstance(patched, dict):
        raise status.bad_request("the result of the patch is not an object")
    return patched
