"""The part of a ruleset that does not depend on Services: sets, chains and rules, each as nft text and as expressions.

All chains that make decisions have the type nat, so they see only the first packet of a connection. Since Linux 5.9,
they can drop and reject packets in prerouting and output. These packets leave no conntrack entry, because an entry is
confirmed only when its packet passes. A packet whose endpoint is not found is dropped. If such a packet passed, its
conntrack entry would prevent new connections from the same client port to the Service for 30 seconds.
"""

import struct
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from reference.proxy import expressions as nft
from reference.proxy import flows, uapi
from reference.proxy.decision import Family
from reference.proxy.expressions import Verdict
from reference.proxy.ruleset import LOCAL_LIST

TABLE = "trafficdist"
FAMILY_WORD = {"IPv4": "ip", "IPv6": "ip6"}

MOST_CLIENTS = 1 << 20
"""The maximum number of clients with session affinity, across all Services. Additional clients have no affinity."""

MOST_TAGS = 1 << 20
"""The maximum number of recorded tags. A tag stands for all UDP connections to one service address and one endpoint."""

# The numbers that nft uses for data types (include/datatype.h). nft needs these numbers to print a set.
MARK, VERDICT = 19, 0xFFFFFF00
_ADDRESS = {"IPv4": 7, "IPv6": 8}
_PROTOCOL, _PORT = 12, 13
_TYPE_BITS = 6  # the bits of each data type in the number of a concatenation

_ORIGINAL_DESTINATION = {"IPv4": uapi.NFT_CT_DST_IP, "IPv6": uapi.NFT_CT_DST_IP6}


@dataclass(frozen=True, slots=True)
class SetSpec:
    """A named set or map. `type` is nft text, `key_type` and `data_type` are nft's type IDs, and lengths are in bytes.

    If `size` is not 0, rules in the kernel add the elements, at most `size`, and elements may have a timeout.
    """

    name: str
    type: str
    key_type: int
    key_length: int
    data_type: int | None = None
    data_length: int = 0
    interval: bool = False
    host_order_key: bool = False
    size: int = 0


@dataclass(frozen=True, slots=True)
class Hook:
    """The hook of a base chain; `priority_word` is nft's name for the priority."""

    number: int
    name: str
    priority: int
    priority_word: str
    type: str = "nat"


_PREROUTING = uapi.NF_INET_PRE_ROUTING, "prerouting"
_OUTPUT = uapi.NF_INET_LOCAL_OUT, "output"


