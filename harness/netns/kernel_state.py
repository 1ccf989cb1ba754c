"""Reads the links, addresses, routes, rules and neighbours of a netns, as values and as text in the style of `ip`."""

import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
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
_NEIGHBOURS = ("INCOMPLETE", "REACHABLE", "STALE", "DELAY", "PROBE", "FAILED", "NOARP", "PERMANENT")  # NUD_…, by bit
_SILENT = _ROUTES[6]


@dataclass(frozen=True, slots=True)
class Link:
    """A link. `state` is "up", "no-carrier" (the other end is down) or "down". `arp` is false if flag NOARP is set."""

    name: str
    state: str
    arp: bool
    details: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"link {self.name} {self.state}{'' if self.arp else ' arp off'}{self.details}"


@dataclass(frozen=True, slots=True)
class Address:
    address: str
    link: str

    def __str__(self) -> str:
        return f"address {self.address} dev {self.link}"


@dataclass(frozen=True, slots=True)
class Route:
    """A route in a table. `kind` is "" for a forwarding route, or else "blackhole ", "local ", …."""

    family: Family
    to: str
    link: str = ""
    via: str = ""
    source: str = ""
    kind: str = ""
    table: int = 254
    details: str = field(default="", compare=False)

    def __str__(self) -> str:
        parts = ((" via ", self.via), (" dev ", self.link), (" src ", self.source))
        text = "".join(word + value for word, value in parts if value)
        return f"route {self.kind}{self.to}{text}{_TABLES.get(self.table, f' table {self.table}')}{self.details}"


@dataclass(frozen=True, slots=True)
class RoutingRule:
    family: Family
    priority: int
    iif: str
    does: str

    def __str__(self) -> str:
        iif = f" iif {self.iif}" if self.iif else ""
        return f"rule {self.family} {self.priority}: from all{iif} {self.does}"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An entry of the neighbour table. Links of an embedded cluster use no ARP or NDP, so the table should be empty."""

    address: str
    link: str
    details: str

    def __str__(self) -> str:
        return f"neighbour {self.address} dev {self.link}{self.details}"


Item = Link | Address | Route | RoutingRule | Neighbour


def blackhole(family: Family, to: str) -> Route:
    """Return a route that drops packets silently. Omit the link that the kernel reports for such a route in IPv6."""
    return Route(family, to, kind=_SILENT)


def read(namespace: Namespace) -> list[Item]:
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
        families = {*_FAMILIES, socket.AF_UNSPEC}  # links have AF_UNSPEC; this skips multicast routing
        return [item(each, names) for item, dump in dumps for each in dump if each["family"] in families]


def as_text(namespace: Namespace) -> str:
    return "".join(f"{each}\n" for each in read(namespace))


def _link(message: Any, _: dict[int, str]) -> Link:
    flags = message["flags"]
    state = "down" if not flags & _UP else "up" if flags & _LOWER_UP else "no-carrier"
    details = f" mtu {message.get('mtu')} state {message.get('operstate')} index {message['index']}"
    return Link(str(message.get("ifname")), state, arp=not flags & _NOARP, details=details)


def _address(message: Any, names: dict[int, str]) -> Address:
    return Address(f"{message.get('address')}/{message['prefixlen']}", names.get(message["index"], ""))


def _route(message: Any, names: dict[int, str]) -> Route:
    family, table = _FAMILIES[message["family"]], int(message.get("table"))
    kind = _ROUTES[message["type"]] if message["type"] < len(_ROUTES) else f"type-{message['type']} "
    host = message["dst_len"] == (32 if family == "IPv4" else 128)
    to = (
        f"{message.get('dst')}{'' if host else '/' + str(message['dst_len'])}"
        if message["dst_len"]
        else DEFAULT[family]
    )
    link = "" if kind == _SILENT else names.get(message.get("oif"), "")
    details = f" metric {message.get('priority')}" if message.get("priority") else ""
    return Route(family, to, link, message.get("gateway") or "", message.get("prefsrc") or "", kind, table, details)


def _rule(message: Any, _: dict[int, str]) -> RoutingRule:
    does = _RULES.get(message["action"]) or f"lookup {message.get('table')}"
    return RoutingRule(_FAMILIES[message["family"]], message.get("priority") or 0, message.get("iifname") or "", does)


def _neighbour(message: Any, names: dict[int, str]) -> Neighbour:
    state = " ".join(name for bit, name in enumerate(_NEIGHBOURS) if message["state"] >> bit & 1)
    hardware = f" lladdr {message.get('lladdr')}" if message.get("lladdr") else ""
    return Neighbour(str(message.get("dst")), names.get(message["ifindex"], ""), f"{hardware} {state or 'NONE'}")
