"""Read the first line of an answer, and compare it with the table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from explain.routes import Route


def has_ports_and_nodes(says: str, routes: Sequence[Mapping[str, object]], nodes: int) -> bool:
    """Return whether each part of a headline is about the ports, and has the number of nodes, that the table has."""
    if " fail on " not in says.partition(": ")[0]:
        inside = [each for each in routes if each["clients"] == "internal"]
        crossing = {name for each in inside if each["elsewhere"] for name in each["nodes"]}  # type: ignore[attr-defined]
        unmet = {name for each in routes if each["short"] for name in each["nodes"]}  # type: ignore[attr-defined]
        found = _NUMBER.search(says)
        return found is None or _number(found) == (len(crossing) or len(unmet) or nodes)
    left = {(each["clients"], each["port"], each["family"]) for each in routes if each["short"] == "fails"}
    for part in says.removeprefix("connections").split("; and those"):
        outside, number = " from outside the cluster" in part.partition(" on ")[0], _NUMBER.search(part)
        clients = "external" if outside else "internal"
        named = _without_clients(part.partition(" on ")[0].removesuffix(" fail"))
        mine = [each for each in routes if each["clients"] == clients and is_named(named, each)]
        fails = [{*each["nodes"]} for each in mine if each["short"] == "fails"]  # type: ignore[misc]
        on = set().union(*fails)
        whole = all(
            {name for each in mine if (each["port"], each["family"]) == pair and each["short"] == "fails"
             for name in each["nodes"]} == on  # type: ignore[attr-defined]
            for pair in {(each["port"], each["family"]) for each in mine}
        )  # fmt: skip
        if number is None or _number(number) != len(on) or not whole:
            return False
        left -= {(clients, each["port"], each["family"]) for each in mine}
        both = not outside and " from inside the cluster" not in part.partition(" on ")[0]
        if both and not _is_of_both(mine, routes):
            return False
        if both:  # said of all clients, if those outside the cluster fail on the same nodes
            pairs = {(each["port"], each["family"]) for each in mine}
            beyond = [each for each in routes if each["short"] == "fails" and not {*each["nodes"]} <= on]  # type: ignore[misc]
            left -= {("external", *each) for each in pairs} - {
                (each["clients"], each["port"], each["family"]) for each in beyond
            }
    return not left or " in the table" in says


def _without_clients(said: str) -> str:
    return re.sub("^ from (?:inside|outside) the cluster", "", said)


def _is_of_both(inside: Sequence[Mapping[str, object]], routes: Sequence[Mapping[str, object]]) -> bool:
    """Return whether external clients have no routes of their own to these ports, or fail on such nodes too."""
    pairs = {(each["port"], each["family"]) for each in inside}
    outside = [each for each in routes if each["clients"] == "external" and (each["port"], each["family"]) in pairs]
    on = {name for each in inside if each["short"] == "fails" for name in each["nodes"]}  # type: ignore[attr-defined]
    fails = [each for each in outside if each["short"] == "fails"]
    return not outside or any({*each["nodes"]} <= on for each in fails)  # type: ignore[misc]


_NUMBER = re.compile(r"(?:all (\d+) nodes|(\d+) of \d+ nodes|the one node)")


def _number(found: re.Match[str]) -> int:
    return int(found[1] or found[2] or 1)


def is_named(named: str, route: Mapping[str, object]) -> bool:
    """Return whether a headline is about a route: " to port a/TCP b/TCP over IPv4 and port c/TCP", or " over IPv6"."""
    if named in {"", " to all ports"}:
        return True
    if named.startswith(" over "):
        return str(route["family"]) in named.split()
    for ports in named.removeprefix(" to port ").split(" and port "):
        names, _, families = ports.partition(" over ")
        if route["port"] in names.split() and (not families or str(route["family"]) in families.split()):
            return True
    return False


@dataclass(frozen=True)
class HeadlinePart:
    """The part of a headline about some connections: their outcome, their clients and ports, and the reason."""

    fails: bool
    outside: bool
    named: str
    why: str

    def is_about(self, route: Route) -> bool:
        told = {"port": route.port, "family": route.family}
        named = f" {'to' if self.named.startswith('port') else 'over'} {self.named}" if self.named else ""
        return (route.clients == "external") is self.outside and is_named(named, told)


def parts_of(says: str) -> Iterator[HeadlinePart]:
    fails = " fail on " in says.partition(": ")[0]
    for part in says.split("; and those") if fails else [says]:
        does, _, why = part.partition(": ")
        to = (
            does.partition(" on " if fails else " leave ")[0].partition(" do not prefer")[0].removeprefix("connections")
        )
        to = _without_clients(to.removesuffix(" fail").removeprefix(" that service proxies route"))
        named = "" if to == " to all ports" else to.removeprefix(" to ").removeprefix(" over ")
        yield HeadlinePart(
            fails, " from outside the cluster" in does, named, re.sub(r"; \d+ other failures? in the table$", "", why)
        )
