"""Packs elements of maps and sets by inserting keys and data into byte templates, one for each kind of element.

Most of the time for loading a table is spent here. A key or a value is a concatenation of fields that are padded to a
multiple of 4 bytes. As in nft, addresses and ports are in network byte order, and marks are in host byte order.
"""

import ipaddress
import socket
import struct
from collections.abc import Callable, Iterable, Sequence

from reference.proxy import uapi
from reference.proxy.balancing_chains import chain_name, ranges_name
from reference.proxy.base_rules import SetSpec
from reference.proxy.changes import Element, EndpointElement, IdentityElement, MarkElement, RangesElement
from reference.proxy.decision import Family
from reference.proxy.expressions import Verdict, verdict_data
from reference.proxy.flows import AWAITED, SOCKET_FAMILY
from reference.proxy.netlink import attribute, attributes, nested, number
from reference.proxy.ruleset import Endpoint, ServiceAddress

MOST_BYTES = 0xFFFF - 4
"""The maximum size in bytes of one list of elements. The length field of an attribute has 16 bits."""

Parts = dict[int, bytes]
"""The attributes of one element, by type."""

_MOST_PASSES = 10
_CLIENT = (uapi.NFTA_SET_ELEM_KEY, uapi.NFTA_SET_ELEM_DATA, uapi.NFTA_SET_ELEM_TIMEOUT, uapi.NFTA_SET_ELEM_EXPIRATION)
_NUMBERS = {"TCP": 6, "UDP": 17, "SCTP": 132}
_PROTOCOLS = {name: struct.pack("=B3x", value) for name, value in _NUMBERS.items()}

_port = struct.Struct(">H2x").pack
_mark = struct.Struct("=I").pack
_head = struct.Struct("=HH").pack


class ElementPacker:
    """Packs elements of one IP family's table, for additions and deletions. A deletion ignores an element's data."""

    def __init__(self, family: Family, specs: Iterable[SetSpec]) -> None:
        self._family = SOCKET_FAMILY[family]
        by_name = {spec.name: spec for spec in specs}
        self._mark_heads = _heads(by_name["services"])
        self._endpoint_heads = _heads(by_name["endpoints"])
        self._identity_heads = _heads(by_name["identities"])
        self._hairpin_heads = _heads(by_name["hairpin"])
        self._last: tuple[ServiceAddress | None, bytes] = None, b""

    def pack(self, element: Element) -> tuple[str, bytes]:
        """Return the set's or map's name and the packed element. Pattern matching would be slower than `isinstance`."""
        if isinstance(element, EndpointElement):
            service, slot, (address, port) = element
            head, between = self._endpoint_heads
            to = socket.inet_pton(self._family, address)
            return "endpoints", b"".join((head, self.service(service), _mark(slot), between, to, _port(port)))
        if isinstance(element, MarkElement):
            head, between = self._mark_heads
            return element.name, b"".join((head, self.service(element.service), between, _mark(element.mark)))
        if isinstance(element, IdentityElement):
            head, between = self._identity_heads
            service, slot, identity = element
            return "identities", b"".join((head, self.service(service), _mark(slot), between, _mark(identity)))
        if isinstance(element, RangesElement):
            return "ranges", _goto_element(self.service(element.service), ranges_name(element.ranges))
        packed = socket.inet_pton(self._family, element.address)
        return "hairpin", self._hairpin_heads[0] + packed + packed

    def endpoints(self, service: ServiceAddress, first: int, endpoints: Iterable[Endpoint]) -> list[bytes]:
        """Pack elements of `endpoints` without an `EndpointElement` for each endpoint, which would double the time."""
        head, between = self._endpoint_heads
        head += self.service(service)
        family, to_bytes = self._family, socket.inet_pton
        return [
            b"".join((head, _mark(slot), between, to_bytes(family, address), _port(port)))
            for slot, (address, port) in enumerate(endpoints, first)
        ]

    def service(self, service: ServiceAddress) -> bytes:
        """Pack the key of the map `services`. The last key is cached, because consecutive elements often share it."""
        last, packed = self._last
        if service is not last:
            address = socket.inet_pton(self._family, service.address)
            packed = address + _PROTOCOLS[service.protocol] + _port(service.port)
            self._last = service, packed
        return packed


def pack_action(mark: int) -> bytes:
    return _goto_element(_mark(mark), chain_name(mark))


def pack_tag(tag: int) -> bytes:
    """Pack the element of the set `tags` for a tag. The element means that a connection with this tag may exist."""
    key = attribute(uapi.NFTA_DATA_VALUE, _mark(tag | AWAITED))
    return nested(uapi.NFTA_LIST_ELEM, nested(uapi.NFTA_SET_ELEM_KEY, key))


