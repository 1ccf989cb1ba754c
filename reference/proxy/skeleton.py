"""The part of a ruleset that does not depend on Services: sets, chains and rules, each as nft text and as expressions.

They stand side by side so that a reader can compare them; a test loads the expressions and has `nft` print the text.

Everything is of chain type nat, so only a connection's first packet comes here. Drop and reject verdicts work there,
in prerouting and output, and leave no conntrack entry, because one is confirmed only when its packet has got through.
That needs Linux 5.9 (reject in prerouting). A packet whose endpoint is not found is dropped, not let through: its entry
would keep the client's port away from the Service for 30 seconds.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from reference.proxy import expressions as nft
from reference.proxy import flows
from reference.proxy.decision import Family
from reference.proxy.expressions import Verdict
from reference.proxy.ruleset import LOCAL_LIST

TABLE = "trafficdist"
FAMILY_WORD = {"IPv4": "ip", "IPv6": "ip6"}

MOST_CLIENTS = 1 << 20
"""So many clients of all Services together are remembered; others get an endpoint at random, as without affinity."""

MARK, VERDICT = 19, 0xFFFFFF00
_ADDRESS = {"IPv4": 7, "IPv6": 8}
_PROTOCOL, _PORT = 12, 13
_PAIR = 6  # bits by which nft shifts one type of a concatenation


@dataclass(frozen=True, slots=True)
class SetSpec:
    """A named set or map: its types as nft's words, its types as nft's numbers, its lengths in bytes.

    One with a `size` is filled by rules, and its elements end after a time.
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
    """Where the kernel calls a base chain of a type. The word is nft's name for the priority."""

    number: int
    name: str
    priority: int
    priority_word: str
    type: str = "nat"


