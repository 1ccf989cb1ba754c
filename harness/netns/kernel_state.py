"""What the kernel holds in a netns: links, addresses, routes, rules and neighbours, as values and in the words of `ip`.

Two readers: `harness.netns.fabric_check`, which compares values with what a cluster is to have, and the evidence of a
failure, which shows them one a line. What only the latter needs stands in `details`, which no comparison looks at.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.netns import iproute
from harness.netns.addresses import NUMBERS, Family
from harness.netns.namespace import Namespace

DEFAULT: Mapping[Family, str] = {"IPv4": "default", "IPv6": "::/0"}

_FAMILIES = {number: family for family, number in NUMBERS.items()}
_UP, _NOARP, _LOWER_UP = 0x1, 0x80, 0x10000  # IFF_…
_TABLES = {255: " table local", 254: ""}
_ROUTES = ("", "", "local ", "broadcast ", "anycast ", "multicast ", "blackhole ", "unreachable ", "prohibit ")  # RTN_…
_RULES = {6: "blackhole", 7: "unreachable", 8: "prohibit"}  # FR_ACT_…
_NEIGHBOURS = (
    "INCOMPLETE",
    "REACHABLE",
    "STALE",
    "DELAY",
    "PROBE",
    "FAILED",
    "NOARP",
    "PERMANENT",
)  # NUD_…, bit by bit
_SILENT = _ROUTES[6]


@dataclass(frozen=True, slots=True)
class Link:
    """A link: "up" with a carrier, "no-carrier" when its other end is down, or "down"; with ARP or without."""

    name: str
    state: str
    arp: bool
    details: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"link {self.name} {self.state}{'' if self.arp else ' arp off'}{self.details}"


@dataclass(frozen=True, slots=True)
class Address:
    """An address of a link, with its length."""

    address: str
    link: str

    def __str__(self) -> str:
        return f"address {self.address} dev {self.link}"


@dataclass(frozen=True, slots=True)
class Route:
    """A route in a table; `kind` is "" for one that forwards, else what else it does: "blackhole ", "local ", …"""

    family: Family
    to: str
    link: str = ""
    via: str = ""
    source: str = ""
    kind: str = ""
    table: int = 254
    details: str = field(default="", compare=False)

    def __str__(self) -> str:
        told = ((" via ", self.via), (" dev ", self.link), (" src ", self.source))
        text = "".join(word + value for word, value in told if value)
        return f"route {self.kind}{self.to}{text}{_TABLES.get(self.table, f' table {self.table}')}{self.details}"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of policy routing: what is done with packets that come in over `iif`, or with all."""

    family: Family
    priority: int
    iif: str
    does: str

    def __str__(self) -> str:
        iif = f" iif {self.iif}" if self.iif else ""
        return f"rule {self.family} {self.priority}: from all{iif} {self.does}"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """What is known of a neighbour's hardware address. No link of ours asks for one, so there is nothing to miss."""

    address: str
    link: str
    details: str

    def __str__(self) -> str:
        return f"neighbour {self.address} dev {self.link}{self.details}"


Item = Link | Address | Route | Rule | Neighbour


def blackhole(family: Family, to: str) -> Route:
    """Return a route that drops packets silently; the link that IPv6 gives to it is left out."""
    return Route(family, to, kind=_SILENT)


def read(namespace: Namespace) -> list[Item]:
    """Return all objects of a netns, of each kind in the kernel's order; one dump a kind."""
    with iproute.routing(namespace, "read links and routes") as ip:
        links = list(ip.get_links())
        names = {each["index"]: str(each.get("ifname")) for each in links}
        dumps: Sequence[tuple[Callable[[Any, dict[int, str]], Item], Iterable[Any]]] = (
            (_link, links),
            (_address, ip.get_addr()),
            (_route, ip.get_routes()),
            (_rule, ip.get_rules()),
            (_neighbour, ip.get_neighbours()),
        )
        return [item(each, names) for item, dump in dumps for each in _of_ip(dump)]


def as_text(namespace: Namespace) -> str:
    """Return all objects of a netns, one a line."""
    return "".join(f"{each}\n" for each in read(namespace))


def _of_ip(dump: Iterable[Any]) -> Iterator[Any]:
    """Leave out the families of multicast routing; links have no family."""
    return (each for each in dump if each["family"] in {*_FAMILIES, socket.AF_UNSPEC})


def _link(said: Any, _: dict[int, str]) -> Link:
    flags = said["flags"]
    state = "down" if not flags & _UP else "up" if flags & _LOWER_UP else "no-carrier"
    details = f" mtu {said.get('mtu')} state {said.get('operstate')} index {said['index']}"
    return Link(str(said.get("ifname")), state, arp=not flags & _NOARP, details=details)


def _address(said: Any, names: dict[int, str]) -> Address:
    return Address(f"{said.get('address')}/{said['prefixlen']}", names.get(said["index"], ""))


def _route(said: Any, names: dict[int, str]) -> Route:
    family, table = _FAMILIES[said["family"]], int(said.get("table"))
    kind = _ROUTES[said["type"]] if said["type"] < len(_ROUTES) else f"type-{said['type']} "
    host = said["dst_len"] == (32 if family == "IPv4" else 128)
    to = f"{said.get('dst')}{'' if host else '/' + str(said['dst_len'])}" if said["dst_len"] else DEFAULT[family]
    link = "" if kind == _SILENT else names.get(said.get("oif"), "")
    details = f" metric {said.get('priority')}" if said.get("priority") else ""
    return Route(family, to, link, said.get("gateway") or "", said.get("prefsrc") or "", kind, table, details)


def _rule(said: Any, _: dict[int, str]) -> Rule:
    does = _RULES.get(said["action"]) or f"lookup {said.get('table')}"
    return Rule(_FAMILIES[said["family"]], said.get("priority") or 0, said.get("iifname") or "", does)


def _neighbour(said: Any, names: dict[int, str]) -> Neighbour:
    state = " ".join(name for bit, name in enumerate(_NEIGHBOURS) if said["state"] >> bit & 1)
    hardware = f" lladdr {said.get('lladdr')}" if said.get("lladdr") else ""
    return Neighbour(str(said.get("dst")), names.get(said["ifindex"], ""), f"{hardware} {state or 'NONE'}")
