"""Decoder for objects that clients send as protobuf. Go clients such as kubectl have preferred protobuf since 1.32.

A client sends four magic bytes and then a message `Unknown`: field 1 contains the kind, and field 2 contains the
object. `tests/reference/apiserver/wire_table.py` generates `wire.json`, which describes the fields.
"""

import base64
import functools
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import orjson

from reference.client import Object

MAGIC = b"k8s\0"
_MAX_SHIFT, _MASK = 70, (1 << 64) - 1  # a 64-bit number has at most ten bytes; the cost is quadratic in the length
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


class UnknownKindError(ValueError):
    """The object has a kind that `wire.json` does not contain."""


def read_object(data: bytes) -> Object:
    """Decode the body of a request. Raises `ValueError`."""
    if not data.startswith(MAGIC):
        raise ValueError("not a Kubernetes object in protobuf")
    envelope = dict(_parts(data[len(MAGIC) :]))
    meta = {number: _bytes(value).decode() for number, value in _parts(_bytes(envelope.get(1, b"")))}
    version, kind = meta.get(1, ""), meta.get(2, "")
    kinds = _table()["kinds"]
    name = kinds.get(f"{version} {kind}") or kinds.get(f"meta.k8s.io/v1 {kind}")  # every group has DeleteOptions
    if name is None:
        raise UnknownKindError(f"{kind or 'no kind'} in version {version!r}")
    return {"apiVersion": version, "kind": kind, **_message(_bytes(envelope.get(2, b"")), name)}


@functools.cache
def _table() -> Any:
    return orjson.loads(files("reference.apiserver").joinpath("wire.json").read_bytes())


def _message(data: bytes, name: str) -> Object:
    fields = _table()["messages"][name]
    found: Object = {}
    for number, value in _parts(data):
        if str(number) in fields:
            _add(found, value, *fields[str(number)])
    return found


def _add(found: Object, value: int | bytes, name: str, kind: str, how: str) -> None:
    if how == "map":
        parts = dict(_parts(_bytes(value)))
        found.setdefault(name, {})[_bytes(parts.get(1, b"")).decode()] = _value(parts.get(2, b""), kind)
        return
    read = _value(value, kind)
    if how == "list":
        found.setdefault(name, []).append(read)
    elif not name:
        found.update(read)  # its fields are fields of this object
    elif not (how == "omitted" and read in (0, "", None, {})) and read is not None:
        found[name] = read


def _value(value: int | bytes, kind: str) -> Any:
    leaf = _LEAVES.get(kind)
    return leaf(value) if leaf else _message(_bytes(value), kind)


def _int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("expected a number")
    return value - (1 << 64) if value >> 63 else value


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("expected bytes")
    return value


def _time(value: int | bytes, *, micro: bool = False) -> str | None:
    parts = dict(_parts(_bytes(value)))
    if not parts:
        return None
    seconds, nanoseconds = _int(parts.get(1, 0)), _int(parts.get(2, 0))
    try:
        text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, OSError):
        raise ValueError(f"a time is out of range: {seconds}") from None
    return f"{text}.{nanoseconds // 1000:06d}Z" if micro else f"{text}Z"


def _int_or_string(value: int | bytes) -> int | str:
    parts = dict(_parts(_bytes(value)))
    return _bytes(parts.get(3, b"")).decode() if parts.get(1) else _int(parts.get(2, 0))


def _first(value: int | bytes) -> bytes:
    """Return the value of field 1, which is the only field of a quantity and of raw JSON."""
    return _bytes(dict(_parts(_bytes(value))).get(1, b""))


_LEAVES: Mapping[str, Callable[[int | bytes], Any]] = {
    "string": lambda value: _bytes(value).decode(),
    "bool": lambda value: bool(_int(value)),
    "int": _int,
    "bytes": lambda value: base64.b64encode(_bytes(value)).decode(),
    "time": _time,
    "microtime": functools.partial(_time, micro=True),
    "quantity": lambda value: _first(value).decode(),
    "int or string": _int_or_string,
    "json": lambda value: orjson.loads(_first(value) or b"{}"),
}


def _parts(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field of a message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif kind == _BYTES:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise ValueError("a field is truncated")
            yield number, data[at : at + length]
            at += length
        elif kind in {_FIXED_64, _FIXED_32}:  # floating point, which no kind here has
            at += 8 if kind == _FIXED_64 else 4
        else:
            raise ValueError(f"unknown wire type {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < _MAX_SHIFT:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value & _MASK, at
    raise ValueError("a number is truncated, or longer than 64 bits")
