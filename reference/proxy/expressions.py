"""nftables' expressions as netlink attributes, as far as our rules use them.

An expression works on registers: 1 to 4 of 16 bytes, which are also 8 to 23 of 4 bytes. Numbers are nftables' own, from
the kernel's nf_tables.h.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from reference.proxy.netlink import attribute, nested, number, text

FIRST_REGISTER = 8

LIST_ELEMENT = 1
DATA_VALUE = 1
DATA_VERDICT = 2

META_MARK = 3
META_L4PROTO = 16
CT_DIRECTION, CT_STATUS, CT_MARK = 1, 2, 3
CT_DESTINATION = {"IPv4": 20, "IPv6": 22}
CT_STATUS_DNAT = 0x20
NETWORK_HEADER = 1
TRANSPORT_HEADER = 2
NFPROTO = {"IPv4": 2, "IPv6": 10}
PORT_UNREACHABLE = {"IPv4": 3, "IPv6": 4}
FULLY_RANDOM = 0x10


class Verdict(IntEnum):
    """What a rule does with a packet at its end."""

    DROP = 0
    ACCEPT = 1
    GOTO = -4
    RETURN = -5


def expression(name: str, *attributes: bytes) -> bytes:
    """Any expression, as an element of a rule's list."""
    return nested(LIST_ELEMENT, text(1, name), nested(2, *attributes))


def load_payload(base: int, offset: int, length: int, register: int) -> bytes:
    """Bytes of a header into a register."""
    return expression("payload", number(1, register), number(2, base), number(3, offset), number(4, length))


def load_meta(key: int, register: int) -> bytes:
    """What the kernel knows of the packet, such as its mark."""
    return expression("meta", number(2, key), number(1, register))


def set_mark(register: int) -> bytes:
    """The packet's mark from a register."""
    return expression("meta", number(2, META_MARK), number(3, register))


def load_connection_status(register: int) -> bytes:
    """The bits of `ct status`."""
    return load_connection(CT_STATUS, register)


def load_connection(key: int, register: int, *, original: bool = False) -> bytes:
    """What connection tracking knows of the packet; with `original` as its first packet had it."""
    return expression("ct", number(2, key), attribute(3, b"\0") if original else b"", number(1, register))


def set_connection_mark(register: int) -> bytes:
    """The connection's mark from a register."""
    return expression("ct", number(2, CT_MARK), number(4, register))


def hash_of(register: int, length: int, *, below: int, seed: int, first: int, into: int) -> bytes:
    """A hash (jhash) of bytes in registers, at least `first`, one of `below` many."""
    return expression(
        "hash", number(1, register), number(2, into), number(3, length), number(4, below), number(5, seed),
        number(6, first), number(7, 0),
    )  # fmt: skip


def mask(register: int, bits: int, *, flip: int = 0) -> bytes:
    """Keep only `bits`, and of what is left turn those in `flip` over."""
    value, turned = (struct.pack("=I", each & 0xFFFFFFFF) for each in (bits, flip))
    return expression(
        "bitwise", number(1, register), number(2, register), number(3, 4),
        nested(4, attribute(DATA_VALUE, value)), nested(5, attribute(DATA_VALUE, turned)),
    )  # fmt: skip


def compare(register: int, value: bytes, *, equal: bool = True) -> bytes:
    """Go on with the rule only if the register holds (or does not hold) `value`."""
    return expression("cmp", number(1, register), number(2, not equal), nested(3, attribute(DATA_VALUE, value)))


def lookup(name: str, register: int, into: int | None = None, *, inverted: bool = False) -> bytes:
    """Go on only if the set or map has the key in `register`; a map's data goes `into` a register (0: the verdict)."""
    data = b"" if into is None else number(3, into)
    return expression("lookup", text(1, name), number(2, register), data, number(5, 1) if inverted else b"")


def update(name: str, register: int, data: int, seconds: int) -> bytes:
    """Put the key and the data in two registers into a map, for `seconds`; a key that is there keeps its data."""
    return _change_map(name, register, data, 1, attribute(6, struct.pack(">Q", seconds * 1_000)))


def remove(name: str, register: int, data: int) -> bytes:
    """Take the key in a register out of a map. The kernel wants to be given a register with data too (6.18)."""
    return _change_map(name, register, data, 2)


def _change_map(name: str, register: int, data: int, operation: int, *more: bytes) -> bytes:
    fields = (text(1, name), number(3, operation), number(4, register), number(5, data))
    return expression("dynset", *fields, *more)


def draw(below: int, first: int, register: int) -> bytes:
    """A random number, at least `first`, one of `below` many."""
    return expression("numgen", number(1, register), number(2, below), number(3, 1), number(4, first))


def destination_nat(family: str, address: int, port: int) -> bytes:
    """Send the connection to the address and port in two registers."""
    return expression("nat", number(1, 1), number(2, NFPROTO[family]), number(3, address), number(5, port))


def masquerade() -> bytes:
    """Use this node's address as the source, and a random port: two clients at once cannot want the same one."""
    return expression("masq", number(1, FULLY_RANDOM))


def reset_tcp() -> bytes:
    """Refuse with a TCP reset."""
    return expression("reject", number(1, 1), attribute(2, b"\0"))


def port_unreachable(family: str) -> bytes:
    """Refuse with ICMP or ICMPv6 port unreachable."""
    return expression("reject", number(1, 0), attribute(2, bytes([PORT_UNREACHABLE[family]])))


def verdict(code: Verdict, chain: str = "") -> bytes:
    """End the rule with a verdict."""
    return expression("immediate", number(1, 0), nested(2, verdict_data(code, chain)))


def verdict_data(code: Verdict, chain: str = "") -> bytes:
    """A verdict as data, for rules and for elements of verdict maps."""
    return nested(DATA_VERDICT, number(1, code), text(2, chain) if chain else b"")
