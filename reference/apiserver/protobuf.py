"""Reads the few objects that clients send as protobuf although they were told that this server takes JSON.

Kubernetes' envelope is four bytes and a message `Unknown`, whose field 2 is the object. Only texts and nested messages
are read, by the numbers that the caller names; everything else is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias, Union

from reference.client import Object

Field: TypeAlias = Union[str, tuple[str], tuple[str, "Fields"]]  # noqa: UP007  a forward reference
Fields: TypeAlias = Mapping[int, Field]
"""By number: the name of a text, of a list of texts (alone in a tuple), or of a message (with its fields)."""

_MAGIC = b"k8s\0"
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


def read_object(data: bytes, fields: Fields) -> Object:
    """An object in Kubernetes' envelope. Raises `ValueError`."""
    if not data.startswith(_MAGIC):
        raise ValueError("this is no object of Kubernetes in protobuf")
    for number, value in _parts(data[len(_MAGIC) :]):
        if number == 2:
            return _message(value, fields)
    raise ValueError("the envelope is empty")


def _message(data: bytes, fields: Fields) -> Object:
    found: Object = {}
    for number, value in _parts(data):
        match fields.get(number):
            case str(name):
                found[name] = value.decode()
            case (str(name),):
                found.setdefault(name, []).append(value.decode())
            case (str(name), inner):
                found[name] = _message(value, inner)
    return found


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Field numbers and values of the length-delimited fields."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _varint(data, at)
        elif kind in {_FIXED_64, _FIXED_32}:
            at += 8 if kind == _FIXED_64 else 4
        elif kind == _BYTES:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise ValueError("a field is cut off")
            yield tag >> 3, data[at : at + length]
            at += length
        else:
            raise ValueError(f"wire type {kind} is not known")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
    raise ValueError("a number is cut off")
