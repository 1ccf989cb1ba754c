"""An OpenAPI 2 document as protobuf. kubectl reads OpenAPI 2 only in this form.

The messages are defined in gnostic's OpenAPIv2.proto. Only the fields that our documents use are implemented.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from reference.client import Object

_LENGTH_DELIMITED = 2
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def encode(document: Object) -> bytes:
    info = document["info"]
    return b"".join(
        (
            _text(1, document["swagger"]),
            _bytes(2, _text(1, info["title"]) + _text(2, info["version"])),
            _bytes(8, b"".join(_named(2, path, _path_item(item)) for path, item in document["paths"].items())),
            _bytes(9, b"".join(_named(1, name, _schema(each)) for name, each in document["definitions"].items())),
        )
    )


def _path_item(item: Object) -> bytes:
    return b"".join(_bytes(_METHODS[method], _operation(operation)) for method, operation in item.items())


def _operation(operation: Object) -> bytes:
    responses = (
        _named(1, code, _bytes(1, _text(1, response["description"])))
        for code, response in operation["responses"].items()
    )
    return b"".join(
        (
            _text(3, operation["description"]),
            _text(5, operation["operationId"]),
            *(_text(6, each) for each in operation["produces"]),
            *(_text(7, each) for each in operation["consumes"]),
            *(_bytes(8, _bytes(1, _parameter(each))) for each in operation["parameters"]),
            _bytes(9, b"".join(responses)),
            _extensions(13, operation),
        )
    )


def _parameter(parameter: Object) -> bytes:
    """Encode the message `Parameter`: a body parameter if it has a schema, else a `NonBodyParameter`."""
    required = _varint(1 << 3) + _varint(1) if parameter.get("required") else b""
    place, name = parameter["in"], parameter["name"]
    if place == "body":
        required = _varint(4 << 3) + _varint(1) if required else b""
        return _bytes(1, _text(2, name) + _text(3, place) + required + _bytes(5, _schema(parameter["schema"])))
    described = required + _text(2, place) + _text(4, name)
    if place == "path":
        return _bytes(2, _bytes(4, described + _text(5, parameter["type"])))
    return _bytes(2, _bytes(3, described + _text(6, parameter["type"])))


def _schema(schema: Object) -> bytes:
    parts = [
        _text(1, schema.get("$ref", "")),
        _text(2, schema.get("format", "")),
        _text(4, schema.get("description", "")),
    ]
    if "additionalProperties" in schema:
        parts.append(_bytes(21, _bytes(1, _schema(schema["additionalProperties"]))))
    if "type" in schema:
        parts.append(_bytes(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_bytes(23, _bytes(1, _schema(schema["items"]))))
    if "properties" in schema:
        parts.append(
            _bytes(25, b"".join(_named(1, name, _schema(each)) for name, each in schema["properties"].items()))
        )
    parts.append(_extensions(31, schema))
    return b"".join(parts)


def _extensions(field: int, source: Mapping[str, Any]) -> bytes:
    """Encode the fields whose names begin with `x-`. gnostic encodes their values as YAML."""
    return b"".join(
        _named(field, name, _text(2, yaml.safe_dump(value))) for name, value in source.items() if name.startswith("x-")
    )


def _named(field: int, name: str, value: bytes) -> bytes:
    return _bytes(field, _text(1, name) + _bytes(2, value))


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode()) if value else b""


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _LENGTH_DELIMITED) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
