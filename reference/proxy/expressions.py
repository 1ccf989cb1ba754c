"""nftables expressions as netlink attributes. Registers 8 to 23 are the memory of registers 1 to 4 in 4-byte units."""

import struct
from enum import IntEnum

from reference.proxy import uapi
from reference.proxy.netlink import attribute, nested, number, text

FIRST_REGISTER = uapi.NFT_REG32_00
NFPROTO = {"IPv4": uapi.NFPROTO_IPV4, "IPv6": uapi.NFPROTO_IPV6}


class Verdict(IntEnum):
    DROP = uapi.NF_DROP
    ACCEPT = uapi.NF_ACCEPT
    GOTO = uapi.NFT_GOTO
    RETURN = uapi.NFT_RETURN


def expression(name: str, *attributes: bytes) -> bytes:
    return nested(uapi.NFTA_LIST_ELEM, text(uapi.NFTA_EXPR_NAME, name), nested(uapi.NFTA_EXPR_DATA, *attributes))


def load_payload(base: int, offset: int, length: int, register: int) -> bytes:
    return expression(
        "payload",
        number(uapi.NFTA_PAYLOAD_DREG, register),
        number(uapi.NFTA_PAYLOAD_BASE, base),
        number(uapi.NFTA_PAYLOAD_OFFSET, offset),
        number(uapi.NFTA_PAYLOAD_LEN, length),
    )


def load_meta(key: int, register: int) -> bytes:
    """Load a property of the packet, such as its mark, into a register."""
    return expression("meta", number(uapi.NFTA_META_KEY, key), number(uapi.NFTA_META_DREG, register))


def set_mark(register: int) -> bytes:
    return expression("meta", number(uapi.NFTA_META_KEY, uapi.NFT_META_MARK), number(uapi.NFTA_META_SREG, register))


def load_connection(key: int, register: int, *, original: bool = False) -> bytes:
    """Load a conntrack property of the packet's connection. `original` selects the original direction."""
    direction = attribute(uapi.NFTA_CT_DIRECTION, b"\0") if original else b""
    return expression("ct", number(uapi.NFTA_CT_KEY, key), direction, number(uapi.NFTA_CT_DREG, register))


def set_connection_mark(register: int) -> bytes:
    return expression("ct", number(uapi.NFTA_CT_KEY, uapi.NFT_CT_MARK), number(uapi.NFTA_CT_SREG, register))


def hash_of(register: int, length: int, *, below: int, seed: int, first: int, into: int) -> bytes:
    """Hash bytes in registers (jhash) to a number from `first` to `first + below - 1`."""
    return expression(
        "hash",
        number(uapi.NFTA_HASH_SREG, register),
        number(uapi.NFTA_HASH_DREG, into),
        number(uapi.NFTA_HASH_LEN, length),
        number(uapi.NFTA_HASH_MODULUS, below),
        number(uapi.NFTA_HASH_SEED, seed),
        number(uapi.NFTA_HASH_OFFSET, first),
        number(uapi.NFTA_HASH_TYPE, uapi.NFT_HASH_JENKINS),
    )


def mask(register: int, bits: int, *, flip: int = 0) -> bytes:
    """Clear all bits of a register except `bits`, and then invert the bits in `flip`."""
    return mask_bytes(register, *(struct.pack("=I", each & 0xFFFFFFFF) for each in (bits, flip)))


def mask_bytes(register: int, bits: bytes, flip: bytes) -> bytes:
    """Like `mask`, but for `len(bits)` bytes that begin at `register`. `bits` and `flip` must have equal lengths."""
    return expression(
        "bitwise",
        number(uapi.NFTA_BITWISE_SREG, register),
        number(uapi.NFTA_BITWISE_DREG, register),
        number(uapi.NFTA_BITWISE_LEN, len(bits)),
        nested(uapi.NFTA_BITWISE_MASK, attribute(uapi.NFTA_DATA_VALUE, bits)),
        nested(uapi.NFTA_BITWISE_XOR, attribute(uapi.NFTA_DATA_VALUE, flip)),
    )


def compare(register: int, value: bytes, *, equal: bool = True) -> bytes:
    """Continue the rule only if the register equals `value`, or differs from `value` if `equal` is false."""
    return expression(
        "cmp",
        number(uapi.NFTA_CMP_SREG, register),
        number(uapi.NFTA_CMP_OP, uapi.NFT_CMP_EQ if equal else uapi.NFT_CMP_NEQ),
        nested(uapi.NFTA_CMP_DATA, attribute(uapi.NFTA_DATA_VALUE, value)),
    )


def lookup(name: str, register: int, into: int | None = None, *, inverted: bool = False) -> bytes:
    """Continue the rule only if a set or map has the key in `register`. `into` is the register for a map's data."""
    return expression(
        "lookup",
        text(uapi.NFTA_LOOKUP_SET, name),
        number(uapi.NFTA_LOOKUP_SREG, register),
        b"" if into is None else number(uapi.NFTA_LOOKUP_DREG, into),
        number(uapi.NFTA_LOOKUP_FLAGS, uapi.NFT_LOOKUP_F_INV) if inverted else b"",
    )


def add(name: str, register: int) -> bytes:
    """Add the key in a register to a set."""
    return _change(name, register, uapi.NFT_DYNSET_OP_ADD)


def update(name: str, register: int, data: int, seconds: int) -> bytes:
    """Add the key and the data in two registers to a map, for `seconds`. The data of an existing key is not changed."""
    timeout = attribute(uapi.NFTA_DYNSET_TIMEOUT, struct.pack(">Q", seconds * 1_000))
    return _change(name, register, uapi.NFT_DYNSET_OP_UPDATE, number(uapi.NFTA_DYNSET_SREG_DATA, data), timeout)


def remove(name: str, register: int, data: int) -> bytes:
    """Delete the key in a register from a map. The kernel also requires a data register (seen on Linux 6.18)."""
    return _change(name, register, uapi.NFT_DYNSET_OP_DELETE, number(uapi.NFTA_DYNSET_SREG_DATA, data))


def _change(name: str, register: int, operation: int, *more: bytes) -> bytes:
    key = number(uapi.NFTA_DYNSET_OP, operation) + number(uapi.NFTA_DYNSET_SREG_KEY, register)
    return expression("dynset", text(uapi.NFTA_DYNSET_SET_NAME, name), key, *more)


def random_number(below: int, first: int, register: int) -> bytes:
    """Load a random number from `first` to `first + below - 1` into a register."""
    return expression(
        "numgen",
        number(uapi.NFTA_NG_DREG, register),
        number(uapi.NFTA_NG_MODULUS, below),
        number(uapi.NFTA_NG_TYPE, uapi.NFT_NG_RANDOM),
        number(uapi.NFTA_NG_OFFSET, first),
    )


def destination_nat(family: str, address: int, port: int) -> bytes:
    """Translate the connection's destination to the address and port in two registers."""
    return expression(
        "nat",
        number(uapi.NFTA_NAT_TYPE, uapi.NFT_NAT_DNAT),
        number(uapi.NFTA_NAT_FAMILY, NFPROTO[family]),
        number(uapi.NFTA_NAT_REG_ADDR_MIN, address),
        number(uapi.NFTA_NAT_REG_PROTO_MIN, port),
    )


def masquerade() -> bytes:
    """Translate the source to this node's address and a random port, so that concurrent clients do not collide."""
    return expression("masq", number(uapi.NFTA_MASQ_FLAGS, uapi.NF_NAT_RANGE_PROTO_RANDOM_FULLY))


def reject(kind: int, code: int = 0) -> bytes:
    icmp_code = attribute(uapi.NFTA_REJECT_ICMP_CODE, bytes([code]))
    return expression("reject", number(uapi.NFTA_REJECT_TYPE, kind), icmp_code)


def verdict(code: Verdict, chain: str = "") -> bytes:
    register = number(uapi.NFTA_IMMEDIATE_DREG, uapi.NFT_REG_VERDICT)
    return expression("immediate", register, nested(uapi.NFTA_IMMEDIATE_DATA, verdict_data(code, chain)))


def verdict_data(code: Verdict, chain: str = "") -> bytes:
    goto = text(uapi.NFTA_VERDICT_CHAIN, chain) if chain else b""
    return nested(uapi.NFTA_DATA_VERDICT, number(uapi.NFTA_VERDICT_CODE, code), goto)
