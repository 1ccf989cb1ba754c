"""`metadata.managedFields`: the owners of fields for server-side apply, and their sets of field paths (FieldsV1).

A path is a tuple of FieldsV1 keys: `f:NAME` for a field, `k:{"port":80}` for an item of a keyed list, `v:VALUE` for an
item of a set. A list without a merge rule is a single field.

To save time, owners are tracked only after the first apply to an object. On the first apply, the manager
`before-first-apply` becomes the owner of all existing fields, as in Kubernetes.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import orjson

from reference.apiserver import status
from reference.apiserver.merge_rules import ListRule, ListRules, is_atomic
from reference.client import Object
from reference.objects.timestamps import timestamp

FieldPath = tuple[str, ...]
T = TypeVar("T")

MAX_ELEMENTS = 250_000
"""The maximum number of elements in all paths of an object, which limits the cost of many deeply nested fields."""

_NOT_OWNED = frozenset({"apiVersion", "kind"})
_NOT_OWNED_METADATA = frozenset(
    {
        "name",
        "namespace",
        "generateName",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
    }
)


def flatten(obj: Object, rules: ListRules) -> dict[FieldPath, Any]:
    """Return the fields that a manager can own, with their values. Items of keyed lists have the value None."""
    owned = {key: value for key, value in obj.items() if key not in _NOT_OWNED}
    metadata = obj.get("metadata") or {}
    owned["metadata"] = {key: value for key, value in metadata.items() if key not in _NOT_OWNED_METADATA}
    found = dict(_bounded(_leaves(owned, (), (), rules), lambda leaf: len(leaf[0])))
    found.pop(("f:metadata",), None)
    return found


def encode(paths: Iterable[FieldPath]) -> Object:
    """Return paths as a FieldsV1 tree. A path that is also the prefix of another path is marked with `.`."""
    tree: Object = {}
    for path in sorted(paths):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return _without_lonely_dots(tree)


def decode(tree: Object) -> set[FieldPath]:
    return set(_bounded(_paths(tree, ()), len))


def _bounded(found: Iterable[T], length: Callable[[T], int]) -> Iterator[T]:
    """Raises `ApiError` (413) if the paths have more than MAX_ELEMENTS elements in total."""
    total = 0
    for each in found:
        total += length(each)
        if total > MAX_ELEMENTS:
            raise status.too_large(f"managedFields: more than {MAX_ELEMENTS} path elements")
        yield each


def shown(path: FieldPath) -> str:
    """Format a path for messages: `.spec.ports[port=80,protocol="TCP"].nodePort`."""
    return "".join(_element(each) for each in path)


def item_key(item: Object, rule: ListRule) -> str:
    defaults = dict(rule.defaults)
    return "k:" + orjson.dumps({key: item.get(key, defaults.get(key)) for key in rule.map_keys}).decode()


def value_key(value: Any) -> str:
    return "v:" + orjson.dumps(value).decode()


def _leaves(value: Any, path: FieldPath, names: tuple[str, ...], rules: ListRules) -> Iterator[tuple[FieldPath, Any]]:
    if isinstance(value, dict) and (value or not path) and not is_atomic(rules, names):
        for key, each in value.items():
            yield from _leaves(each, (*path, f"f:{key}"), (*names, key), rules)
    elif isinstance(value, list) and names in rules:
        yield from _items(value, path, names, rules)
    else:
        yield path, value


def _items(
    items: list[Any], path: FieldPath, names: tuple[str, ...], rules: ListRules
) -> Iterator[tuple[FieldPath, Any]]:
    rule = rules[names]
    for item in items:
        if not rule.map_keys:
            yield (*path, value_key(item)), item
        else:
            place = (*path, item_key(item, rule))
            yield place, None
            yield from _leaves(item, place, names, rules)


def _paths(tree: Object, path: FieldPath) -> Iterator[FieldPath]:
    if not tree:
        yield path
    for key, below in tree.items():
        if key == ".":
            yield path
        else:
            yield from _paths(below, (*path, key))


def _without_lonely_dots(tree: Object) -> Object:
    if set(tree) == {"."}:
        return {}
    return {key: _without_lonely_dots(below) if key != "." else {} for key, below in tree.items()}


def _element(element: str) -> str:
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return f".{rest}"
    value = orjson.loads(rest)
    if kind == "v:":
        return f"[={rest}]"
    return "[" + ",".join(f"{key}={orjson.dumps(each).decode()}" for key, each in value.items()) + "]"


@dataclass(frozen=True, slots=True)
class FieldOwner:
    """An entry of managedFields: a manager, its operation ("Apply" or "Update"), the subresource, and its fields."""

    manager: str
    operation: str
    subresource: str
    fields: frozenset[FieldPath]
    api_version: str
    time: str

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.manager, self.operation, self.subresource

    def without(self, fields: Iterable[FieldPath]) -> "FieldOwner":
        return replace(self, fields=self.fields.difference(fields))


def read(entries: Any) -> list[FieldOwner]:
    return [
        FieldOwner(
            each.get("manager") or "",
            each.get("operation") or "",
            each.get("subresource") or "",
            frozenset(decode(each.get("fieldsV1") or {}) - {()}),
            each.get("apiVersion") or "",
            each.get("time") or "",
        )
        for each in entries or ()
    ]


def write(owners: Iterable[FieldOwner]) -> list[Object]:
    """Return the value of managedFields. Owners without fields are left out."""
    return [
        {
            "manager": each.manager,
            "operation": each.operation,
            "apiVersion": each.api_version,
            "time": each.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": encode(each.fields),
            **({"subresource": each.subresource} if each.subresource else {}),
        }
        for each in owners
        if each.fields
    ]


def before_first_apply(live: Object, rules: ListRules) -> FieldOwner:
    return new_owner("before-first-apply", "Update", "", flatten(live, rules), live)


def new_owner(manager: str, operation: str, subresource: str, fields: Iterable[FieldPath], obj: Object) -> FieldOwner:
    return FieldOwner(manager, operation, subresource, frozenset(fields), obj["apiVersion"], timestamp())


def track(new: Object, old: Object, manager: str, rules: ListRules, *, subresource: str = "") -> None:
    """Record `manager` in `new` as the owner of all fields that changed, if owners are tracked for this object."""
    before = old["metadata"].get("managedFields")
    if not before:
        new["metadata"].pop("managedFields", None)
        return
    entries = new["metadata"].get("managedFields", before)
    was, now = flatten(old, rules), flatten(new, rules)
    changed = {path for path, value in now.items() if path not in was or was[path] != value}
    gone = was.keys() - now.keys()
    if changed or gone:
        entries = write(_moved(read(entries), changed, gone=gone, by=(manager, "Update", subresource), obj=new))
    if entries and entries != [{}]:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)


def _moved(
    owners: list[FieldOwner], changed: set[FieldPath], *, gone: set[FieldPath], by: tuple[str, str, str], obj: Object
) -> list[FieldOwner]:
    lost = gone | changed
    kept = [each.without(gone if each.identity == by else lost) for each in owners]
    for index, owner in enumerate(kept):
        if owner.identity == by:
            kept[index] = new_owner(*by, owner.fields | changed, obj)
            return kept
    return [*kept, new_owner(*by, changed, obj)] if changed else kept
