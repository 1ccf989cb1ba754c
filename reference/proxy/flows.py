"""UDP connections in conntrack: their keys and destinations, and whether they await a reply.

The kernel can find UDP connections by their conntrack mark in half a millisecond, without a dump. A mark has two parts.
The tag (31 bits) is a hash of the original and the translated destination, both with their ports, because all node
ports of a node share an address. Filters for addresses would work only for IPv4, because for IPv6 the kernel inverts
the comparison (seen on Linux 6.18). The rules also record each tag in the set `tags`, so that `KernelWriter` can find
out which connections may exist.

The other part is one bit, which each packet of the client sets and each reply clears. If a connection that awaits a
reply were deleted, the reply would not reach the client, so such a connection is kept for a short time.
"""

import socket
import struct
from functools import lru_cache
from typing import NamedTuple

from reference.proxy import uapi
from reference.proxy.decision import Family
from reference.proxy.netlink import attribute, attributes, nested, number
from reference.proxy.ruleset import Endpoint, ServiceAddress, StaleUdp

AWAITED = 0x8000_0000
TAGS = 0x7FFF_FFFF
TAG_SEED = 1

UDP = 17

# The fields of a tuple that a filter can compare.
_FROM_ADDRESS, _TO_ADDRESS = uapi.CTA_FILTER_F_CTA_IP_SRC, uapi.CTA_FILTER_F_CTA_IP_DST
_FROM_PORT, _TO_PORT = uapi.CTA_FILTER_F_CTA_PROTO_SRC_PORT, uapi.CTA_FILTER_F_CTA_PROTO_DST_PORT
_PROTOCOL = uapi.CTA_FILTER_F_CTA_PROTO_NUM

SOCKET_FAMILY: dict[Family, socket.AddressFamily] = {"IPv4": socket.AF_INET, "IPv6": socket.AF_INET6}
_WORD = 0xFFFF_FFFF


class Flow(NamedTuple):
    """One UDP connection. `key` identifies its conntrack entry, and `rest` contains its other attributes.

    `sent` is the client's destination and `answered` the replies' source, each an address and a port in network order.
    """

    sent: bytes
    answered: bytes
    key: bytes
    rest: bytes

    @property
    def mark(self) -> int:
        return next((int.from_bytes(value, "big") for kind, value in attributes(self.rest) if kind == uapi.CTA_MARK), 0)

    @property
    def tag(self) -> int:
        return self.mark & TAGS

    @property
    def awaited(self) -> bool:
        """True if a reply may still arrive."""
        return bool(self.mark & AWAITED)


def end(family: Family, address: str, port: int) -> bytes:
    return socket.inet_pton(SOCKET_FAMILY[family], address) + port.to_bytes(2, "big")


@lru_cache(maxsize=1 << 14)  # each stale pair is looked up twice
def tag(family: Family, service: ServiceAddress, endpoint: Endpoint) -> int:
    """Return the tag that the rules put into the mark of a connection to `service` that goes to `endpoint`."""
    sent, goes = (socket.inet_pton(SOCKET_FAMILY[family], each) for each in (service.address, endpoint[0]))
    ports = b"".join(each.to_bytes(2, "big") + bytes(2) for each in (endpoint[1], service.port))
    hashed = _jhash(sent + goes + ports, TAG_SEED)
    return hashed * TAGS >> 32


def matching(family: Family, stale: StaleUdp, *, awaited: bool) -> bytes:
    """Return a filter for translated `stale` connections. Without `awaited`, skip connections that await a reply."""
    mask = TAGS if awaited else TAGS | AWAITED
    return (
        nested(uapi.CTA_TUPLE_ORIG, _udp(uapi.CTA_PROTO_DST_PORT, stale.service.port))
        + nested(uapi.CTA_TUPLE_REPLY, _udp(uapi.CTA_PROTO_SRC_PORT, stale.endpoint[1]))
        + number(uapi.CTA_MARK, tag(family, stale.service, stale.endpoint))
        + number(uapi.CTA_MARK_MASK, mask)
        + _compared(_PROTOCOL | _TO_PORT, _PROTOCOL | _FROM_PORT)
    )


def untranslated(service: ServiceAddress) -> bytes:
    """Return a filter for IPv4 connections to a service address that were never translated."""
    address, _, port = service
    packed = socket.inet_pton(socket.AF_INET, address)
    sent = nested(uapi.CTA_TUPLE_IP, attribute(uapi.CTA_IP_V4_DST, packed))
    answered = nested(uapi.CTA_TUPLE_IP, attribute(uapi.CTA_IP_V4_SRC, packed))
    return (
        nested(uapi.CTA_TUPLE_ORIG, sent, _udp(uapi.CTA_PROTO_DST_PORT, port))
        + nested(uapi.CTA_TUPLE_REPLY, answered, _udp(uapi.CTA_PROTO_SRC_PORT, port))
        + _compared(_TO_ADDRESS | _PROTOCOL | _TO_PORT, _FROM_ADDRESS | _PROTOCOL | _FROM_PORT)
    )


