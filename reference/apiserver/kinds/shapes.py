"""Shapes: the fields of objects and their JSON types, as Go's structs are for the released server.

Without this a misspelt field would be stored, and a number where a text belongs would be found out by a crash. The
released server drops what it does not know (and warns, or refuses when asked to be strict), and answers 400 to a wrong
type; an older server drops the fields of newer ones in the same way (`versioned_fields` has the table).
"""

from __future__ import annotations

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
"""As a field name: further fields are there, and are not looked into."""


METADATA: Shape = {
    "name": STRING,
    "generateName": STRING,
    "namespace": STRING,
    "uid": STRING,
    "resourceVersion": STRING,
    "generation": INTEGER,
    "creationTimestamp": TIME,
    "deletionTimestamp": TIME,
    "deletionGracePeriodSeconds": INTEGER,
    "labels": STRING_MAP,
    "annotations": STRING_MAP,
    "finalizers": [STRING],
    "managedFields": [
        {
            "manager": STRING,
            "operation": STRING,
            "apiVersion": STRING,
            "time": TIME,
            "fieldsType": STRING,
            "fieldsV1": FIELDS,
            "subresource": STRING,
        }
    ],
    "selfLink": STRING,
    "ownerReferences": [
        {
            "apiVersion": STRING,
            "kind": STRING,
            "name": STRING,
            "uid": STRING,
            "controller": BOOLEAN,
            "blockOwnerDeletion": BOOLEAN,
        }
    ],
}

OBJECT_REFERENCE: Shape = {
    "apiVersion": STRING,
    "kind": STRING,
    "name": STRING,
    "namespace": STRING,
    "uid": STRING,
    "resourceVersion": STRING,
    "fieldPath": STRING,
}

CONDITION: Shape = {
    "type": STRING,
    "status": STRING,
    "reason": STRING,
    "message": STRING,
    "observedGeneration": INTEGER,
    "lastTransitionTime": TIME,
    "lastHeartbeatTime": TIME,
    "lastProbeTime": TIME,
    OTHERS: ANY,
}

_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "int32": (int,),
    "bool": (bool,),
    "int or string": (int, str),
}


_EXACT: Mapping[str, type] = {"string": str, "int32": int, "bool": bool}


def of_object(**fields: Shape) -> Mapping[str, Shape]:
    """The shape of a whole object with these fields besides the ones that all have."""
    return {"apiVersion": STRING, "kind": STRING, "metadata": METADATA, **fields}


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same in JSON. To Python alone, 1, 1.0 and true are equal."""
    return bool(one == other) and orjson.dumps(one) == orjson.dumps(other)


def fits(shape: Shape) -> Callable[[Any], bool]:
    """A function that tells whether `conform` would find nothing to do; `shape` is that of one version.

    Nearly everything that is written fits. To know only that, a shape made into functions once takes half the
    time of `conform`, which walks it (13 for 28 us, a slice of ten endpoints). No is not final: see `conform`.
    """
    if isinstance(shape, str):
        return _LEAF_FITS[shape]
    if isinstance(shape, list):
        item = fits(shape[0])
        return lambda value: type(value) is list and all(map(item, value))
    return _fields_fit(shape)


def conform(obj: dict[str, Any], shape: Shape) -> list[str]:
    """Take nulls and unknown fields out of `obj`, and return the paths of the unknown ones.

    `shape` is that of one version. Raises `ValueError`, worded like Go's JSON decoder, at the first value of a wrong
    type.
    """
    unknown: list[str] = []
    path: Path = []  # a stack, read only when there is something to say
    try:
        _conform(obj, shape, path, unknown)
    except _WrongTypeError as wrong:
        kind = obj.get("kind", "") if isinstance(obj, dict) else ""
        said = f"json: cannot unmarshal {wrong} into Go struct field {kind}.{_dotted(path)} of type {wrong.wanted}"
        raise ValueError(said) from None
    return unknown


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)  # RFC 3339


@functools.lru_cache(maxsize=1024)  # objects carry the same times from write to write
def is_time(text: str) -> bool:
    """Return whether a text is a time as in RFC 3339, which is there in the calendar."""
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_quantity(value: Any) -> bool:
    return type(value) in {str, int, float}


def _is_tree(value: Any) -> bool:
    return type(value) is dict and all(map(_is_tree, value.values()))


def _fields_fit(shape: Mapping[str, Shape]) -> Callable[[Any], bool]:
    types = {name: _EXACT[field] for name, field in shape.items() if isinstance(field, str) and field in _EXACT}
    further = {name: fits(field) for name, field in shape.items() if name not in types and name != OTHERS}
    others = fits(shape[OTHERS]) if OTHERS in shape else _never

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for name, each in value.items():
            if types.get(name) is type(each):  # nine of ten
                continue
            if each is None or name in types or not further.get(name, others)(each):
                return False
        return True

    return check


def _never(_: Any) -> bool:
    return False


def _is_text(value: Any) -> bool:
    return type(value) is str


def _all_fit(item: Callable[[Any], bool], value: Any) -> bool:
    return type(value) is dict and all(map(item, value.values()))


_MAPS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "map[string]string": ("string", _is_text),
    "map[string]Quantity": ("Quantity", _is_quantity),
}
"""Maps: how an item is called, and whether a value is one."""

_LEAF_FITS: Mapping[str, Callable[[Any], bool]] = {
    "string": _is_text,
    "int32": lambda value: type(value) is int,
    "bool": lambda value: type(value) is bool,
    "int or string": lambda value: type(value) is int or type(value) is str,
    **{leaf: functools.partial(_all_fit, item) for leaf, (_, item) in _MAPS.items()},
    "Time": lambda value: type(value) is str and is_time(value),
    "FieldsV1": _is_tree,
    "any": lambda _: True,
}


class _WrongTypeError(Exception):
    def __init__(self, value: Any, wanted: str) -> None:
        names = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
        super().__init__(names.get(type(value), "null"))
        self.wanted = wanted


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
        if isinstance(field, str) and _EXACT.get(field) is type(each):  # nine of ten
            continue
        path.append(name)
        if field is None:
            unknown.append(_dotted(path))
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
    elif leaf in _PYTHON_TYPES:
        wanted = _PYTHON_TYPES[leaf]
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            raise _WrongTypeError(value, leaf)
    elif not _LEAF_FITS[leaf](value):
        raise _WrongTypeError(value, leaf)


def _dotted(path: Path) -> str:
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).removeprefix(".")
