"""Shapes: the fields of objects and their JSON types, like the Go structs of kube-apiserver."""

import functools
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

import orjson

Leaf = Literal[
    "string", "int32", "bool", "int or string", "map[string]string", "map[string]Quantity", "Time", "FieldsV1", "any"
]
Shape: TypeAlias = "Leaf | list[Shape] | Mapping[str, Shape]"
Path: TypeAlias = list[str | int]

STRING: Leaf = "string"
INTEGER: Leaf = "int32"
BOOLEAN: Leaf = "bool"
INT_OR_STRING: Leaf = "int or string"
STRING_MAP: Leaf = "map[string]string"
QUANTITIES: Leaf = "map[string]Quantity"
TIME: Leaf = "Time"
FIELDS: Leaf = "FieldsV1"
ANY: Leaf = "any"
OTHERS = "*"
"""A shape with this field name allows additional fields. If its value is ANY, their types are not checked."""


def fields(shape: Shape, *names: str) -> Mapping[str, Shape]:
    return dict.fromkeys(names, shape)


METADATA: Shape = {
    **fields(STRING, "name", "generateName", "namespace", "uid", "resourceVersion", "selfLink"),
    **fields(TIME, "creationTimestamp", "deletionTimestamp"),
    **fields(INTEGER, "generation", "deletionGracePeriodSeconds"),
    **fields(STRING_MAP, "labels", "annotations"),
    "finalizers": [STRING],
    "managedFields": [
        {
            **fields(STRING, "manager", "operation", "apiVersion", "fieldsType", "subresource"),
            "time": TIME,
            "fieldsV1": FIELDS,
        }
    ],
    "ownerReferences": [
        {
            **fields(STRING, "apiVersion", "kind", "name", "uid"),
            **fields(BOOLEAN, "controller", "blockOwnerDeletion"),
        }
    ],
}

OBJECT_REFERENCE: Shape = fields(
    STRING, "apiVersion", "kind", "name", "namespace", "uid", "resourceVersion", "fieldPath"
)

CONDITION: Shape = {
    **fields(STRING, "type", "status", "reason", "message"),
    "observedGeneration": INTEGER,
    **fields(TIME, "lastTransitionTime", "lastHeartbeatTime", "lastProbeTime"),
    OTHERS: ANY,
}

_NESTED = (dict, list)
ITEM_WEIGHT = 4
MAX_WEIGHT = 200_000
"""At most 50,000 objects, or 200,000 strings, in lists. The largest valid EndpointSlice has a weight of 170,000."""

_EXACT: Mapping[str, type] = {"string": str, "int32": int, "bool": bool}


def of_object(**fields: Shape) -> Mapping[str, Shape]:
    return {"apiVersion": STRING, "kind": STRING, "metadata": METADATA, **fields}


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON. In Python, 1, 1.0 and True are equal."""
    return bool(one == other) and orjson.dumps(one) == orjson.dumps(other)


def conform(obj: dict[str, Any], shape: Shape) -> list[str]:
    """Remove nulls and unknown fields, and return the unknown fields' paths. Raises `ValueError` with Go's message."""
    unknown: list[str] = []
    path: Path = []  # the path of the current value, for messages
    try:
        if _weight(obj, shape) > MAX_WEIGHT:
            raise ValueError(f"the object has too many items in lists and maps: more than {MAX_WEIGHT // ITEM_WEIGHT}")
        _conform(obj, shape, path, unknown)
    except _WrongTypeError as wrong:
        kind = obj.get("kind", "") if isinstance(obj, dict) else ""
        said = f"json: cannot unmarshal {wrong} into Go struct field {kind}.{dotted(path)} of type {wrong.wanted}"
        raise ValueError(said) from None
    return unknown


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)  # RFC 3339


def is_time(text: str) -> bool:
    """Return whether a string is a valid RFC 3339 time."""
    return len(text) < 64 and _is_time(text)


@functools.lru_cache(maxsize=1024)  # most times in an object do not change between writes
def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_tree(value: Any) -> bool:
    return type(value) is dict and all(map(_is_tree, value.values()))


def _is_of(type_: type, value: Any) -> bool:
    """Return whether a value has this type. Unlike in `isinstance`, a boolean is not an int."""
    return isinstance(value, type_) and (type_ is bool or not isinstance(value, bool))


_MAPS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "map[string]string": ("string", lambda value: type(value) is str),
    "map[string]Quantity": ("Quantity", lambda value: type(value) in {str, int, float}),
}
"""For each map shape, the type name of its items and a test for an item."""

_TESTS: Mapping[str, Callable[[Any], bool]] = {
    **{name: functools.partial(_is_of, type_) for name, type_ in _EXACT.items()},
    "int or string": lambda value: _is_of(int, value) or isinstance(value, str),
    "Time": lambda value: type(value) is str and is_time(value),
    "FieldsV1": _is_tree,
    "any": lambda _: True,
}


class _WrongTypeError(Exception):
    def __init__(self, value: Any, wanted: str) -> None:
        names = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
        super().__init__(names.get(type(value), "null"))
        self.wanted = wanted


def _weight(value: Any, shape: Shape) -> int:
    """Return the total weight of the items in the lists and maps of a value, each of which takes time to validate."""
    if isinstance(shape, list):
        items = value if isinstance(value, list) else ()
        if isinstance(shape[0], str):
            return len(items)
        return len(items) * ITEM_WEIGHT + sum(_weight(each, shape[0]) for each in items[:MAX_WEIGHT])
    if isinstance(shape, str):
        return 2 * len(value) if shape in _MAPS and isinstance(value, dict) else 0
    if not isinstance(value, dict):
        return 0
    return sum(_weight(each, shape[name]) for name, each in value.items() if name in shape and type(each) in _NESTED)


def _conform(value: Any, shape: Shape, path: Path, unknown: list[str]) -> None:
    if isinstance(shape, str):
        _check_leaf(value, shape, path)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise _WrongTypeError(value, "slice")
        for index, each in enumerate(value):
            path.append(index)
            _conform(each, shape[0], path, unknown)
            path.pop()
    elif not isinstance(value, dict):
        raise _WrongTypeError(value, "object")
    else:
        _conform_fields(value, shape, path, unknown)


def _conform_fields(value: dict[str, Any], shape: Mapping[str, Shape], path: Path, unknown: list[str]) -> None:
    for name, each in list(value.items()):
        field = shape.get(name) or shape.get(OTHERS)
        if isinstance(field, str) and _EXACT.get(field) is type(each):  # a shortcut for nine out of ten values
            continue
        path.append(name)
        if field is None:
            unknown.append(dotted(path))
            del value[name]
        elif each is None:
            del value[name]
        else:
            _conform(each, field, path, unknown)
        path.pop()


def _check_leaf(value: Any, leaf: str, path: Path) -> None:
    if leaf in _MAPS:
        if not isinstance(value, dict):
            raise _WrongTypeError(value, leaf)
        wanted_item, item_fits = _MAPS[leaf]
        for key, each in value.items():
            if not item_fits(each):
                path.append(key)
                raise _WrongTypeError(each, wanted_item)
    elif not _TESTS[leaf](value):
        raise _WrongTypeError(value, leaf)


def dotted(path: Path) -> str:
    """Return a path for messages: `spec.ports[0].name`."""
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).removeprefix(".")