class Rule(NamedTuple):
    """One rule, twice."""

    text: str
    expressions: bytes


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain with its rules; a base chain if it has a hook."""

    name: str
    rules: tuple[Rule, ...]
    hook: Hook | None = None


def set_specs(family: Family) -> tuple[SetSpec, ...]:
    """The sets and maps of a table. Concatenated keys pad each field to 4 bytes."""
    word = "ipv4_addr" if family == "IPv4" else "ipv6_addr"
    length, address = address_length(family), _ADDRESS[family]
    frontend, frontend_word = (address << _PAIR | _PROTOCOL) << _PAIR | _PORT, f"{word} . inet_proto . inet_service"
    return (
        SetSpec("services", f"{frontend_word} : mark", frontend, length + 8, MARK, 4),
        SetSpec("external", f"{frontend_word} : mark", frontend, length + 8, MARK, 4),
        SetSpec(
            "endpoints", f"{frontend_word} . mark : {word} . inet_service", frontend << _PAIR | MARK, length + 12,
            data_type=address << _PAIR | _PORT, data_length=length + 4,
        ),
        SetSpec("identities", f"{frontend_word} . mark : mark", frontend << _PAIR | MARK, length + 12, MARK, 4),
        SetSpec(
            "affinity", f"{word} . {frontend_word} : mark", address << 3 * _PAIR | frontend, 2 * length + 8, MARK, 4,
            size=MOST_CLIENTS,
        ),
        SetSpec("buckets", "mark : verdict", MARK, 4, VERDICT, 0, host_order_key=True),
        SetSpec("hairpin", f"{word} . {word}", address << _PAIR | address, 2 * length),
        SetSpec("pods", word, address, length, interval=True),
        SetSpec("own", word, address, length, interval=True),
    )  # fmt: skip


def fixed_chains(family: Family) -> tuple[Chain, ...]:
    """The chains that are always there, each after those to which it goes."""
    return (
        Chain("discard", (Rule("drop", nft.verdict(Verdict.DROP)),)),
        Chain("refuse", _refuse(family)),
        Chain("sources", _sources(family)),
        Chain("prerouting", (_from_outside(family), _by_service(family)), Hook(0, "prerouting", -100, "dstnat")),
        Chain("output", (_by_service(family),), Hook(3, "output", -100, "-100")),
        Chain("postrouting", (_if_translated(),), Hook(4, "postrouting", 100, "srcnat")),
        Chain("input", (_tag(family),), Hook(1, "input", 100, "100")),
        Chain("prerouting-udp", _awaited(), Hook(0, "prerouting", -150, "mangle", "filter")),
        Chain("output-udp", _awaited(), Hook(3, "output", -150, "mangle", "filter")),
    )


def address_length(family: Family) -> int:
    """An address, in bytes."""
    return 4 if family == "IPv4" else 16


def second_field(family: Family) -> int:
    """The register after an address that begins in the first one."""
    return nft.FIRST_REGISTER + address_length(family) // 4


def frontend_registers(family: Family) -> tuple[int, int, int, int]:
    """Where the fields of a frontend go from the first register on, and the one after them."""
    second = second_field(family)
    return nft.FIRST_REGISTER, second, second + 1, second + 2


def load_source(family: Family, register: int) -> bytes:
    """The address from which a packet is."""
    return nft.load_payload(nft.NETWORK_HEADER, 12 if family == "IPv4" else 8, address_length(family), register)


def load_destination(family: Family, register: int) -> bytes:
    return nft.load_payload(nft.NETWORK_HEADER, 16 if family == "IPv4" else 24, address_length(family), register)


def load_frontend(family: Family, first: int = nft.FIRST_REGISTER) -> bytes:
    """What a packet is sent to, as the fields of a `Frontend`."""
    protocol = first + address_length(family) // 4
    return (
        load_destination(family, first)
        + nft.load_meta(nft.META_L4PROTO, protocol)
        + nft.load_payload(nft.TRANSPORT_HEADER, 2, 2, protocol + 1)
    )


def _by_map(family: Family, name: str) -> Rule:
    first = nft.FIRST_REGISTER
    ip = FAMILY_WORD[family]
    return Rule(
        f"meta mark set {ip} daddr . meta l4proto . th dport map @{name} meta mark vmap @buckets",
        load_frontend(family)
        + nft.lookup(name, first, into=first)
        + nft.set_mark(first)
        + nft.load_meta(nft.META_MARK, first)
        + nft.lookup("buckets", first, into=0),
    )


def _by_service(family: Family) -> Rule:
    return _by_map(family, "services")


def _from_outside(family: Family) -> Rule:
    rule, first = _by_map(family, "external"), nft.FIRST_REGISTER
    return Rule(
        f"{FAMILY_WORD[family]} saddr != @pods {rule.text}",
        load_source(family, first) + nft.lookup("pods", first, inverted=True) + rule.expressions,
    )


def _if_translated() -> Rule:
    first = nft.FIRST_REGISTER
    return Rule(
        "ct status dnat goto sources",
        nft.load_connection_status(first)
        + nft.mask(first, nft.CT_STATUS_DNAT)
        + nft.compare(first, bytes(4), equal=False)
        + nft.verdict(Verdict.GOTO, "sources"),
    )


def _refuse(family: Family) -> tuple[Rule, ...]:
    first = nft.FIRST_REGISTER
    tcp = nft.load_meta(nft.META_L4PROTO, first) + nft.compare(first, b"\x06")
    return (
        Rule("reject with tcp reset", tcp + nft.reset_tcp()),
        Rule("reject", nft.port_unreachable(family)),
    )


def _udp_translated() -> bytes:
    first = nft.FIRST_REGISTER
    return (
        nft.load_meta(nft.META_L4PROTO, first)
        + nft.compare(first, bytes([flows.UDP]))
        + nft.load_connection_status(first)
        + nft.mask(first, nft.CT_STATUS_DNAT)
        + nft.compare(first, bytes(4), equal=False)
    )


def _tag(family: Family) -> Rule:
    """The mark of a new UDP connection, by which it can be found (see `flows`)."""
    ip, first, second = FAMILY_WORD[family], nft.FIRST_REGISTER, second_field(family)
    third = second + address_length(family) // 4
    numbers = f"mod {flows.TAGS} seed {flows.TAG_SEED:#x} offset {flows.AWAITED}"
    return Rule(
        f"ct status dnat ct mark set jhash ct original {ip} daddr . {ip} daddr . udp dport {numbers}",
        _udp_translated()
        + nft.load_connection(nft.CT_DESTINATION[family], first, original=True)
        + load_destination(family, second)
        + nft.load_payload(nft.TRANSPORT_HEADER, 2, 2, third)
        + nft.hash_of(
            first, 2 * address_length(family) + 4,
            below=flows.TAGS, seed=flows.TAG_SEED, first=flows.AWAITED, into=third + 1,
        )
        + nft.set_connection_mark(third + 1),
    )  # fmt: skip


def _awaited() -> tuple[Rule, ...]:
    """Whether a UDP connection awaits an answer, in its mark."""
    first, words = nft.FIRST_REGISTER, ("original", "reply")
    operations = (f"| {flows.AWAITED:#010x}", f"& {flows.TAGS:#010x}")
    return tuple(
        Rule(
            f"meta l4proto udp ct status dnat ct direction {word} ct mark set ct mark {operation}",
            _udp_translated()
            + nft.load_connection(nft.CT_DIRECTION, first)
            + nft.compare(first, bytes([direction]))
            + nft.load_connection(nft.CT_MARK, first)
            + nft.mask(first, flows.TAGS, flip=0 if direction else flows.AWAITED)
            + nft.set_connection_mark(first),
        )
        for direction, (word, operation) in enumerate(zip(words, operations, strict=True))
    )


def _sources(family: Family) -> tuple[Rule, ...]:
    """Whose address is replaced by this node's, so that the answers come back through this node.

    In order: an endpoint that reached itself; this node and its pods, whose answers come through here anyway; pods of
    other nodes; clients from outside whose address is to be kept; all others.
    """
    ip, first, second = FAMILY_WORD[family], nft.FIRST_REGISTER, second_field(family)
    source = load_source(family, first)
    kept = struct.pack("=I", LOCAL_LIST)
    return (
        _tag(family),
        Rule(
            f"{ip} saddr . {ip} daddr @hairpin masquerade fully-random",
            source + load_destination(family, second) + nft.lookup("hairpin", first) + nft.masquerade(),
        ),
        Rule(f"{ip} saddr @own return", source + nft.lookup("own", first) + nft.verdict(Verdict.RETURN)),
        Rule(
            f"{ip} saddr @pods masquerade fully-random",
            source + nft.lookup("pods", first) + nft.masquerade(),
        ),
        Rule(
            f"meta mark & {LOCAL_LIST:#010x} == {LOCAL_LIST:#010x} return",
            nft.load_meta(nft.META_MARK, first)
            + nft.mask(first, LOCAL_LIST)
            + nft.compare(first, kept)
            + nft.verdict(Verdict.RETURN),
        ),
        Rule("masquerade fully-random", nft.masquerade()),
    )