class Rule(NamedTuple):
    text: str
    expressions: bytes


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain with its rules. A chain with a hook is a base chain."""

    name: str
    rules: tuple[Rule, ...]
    hook: Hook | None = None


@cache
def set_specs(family: Family) -> tuple[SetSpec, ...]:
    """Return the sets and maps of a table. In concatenated keys, each field is padded to a multiple of 4 bytes."""
    word = "ipv4_addr" if family == "IPv4" else "ipv6_addr"
    length, address = address_length(family), _ADDRESS[family]
    service, service_type = (
        (address << _TYPE_BITS | _PROTOCOL) << _TYPE_BITS | _PORT,
        f"{word} . inet_proto . inet_service",
    )
    return (
        SetSpec("services", f"{service_type} : mark", service, length + 8, MARK, 4),
        SetSpec("external", f"{service_type} : mark", service, length + 8, MARK, 4),
        SetSpec(
            "endpoints", f"{service_type} . mark : {word} . inet_service", service << _TYPE_BITS | MARK, length + 12,
            data_type=address << _TYPE_BITS | _PORT, data_length=length + 4,
        ),
        SetSpec("identities", f"{service_type} . mark : mark", service << _TYPE_BITS | MARK, length + 12, MARK, 4),
        SetSpec(
            "affinity", f"{word} . {service_type} : mark", address << 3 * _TYPE_BITS | service, 2 * length + 8, MARK, 4,
            size=MOST_CLIENTS,
        ),
        SetSpec("tags", "mark", MARK, 4, host_order_key=True, size=MOST_TAGS),
        SetSpec("actions", "mark : verdict", MARK, 4, VERDICT, 0, host_order_key=True),
        SetSpec("ranges", f"{service_type} : verdict", service, length + 8, VERDICT, 0),
        SetSpec("hairpin", f"{word} . {word}", address << _TYPE_BITS | address, 2 * length),
        SetSpec("pods", word, address, length, interval=True),
        SetSpec("own", word, address, length, interval=True),
    )  # fmt: skip


@cache
def fixed_chains(family: Family) -> tuple[Chain, ...]:
    """Return the chains that always exist. Each chain comes after the chains that it jumps to."""
    to_masquerading = Rule(
        "ct status dnat goto masquerading", _if_translated() + nft.verdict(Verdict.GOTO, "masquerading")
    )
    return (
        Chain("drop-chain", (Rule("drop", nft.verdict(Verdict.DROP)),)),
        Chain("reject-chain", _reject(family)),
        Chain("masquerading", _masquerading(family)),
        Chain("prerouting", (*_external(family), _by_map(family, "services")), Hook(*_PREROUTING, -100, "dstnat")),
        Chain("output", (_by_map(family, "services"),), Hook(*_OUTPUT, -100, "-100")),
        Chain("ranges-prerouting", (_by_ranges(family),), Hook(*_PREROUTING, -110, "dstnat - 10")),
        Chain("ranges-output", (_by_ranges(family),), Hook(*_OUTPUT, -110, "-110")),
        Chain("postrouting", (to_masquerading,), Hook(uapi.NF_INET_POST_ROUTING, "postrouting", 100, "srcnat")),
        Chain("input", (_tag(family),), Hook(uapi.NF_INET_LOCAL_IN, "input", 100, "100")),
        Chain("prerouting-udp", _awaited(), Hook(*_PREROUTING, -150, "mangle", "filter")),
        Chain("output-udp", _awaited(), Hook(*_OUTPUT, -150, "mangle", "filter")),
    )


def address_length(family: Family) -> int:
    return 4 if family == "IPv4" else 16


def second_field(family: Family) -> int:
    """Return the register that follows an address that begins in the first register."""
    return nft.FIRST_REGISTER + address_length(family) // 4


def after_service(family: Family) -> int:
    """Return the register that follows a service address that begins in the first register."""
    return second_field(family) + 2


def load_source(family: Family, register: int) -> bytes:
    offset = 12 if family == "IPv4" else 8
    return nft.load_payload(uapi.NFT_PAYLOAD_NETWORK_HEADER, offset, address_length(family), register)


def load_destination(family: Family, register: int) -> bytes:
    offset = 16 if family == "IPv4" else 24
    return nft.load_payload(uapi.NFT_PAYLOAD_NETWORK_HEADER, offset, address_length(family), register)


def load_service_address(family: Family, first: int = nft.FIRST_REGISTER) -> bytes:
    """Load a packet's destination address, protocol and destination port into registers that begin at `first`."""
    protocol = first + address_length(family) // 4
    return (
        load_destination(family, first)
        + nft.load_meta(uapi.NFT_META_L4PROTO, protocol)
        + nft.load_payload(uapi.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, protocol + 1)
    )


def _by_map(family: Family, name: str) -> Rule:
    first = nft.FIRST_REGISTER
    ip = FAMILY_WORD[family]
    return Rule(
        f"meta mark set {ip} daddr . meta l4proto . th dport map @{name} meta mark vmap @actions",
        load_service_address(family)
        + nft.lookup(name, first, into=first)
        + nft.set_mark(first)
        + nft.load_meta(uapi.NFT_META_MARK, first)
        + nft.lookup("actions", first, into=0),
    )


def _by_ranges(family: Family) -> Rule:
    """Return the rule that checks the source ranges of service addresses. It runs before all other NAT rules."""
    first = nft.FIRST_REGISTER
    return Rule(
        f"{FAMILY_WORD[family]} daddr . meta l4proto . th dport vmap @ranges",
        load_service_address(family) + nft.lookup("ranges", first, into=0),
    )


def _external(family: Family) -> tuple[Rule, ...]:
    """Return the rules for external traffic, and for traffic from pods on other nodes to this node's node ports.

    According to ServiceSpec.externalTrafficPolicy (core/v1), in-cluster clients get Cluster semantics for external IPs
    and load balancer IPs, but a node without endpoints drops traffic from pods on other nodes to its node ports.
    """
    rule, first, ip = _by_map(family, "external"), nft.FIRST_REGISTER, FAMILY_WORD[family]
    source = load_source(family, first)
    return (
        Rule(f"{ip} saddr != @pods {rule.text}", source + nft.lookup("pods", first, inverted=True) + rule.expressions),
        Rule(
            f"{ip} saddr != @own {ip} daddr @own {rule.text}",
            source
            + nft.lookup("own", first, inverted=True)
            + load_destination(family, first)
            + nft.lookup("own", first)
            + rule.expressions,
        ),
    )