def _udp(side: int, port: int) -> bytes:
    number_of_port = attribute(side, struct.pack(">H", port))
    return nested(uapi.CTA_TUPLE_PROTO, attribute(uapi.CTA_PROTO_NUM, bytes([UDP])), number_of_port)


def _compared(original: int, reply: int | None = None) -> bytes:
    """Return the part of a filter that lists the fields to compare in the original tuple and the reply tuple."""
    flags = [attribute(uapi.CTA_FILTER_ORIG_FLAGS, struct.pack("=I", original))]
    if reply is not None:
        flags.append(attribute(uapi.CTA_FILTER_REPLY_FLAGS, struct.pack("=I", reply)))
    return nested(uapi.CTA_FILTER, *flags)


_IS_UDP = nested(uapi.CTA_TUPLE_PROTO, attribute(uapi.CTA_PROTO_NUM, bytes([UDP])))
ONLY_UDP = nested(uapi.CTA_TUPLE_ORIG, _IS_UDP) + _compared(_PROTOCOL)


class _TupleLayout(NamedTuple):
    """The layout of a conntrack tuple without a zone: field positions, length, and the headers of both tuples."""

    source: slice
    destination: slice
    protocol: int
    source_port: slice
    destination_port: slice
    length: int
    heads: tuple[bytes, bytes]


def _layout(address: int) -> _TupleLayout:
    to, proto = 16 + address, 20 + 2 * address
    length = proto + 24
    original, reply = (
        struct.pack("=HH", length, kind | uapi.NLA_F_NESTED) for kind in (uapi.CTA_TUPLE_ORIG, uapi.CTA_TUPLE_REPLY)
    )
    return _TupleLayout(
        slice(12, 12 + address), slice(to, to + address), proto + 4, slice(proto + 12, proto + 14),
        slice(proto + 20, proto + 22), length, (original, reply),
    )  # fmt: skip


_LAYOUTS: dict[Family, _TupleLayout] = {"IPv4": _layout(4), "IPv6": _layout(16)}


def read_flow(family: Family, body: bytes) -> Flow | None:
    """Read one conntrack entry of a dump. Return None if it is not UDP. Only unusual layouts are parsed fully."""
    layout = _LAYOUTS[family]
    first, second = 4 + layout.length, 4 + 2 * layout.length
    sent, answered = body[4:first], body[first:second]
    if sent[:4] != layout.heads[0] or answered[:4] != layout.heads[1]:
        return _parsed(body)
    if sent[layout.protocol] != UDP:
        return None
    return Flow(
        sent[layout.destination] + sent[layout.destination_port],
        answered[layout.source] + answered[layout.source_port],
        sent[4:],
        body[second:],
    )


def _parsed(body: bytes) -> Flow | None:
    parts = dict(attributes(body[4:]))
    sent, answered = _ends(parts[uapi.CTA_TUPLE_ORIG]), _ends(parts[uapi.CTA_TUPLE_REPLY])
    if sent is None or answered is None:
        return None
    return Flow(sent[1], answered[0], bytes(parts[uapi.CTA_TUPLE_ORIG]), body[4:])


def _ends(view: memoryview) -> tuple[bytes, bytes] | None:
    """Return the source and the destination of a tuple, or None if it is not UDP."""
    parts = dict(attributes(view))
    addresses, ports = (dict(attributes(parts[each])) for each in (uapi.CTA_TUPLE_IP, uapi.CTA_TUPLE_PROTO))
    if ports[uapi.CTA_PROTO_NUM][0] != UDP:
        return None
    source = addresses.get(uapi.CTA_IP_V4_SRC) or addresses[uapi.CTA_IP_V6_SRC]
    destination = addresses.get(uapi.CTA_IP_V4_DST) or addresses[uapi.CTA_IP_V6_DST]
    return (
        bytes(source) + bytes(ports[uapi.CTA_PROTO_SRC_PORT]),
        bytes(destination) + bytes(ports[uapi.CTA_PROTO_DST_PORT]),
    )


def _jhash(data: bytes, seed: int) -> int:
    """Return the kernel's jhash (Bob Jenkins' lookup3) of data whose length is a multiple of 4 bytes, at least 4."""
    words = struct.unpack(f"={len(data) // 4}I", data)
    a = b = c = (0xDEADBEEF + len(data) + seed) & _WORD
    while len(words) > 3:
        a, b, c = _mix((a + words[0]) & _WORD, (b + words[1]) & _WORD, (c + words[2]) & _WORD)
        words = words[3:]
    words = (*words, 0, 0)
    return _final((a + words[0]) & _WORD, (b + words[1]) & _WORD, (c + words[2]) & _WORD)


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for bits in (4, 6, 8, 16, 19, 4):
        a = (a - c & _WORD) ^ _rotate(c, bits)
        c = c + b & _WORD
        a, b, c = b, c, a
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - _rotate(b, bits)) & _WORD
        a, b, c = b, c, a
    return b


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD
