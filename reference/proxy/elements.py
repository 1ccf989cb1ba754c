"""Packs elements of maps and sets: one bytes template for each kind, filled in with keys and data.

This is where a full load spends its time. A key or a value is a concatenation, each field padded to 4 bytes: addresses
and ports in network byte order, marks in the machine's, as nft does it.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterable

from reference.proxy.changes import Element, EndpointElement, IdentityElement, MarkElement
from reference.proxy.decision import Family
from reference.proxy.drawing import bucket_name
from reference.proxy.expressions import DATA_VALUE, LIST_ELEMENT, Verdict, verdict_data
from reference.proxy.netlink import NESTED, attribute, attributes, nested, number
from reference.proxy.ruleset import Backend, Frontend
from reference.proxy.skeleton import SetSpec

MOST_BYTES = 0xFFFF - 4
"""What one list of elements can hold: the length of an attribute has 16 bits."""

_ELEMENTS = 3
_KEY, _DATA, _FLAGS, _TIMEOUT, _EXPIRATION = 1, 2, 3, 4, 5
_CLIENT = (_KEY, _DATA, _TIMEOUT, _EXPIRATION)
_INTERVAL_END = 1
_ADDRESS_FAMILY = {"IPv4": socket.AF_INET, "IPv6": socket.AF_INET6}
_NUMBERS = {"TCP": 6, "UDP": 17, "SCTP": 132}
_PROTOCOLS = {name: struct.pack("=B3x", value) for name, value in _NUMBERS.items()}

_port = struct.Struct(">H2x").pack
_mark = struct.Struct("=I").pack
_head = struct.Struct("=HH").pack


class Packer:
    """Packs the elements of one IP family's table. Keys need no data to be deleted, but may have it."""

    def __init__(self, family: Family, specs: Iterable[SetSpec]) -> None:
        self._family = _ADDRESS_FAMILY[family]
        by_name = {spec.name: spec for spec in specs}
        self._mark_heads = _heads(by_name["services"])
        self._endpoint_heads = _heads(by_name["endpoints"])
        self._identity_heads = _heads(by_name["identities"])
        self._hairpin_heads = _heads(by_name["hairpin"])
        self._last: tuple[Frontend | None, bytes] = None, b""

    def pack(self, element: Element) -> bytes:
        """One element. Type tests, as matching by pattern takes longer than the packing."""
        if isinstance(element, EndpointElement):
            frontend, slot, (address, port) = element
            head, between = self._endpoint_heads
            to = socket.inet_pton(self._family, address)
            return b"".join((head, self.frontend(frontend), _mark(slot), between, to, _port(port)))
        if isinstance(element, MarkElement):
            head, between = self._mark_heads
            return b"".join((head, self.frontend(element.frontend), between, _mark(element.mark)))
        if isinstance(element, IdentityElement):
            head, between = self._identity_heads
            frontend = element.frontend
            return b"".join((head, self.frontend(frontend), _mark(element.slot), between, _mark(element.identity)))
        packed = socket.inet_pton(self._family, element.address)
        return self._hairpin_heads[0] + packed + packed

    def endpoints(self, frontend: Frontend, first: int, backends: Iterable[Backend]) -> list[bytes]:
        """The elements of map `endpoints` for all endpoints of a frontend, with slots from `first` on.

        For a full load: making an `EndpointElement` of each, only to pack it, would take as long as packing.
        """
        head, between = self._endpoint_heads
        head += self.frontend(frontend)
        family, to_bytes = self._family, socket.inet_pton
        return [
            b"".join((head, _mark(slot), between, to_bytes(family, address), _port(port)))
            for slot, (address, port) in enumerate(backends, first)
        ]

    def frontend(self, frontend: Frontend) -> bytes:
        """The key of map `services`. The last one is remembered: its endpoints come in a row."""
        last, packed = self._last
        if frontend is not last:
            address = socket.inet_pton(self._family, frontend.address)
            packed = address + _PROTOCOLS[frontend.protocol] + _port(frontend.port)
            self._last = frontend, packed
        return packed


def pack_bucket(bucket: int) -> bytes:
    """An element of `buckets`: from a mark to the chain that works on it."""
    verdict = verdict_data(Verdict.GOTO, bucket_name(bucket))
    return nested(LIST_ELEMENT, nested(_KEY, attribute(DATA_VALUE, _mark(bucket))), nested(_DATA, verdict))


def read_clients(bodies: Iterable[bytes], family: Family) -> list[bytes]:
    """The elements of map `affinity` in a dump, with the times that are left to them, packed as they may be put back.

    None of those that do not look as ours do: another version may have left them. And the last used of those with one
    key: a packet that comes while a table is replaced does not see what is put back, and adds an element (6.18).
    """
    length = (2 * 4 if family == "IPv4" else 2 * 16) + 8
    found: dict[bytes, tuple[bytes, bytes]] = {}
    for body in bodies:
        for _, element in attributes(dict(attributes(body[4:])).get(_ELEMENTS, b"")):
            parts = {kind: bytes(value) for kind, value in attributes(element)}
            if parts.keys() >= set(_CLIENT) and (len(parts[_KEY]), len(parts[_DATA])) == (4 + length, 4 + 4):
                key, data = (nested(kind, parts[kind]) for kind in (_KEY, _DATA))
                times = [attribute(kind, parts[kind]) for kind in (_TIMEOUT, _EXPIRATION)]
                last_used = parts[_EXPIRATION], nested(LIST_ELEMENT, key, data, *times)
                found[key] = max(found.get(key, last_used), last_used)
    return [element for _, element in found.values()]


def pack_intervals(cidrs: Iterable[str], family: Family) -> bytes:
    """The elements of an interval set: the first address of each range, and the first one after it.

    Raises `ValueError` on what is no CIDR. Ranges that touch or overlap become one, as the kernel wants it.
    """
    networks = [ipaddress.ip_network(each, strict=False) for each in cidrs]
    four = [each for each in networks if isinstance(each, ipaddress.IPv4Network)]
    six = [each for each in networks if isinstance(each, ipaddress.IPv6Network)]
    merged = ipaddress.collapse_addresses(four) if family == "IPv4" else ipaddress.collapse_addresses(six)
    packed = []
    for network in merged:
        packed.append(_bound(network.network_address.packed))
        if set(network.broadcast_address.packed) != {0xFF}:  # else there is no address after it
            packed.append(_bound((network.broadcast_address + 1).packed, end=True))
    return b"".join(packed)


def _bound(address: bytes, *, end: bool = False) -> bytes:
    flags = number(_FLAGS, _INTERVAL_END) if end else b""
    return nested(LIST_ELEMENT, flags, nested(_KEY, attribute(DATA_VALUE, address)))


def _heads(spec: SetSpec) -> tuple[bytes, bytes]:
    """What stands before an element's key, and between its key and its data."""
    data = spec.data_length + 8 if spec.data_length else 0
    head = _head(4 + 8 + spec.key_length + data, LIST_ELEMENT | NESTED)
    return head + _value_head(_KEY, spec.key_length), _value_head(_DATA, spec.data_length)


def _value_head(kind: int, length: int) -> bytes:
    return _head(8 + length, kind | NESTED) + _head(4 + length, DATA_VALUE)