def _if_translated() -> bytes:
    status = nft.load_connection(uapi.NFT_CT_STATUS, nft.FIRST_REGISTER)
    translated = nft.mask(nft.FIRST_REGISTER, uapi.IPS_DST_NAT)
    return status + translated + nft.compare(nft.FIRST_REGISTER, bytes(4), equal=False)


def _reject(family: Family) -> tuple[Rule, ...]:
    first = nft.FIRST_REGISTER
    tcp = nft.load_meta(uapi.NFT_META_L4PROTO, first) + nft.compare(first, b"\x06")
    unreachable = uapi.ICMP_PORT_UNREACH if family == "IPv4" else uapi.ICMPV6_PORT_UNREACH
    return (
        Rule("reject with tcp reset", tcp + nft.reject(uapi.NFT_REJECT_TCP_RST)),
        Rule("reject", nft.reject(uapi.NFT_REJECT_ICMP_UNREACH, unreachable)),
    )


def _udp_translated() -> bytes:
    udp = nft.load_meta(uapi.NFT_META_L4PROTO, nft.FIRST_REGISTER)
    return udp + nft.compare(nft.FIRST_REGISTER, bytes([flows.UDP])) + _if_translated()


def _tag(family: Family) -> Rule:
    """Return the rule that sets a new UDP connection's conntrack mark (see `flows`) and adds the mark to `tags`."""
    ip, first, second = FAMILY_WORD[family], nft.FIRST_REGISTER, second_field(family)
    third = second + address_length(family) // 4
    fourth, into = third + 1, third + 2
    numbers = f"mod {flows.TAGS} seed {flows.TAG_SEED:#x} offset {flows.AWAITED}"
    return Rule(
        f"ct status dnat ct mark set jhash ct original {ip} daddr . {ip} daddr . udp dport . ct original proto-dst "
        f"{numbers} add @tags {{ ct mark }}",
        _udp_translated()
        + nft.load_connection(_ORIGINAL_DESTINATION[family], first, original=True)
        + load_destination(family, second)
        + nft.load_payload(uapi.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, third)
        + nft.load_connection(uapi.NFT_CT_PROTO_DST, fourth, original=True)
        + nft.hash_of(
            first, 2 * address_length(family) + 8,
            below=flows.TAGS, seed=flows.TAG_SEED, first=flows.AWAITED, into=into,
        )
        + nft.set_connection_mark(into)
        + nft.load_connection(uapi.NFT_CT_MARK, first)
        + nft.add("tags", first),
    )  # fmt: skip


def _awaited() -> tuple[Rule, ...]:
    """Return the rules that record in the conntrack mark of a UDP connection whether it awaits a reply."""
    first, words = nft.FIRST_REGISTER, ("original", "reply")
    operations = (f"| {flows.AWAITED:#010x}", f"& {flows.TAGS:#010x}")
    return tuple(
        Rule(
            f"meta l4proto udp ct status dnat ct direction {word} ct mark set ct mark {operation}",
            _udp_translated()
            + nft.load_connection(uapi.NFT_CT_DIRECTION, first)
            + nft.compare(first, bytes([direction]))
            + nft.load_connection(uapi.NFT_CT_MARK, first)
            + nft.mask(first, flows.TAGS, flip=0 if direction else flows.AWAITED)
            + nft.set_connection_mark(first),
        )
        for direction, (word, operation) in enumerate(zip(words, operations, strict=True))
    )


def _masquerading(family: Family) -> tuple[Rule, ...]:
    """Return the rules that masquerade connections whose replies would otherwise not return through this node."""
    ip, first, second = FAMILY_WORD[family], nft.FIRST_REGISTER, second_field(family)
    source = load_source(family, first)
    return (
        _tag(family),
        Rule(
            f"{ip} saddr . {ip} daddr @hairpin masquerade fully-random",
            source + load_destination(family, second) + nft.lookup("hairpin", first) + nft.masquerade(),
        ),
        Rule(f"{ip} saddr @own return", source + nft.lookup("own", first) + nft.verdict(Verdict.RETURN)),
        Rule(
            f"meta mark & {LOCAL_LIST:#010x} == {LOCAL_LIST:#010x} return",
            nft.load_meta(uapi.NFT_META_MARK, first)
            + nft.mask(first, LOCAL_LIST)
            + nft.compare(first, struct.pack("=I", LOCAL_LIST))
            + nft.verdict(Verdict.RETURN),
        ),
        Rule(f"{ip} saddr @pods masquerade fully-random", source + nft.lookup("pods", first) + nft.masquerade()),
        Rule("masquerade fully-random", nft.masquerade()),
    )