def _goto_element(key: bytes, chain: str) -> bytes:
    return nested(
        uapi.NFTA_LIST_ELEM,
        nested(uapi.NFTA_SET_ELEM_KEY, attribute(uapi.NFTA_DATA_VALUE, key)),
        nested(uapi.NFTA_SET_ELEM_DATA, verdict_data(Verdict.GOTO, chain)),
    )


def read_elements(dump: Callable[[], Sequence[bytes]]) -> list[Parts]:
    """Read all elements of a set or map with their attributes. `dump` returns the message bodies of one complete dump.

    A dump of a hash table that has just grown can be incomplete. While the kernel sends a long reply in parts, one of
    its work queues moves elements. The dump then has some elements twice and lacks others, without NLM_F_DUMP_INTR
    (seen on Linux 6.18). So dumps are repeated until one contains no new element. Duplicates stay in the list.
    """
    found: list[Parts] = []
    known: set[bytes] = set()
    for _ in range(_MOST_PASSES):
        lists = (dict(attributes(body[4:])).get(uapi.NFTA_SET_ELEM_LIST_ELEMENTS, b"") for body in dump())
        dumped = [element for each in lists for _, element in attributes(each)]
        parts = [{kind: bytes(value) for kind, value in attributes(each)} for each in dumped]
        keys = {each[uapi.NFTA_SET_ELEM_KEY] for each in parts if uapi.NFTA_SET_ELEM_KEY in each}
        found += parts
        if keys <= known:
            break
        known |= keys
    return found


def read_clients(elements: Iterable[Parts], family: Family) -> list[bytes]:
    """Return the elements of the map `affinity`, packed with their remaining time so that they can be added again.

    Elements in the format of another proxy version are omitted. Of several elements with equal keys, only the most
    recently used one is returned: a packet that arrives while a table is replaced does not see the old element and adds
    a new one (seen on Linux 6.18). A rule may extend the lifetime of an element beyond the element's own timeout. The
    timeout is then increased, because the kernel would otherwise refuse the element.
    """
    client, mark = (2 * 4 if family == "IPv4" else 2 * 16) + 8, 4
    found: dict[bytes, tuple[bytes, bytes]] = {}
    for parts in elements:
        if not parts.keys() >= set(_CLIENT):
            continue
        key, data, timeout, expiration = (parts[kind] for kind in _CLIENT)
        if (len(key), len(data)) != (4 + client, 4 + mark):
            continue
        again = nested(
            uapi.NFTA_LIST_ELEM,
            nested(uapi.NFTA_SET_ELEM_KEY, key),
            nested(uapi.NFTA_SET_ELEM_DATA, data),
            attribute(uapi.NFTA_SET_ELEM_TIMEOUT, max(timeout, expiration)),
            attribute(uapi.NFTA_SET_ELEM_EXPIRATION, expiration),
        )
        found[key] = max(found.get(key, (b"", b"")), (expiration, again))
    return [element for _, element in found.values()]


def pack_intervals(cidrs: Iterable[str], family: Family) -> bytes:
    """Pack an interval set; merge adjacent ranges, as the kernel requires. Raises `ValueError` for an invalid CIDR."""
    networks = [ipaddress.ip_network(each, strict=False) for each in cidrs]
    four = [each for each in networks if isinstance(each, ipaddress.IPv4Network)]
    six = [each for each in networks if isinstance(each, ipaddress.IPv6Network)]
    merged = ipaddress.collapse_addresses(four) if family == "IPv4" else ipaddress.collapse_addresses(six)
    packed = []
    for network in merged:
        packed.append(_bound(network.network_address.packed))
        if set(network.broadcast_address.packed) != {0xFF}:  # otherwise there is no address after it
            packed.append(_bound((network.broadcast_address + 1).packed, end=True))
    return b"".join(packed)


def _bound(address: bytes, *, end: bool = False) -> bytes:
    flags = number(uapi.NFTA_SET_ELEM_FLAGS, uapi.NFT_SET_ELEM_INTERVAL_END) if end else b""
    return nested(uapi.NFTA_LIST_ELEM, flags, nested(uapi.NFTA_SET_ELEM_KEY, attribute(uapi.NFTA_DATA_VALUE, address)))


def _heads(spec: SetSpec) -> tuple[bytes, bytes]:
    """Return the bytes before an element's key, and between its key and its data."""
    data = spec.data_length + 8 if spec.data_length else 0
    head = _head(4 + 8 + spec.key_length + data, uapi.NFTA_LIST_ELEM | uapi.NLA_F_NESTED)
    return head + _value_head(uapi.NFTA_SET_ELEM_KEY, spec.key_length), _value_head(
        uapi.NFTA_SET_ELEM_DATA, spec.data_length
    )


def _value_head(kind: int, length: int) -> bytes:
    return _head(8 + length, kind | uapi.NLA_F_NESTED) + _head(4 + length, uapi.NFTA_DATA_VALUE)
