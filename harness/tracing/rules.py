"""Parses tools' output about a node's rules: the rules of each chain, and the elements of each set or map.

A trace has only the handle of a rule. The kernel lists the handles of a chain in the same order as tools list rules.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.tracing.packet import Packet

_FIELD = r"(?:ip6? [sd]addr|meta l4proto|(?:th|tcp|udp|sctp) [sd]port|meta mark)"
_LOOKUP = re.compile(rf"({_FIELD}(?: \. {_FIELD})*) (?:map |vmap )?@([\w-]+)")
_RANGE = re.compile(r"[\w.:]+[/-]")
_ELEMENTS = "elements = {"
_PROPERTY = re.compile(r"\s*(comment |policy |type .* hook )")  # of a chain; these lines are not rules

Place = tuple[str, str]  # table, as in "ip nat", and the name of a chain, set or map in this table


@dataclass(frozen=True, slots=True)
class Rules:
    chains: Mapping[Place, Sequence[str]] = field(default_factory=dict)
    elements: Mapping[Place, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SetLookup:
    """A key that a rule looks up in a set or map, and the matching element as printed, or ""."""

    name: str
    key: str
    element: str


def rules_of(files: Mapping[str, str], node: str) -> Rules:
    """Return the rules in a node's evidence files. The kernel's rules override the proxy's own listing."""
    chains: dict[Place, Sequence[str]] = {}
    elements: dict[Place, Sequence[str]] = {}
    for file in (f"rules-{node}.nft", f"rules-{node}-nft.txt"):
        found = from_nft(files.get(file, ""))
        chains |= found.chains
        elements |= found.elements
    for family in ("ip", "ip6"):
        chains |= from_iptables(files.get(f"rules-{node}-{family}tables-save.txt", ""), family).chains
    return Rules(chains, elements)


def from_nft(text: str) -> Rules:
    chains: dict[Place, list[str]] = {}
    elements: dict[Place, list[str]] = {}
    table, block = "", ("", "")
    lines = iter(text.splitlines())
    for line in lines:
        words = line.split()
        if line.startswith("table "):
            table = " ".join(words[1:3])
        elif line.startswith("\t\t"):
            kind, name = block
            if kind == "chain":
                if not _PROPERTY.match(line):
                    chains[table, name].append(line.strip())
            elif _ELEMENTS in line:
                elements[table, name] = list(_elements(line, lines))
        elif len(words) > 1 and words[0] in ("chain", "set", "map"):
            block = words[0], words[1]
            if words[0] == "chain":
                chains[table, words[1]] = []
    return Rules(chains, elements)


def from_iptables(text: str, family: str) -> Rules:
    """Parse the output of `iptables-save` (family "ip") or `ip6tables-save` ("ip6")."""
    chains: dict[Place, list[str]] = defaultdict(list)
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = f"{family} {line[1:].strip()}"
        elif line.startswith(":"):
            chains[table, line[1:].split()[0]] = []
        elif line.startswith("-A "):
            chains[table, line.split()[1]].append(line)
    return Rules(dict(chains))


def lookups(text: str, table: str, rules: Rules, packet: Packet, mark: int) -> Iterator[SetLookup]:
    """Yield the keys of a packet that a printed rule looks up in sets or maps, except in sets with ranges."""
    values = _values(packet, mark)
    for fields, name in _LOOKUP.findall(text):
        key = " . ".join(values.get(each, "?") for each in fields.split(" . "))
        known = rules.elements.get((table, name), ())
        if "?" not in key and not any(map(_RANGE.match, known)):
            yield SetLookup(name, key, next((each for each in known if each == key or each.startswith(f"{key} ")), ""))


def _values(packet: Packet, mark: int) -> dict[str, str]:
    word = "ip6" if ":" in packet.source else "ip"
    ports = {
        f"{kind} {end}port": str(port)
        for kind in ("th", packet.protocol)
        for end, port in (("s", packet.source_port), ("d", packet.destination_port))
    }
    return ports | {
        f"{word} saddr": packet.source,
        f"{word} daddr": packet.destination,
        "meta l4proto": packet.protocol,
        "meta mark": f"{mark:#010x}",
    }


def _elements(first: str, more: Iterable[str]) -> Iterator[str]:
    """Yield the elements of a set or map, which begin on the line `first` and end at the closing brace."""
    text = first.split(_ELEMENTS, 1)[1]
    rest = iter(more)
    while not text.rstrip().endswith("}"):
        text += next(rest, "}")
    yield from (each.strip() for each in re.split(r",(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", text.rstrip()[:-1]))
