"""Packs and parses netlink messages and their attributes (linux/netlink.h)."""

import struct
from collections.abc import Iterator

HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")


def message(kind: int, flags: int, number: int, body: bytes) -> bytes:
    return HEADER.pack(HEADER.size + len(body), kind, flags, number, 0) + body


def messages(datagram: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    offset = 0
    while offset + HEADER.size <= len(datagram):
        length, kind, flags, number, _ = HEADER.unpack_from(datagram, offset)
        yield kind, flags, number, datagram[offset + HEADER.size : offset + length]
        offset += (max(length, HEADER.size) + 3) & ~3


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        yield kind & 0x3FFF, data[offset + _ATTRIBUTE.size : offset + length]
        offset += (max(length, _ATTRIBUTE.size) + 3) & ~3


def attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)
