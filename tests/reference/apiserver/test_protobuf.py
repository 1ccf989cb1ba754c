"""A protobuf object decodes to the same object as its JSON form. The tests build the bytes themselves."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from reference.apiserver.protobuf import UnknownKindError, read_object


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value % (1 << 64))


def data(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def sent(version: str, kind: str, message: bytes) -> bytes:
    return b"k8s\0" + data(1, data(1, version) + data(2, kind)) + data(2, message)


def read(version: str, kind: str, *parts: bytes) -> dict[str, Any]:
    found = read_object(sent(version, kind, b"".join(parts)))
    assert (found.pop("apiVersion"), found.pop("kind")) == (version, kind)
    return found


def test_empty_protobuf_fields_are_omitted_as_in_json() -> None:
    meta = data(1, "web") + data(2, "") + number(7, 0) + data(8, b"") + data(11, data(1, "app") + data(2, "a"))
    assert read("v1", "Namespace", data(1, meta), data(2, b""), data(3, data(1, ""))) == {
        "metadata": {"name": "web", "labels": {"app": "a"}}
    }


def test_explicit_false_is_kept() -> None:
    conditions = number(1, 0) + number(2, 1)
    endpoint = data(1, "10.0.0.1") + data(1, "10.0.0.2") + data(2, conditions)
    assert read("discovery.k8s.io/v1", "EndpointSlice", data(2, endpoint))["endpoints"] == [
        {"addresses": ["10.0.0.1", "10.0.0.2"], "conditions": {"ready": False, "serving": True}}
    ]


def test_ports_are_numbers_or_names() -> None:
    ports = [data(1, number(3, 80) + data(4, number(1, 0) + number(2, 8080))),
             data(1, number(3, 81) + data(4, number(1, 1) + data(3, "http")))]  # fmt: skip
    found = read("v1", "Service", data(2, b"".join(ports)))["spec"]["ports"]
    assert found == [{"port": 80, "targetPort": 8080}, {"port": 81, "targetPort": "http"}]


def test_fields_of_embedded_messages_are_in_their_parent() -> None:
    probe = data(1, data(2, data(1, "/ready") + data(2, number(2, 8080)))) + number(2, 5)
    container = data(1, "c") + data(11, probe)
    spec = data(2, container) + data(1, data(1, "scratch") + data(2, data(2, data(1, "Memory"))))
    assert read("v1", "Pod", data(2, spec))["spec"] == {
        "containers": [
            {"name": "c", "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "initialDelaySeconds": 5}}
        ],
        "volumes": [{"name": "scratch", "emptyDir": {"medium": "Memory"}}],
    }


def test_times_quantities_bytes_and_negative_numbers_are_decoded() -> None:
    lease = number(2, -1) + data(4, number(1, 1700000000) + number(2, 5000))
    assert read("coordination.k8s.io/v1", "Lease", data(2, lease))["spec"] == {
        "leaseDurationSeconds": -1,
        "renewTime": "2023-11-14T22:13:20.000005Z",
    }
    capacity = data(1, data(1, "pods") + data(2, data(1, "2")))
    assert read("v1", "Node", data(3, capacity))["status"] == {"capacity": {"pods": "2"}}
    assert read("v1", "ConfigMap", data(3, data(1, "k") + data(2, b"\x00\xff"))) == {"binaryData": {"k": "AP8="}}


def test_options_of_deletion_are_the_same_in_every_group() -> None:
    assert read("policy/v1", "DeleteOptions", number(1, 7)) == {"gracePeriodSeconds": 7}


@pytest.mark.parametrize(
    "body",
    [b"{}", b"k8s\0\x0a\x05a", sent("v1", "Namespace", b"\x0a"), sent("v1", "Namespace", b"\x0b"),
     sent("v1", "Namespace", number(1, 3)), b"k8s\0" + number(1, 1), sent("v1", "Namespace", b"\x80")],
)  # fmt: skip
def test_malformed_message_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        read_object(body)


@pytest.mark.parametrize("body", [b"k8s\0", sent("v1", "Gateway", b"")])
def test_unknown_kind_is_distinguished(body: bytes) -> None:
    with pytest.raises(UnknownKindError):
        read_object(body)


def test_schema_table_contains_every_referenced_message() -> None:
    table = json.loads(files("reference.apiserver").joinpath("wire.json").read_text())
    named = {entry[1] for fields in table["messages"].values() for entry in fields.values() if "." in entry[1]}
    assert named | set(table["kinds"].values()) <= table["messages"].keys()
