"""Sets of field paths in an object, and their FieldsV1 form, for server-side apply.

A path is a tuple of FieldsV1 keys: `f:NAME` for a field, `k:{"port":80}` for an item of a keyed list, `v:VALUE` for an
item of a set. A list that does not merge is one field.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import orjson

from reference.apiserver import status
from reference.apiserver.merge_rules import ListRule, ListRules, is_atomic
from reference.client import Object

FieldPath = tuple[str, ...]
T = TypeVar("T")

MAX_ELEMENTS = 250_000
"""The maximum length of all paths of an object together. Many fields at a great depth would cost their product."""

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
    """Return paths as a FieldsV1 tree. A path that is a prefix of others is marked with `.`."""
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
    """Yield what is found. Raises `ApiError` (413) if all paths together are too long."""
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
    """Return the path element of a keyed list item."""
    defaults = dict(rule.defaults)
    return "k:" + orjson.dumps({key: item.get(key, defaults.get(key)) for key in rule.map_keys}).decode()


def value_key(value: Any) -> str:
    """Return the path element of a set item."""
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
