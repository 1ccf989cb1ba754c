"""Decisions as the content of a few shared maps, and that content as nft text.

kube-proxy makes chains for each Service and one for each endpoint. Here a Service is elements of maps that all Services
share, so that its cost does not grow with the number of Services and a change is a handful of elements:

- `services`: a frontend (address, protocol, port) gives a mark: how many endpoints it has, or drop, or reject.
- `external`: the same for traffic from outside the cluster, where externalTrafficPolicy Local gives another list than
  for traffic from inside. Its marks, and the indexes of its endpoints, are LOCAL_LIST higher, so that the packet's mark
  still tells in postrouting that the client's address must be kept: no further lookup is needed.
- `endpoints`: a frontend and an index give the endpoint. `buckets`: a mark gives the chain that draws the index.
- `hairpin`: the endpoints on this node, which may reach themselves through a Service.
- `affinity`, which the kernel fills: a client and a frontend give the identity of an endpoint, for as long as the
  Service wants. A frontend with session affinity has its endpoints under identities, and map `identities` leads there
  from an index. An identity follows from the endpoint alone, so an endpoint that moves to another index keeps its
  clients, and one that left is not found, whoever remembers it.

The way goes through the packet's mark because nft 1.0.6 aborts when it lists a rule that puts a random number or the
result of a map into a register of a concatenation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple
from zlib import crc32

from reference.proxy.decision import Action, Decision, Drop, Family, Forward, Reject, ServicePort

# A mark: 14 bits that count endpoints, one for the list, 17 with the seconds of session affinity. Without endpoints:
LOCAL_LIST = 0x4000
DROP = 0
REJECT = LOCAL_LIST

MOST_ENDPOINTS = LOCAL_LIST - 1
"""So many endpoints of one frontend are used; a Service may have more."""

_AFFINITY_SHIFT = 15


class Frontend(NamedTuple):
    """What a packet is sent to: an address, a protocol ("TCP", "UDP", "SCTP") and a port."""

    address: str
    protocol: str
    port: int


Backend = tuple[str, int]
"""Where it goes instead: address and port. A plain tuple, since there are many."""


class Stale(NamedTuple):
    """UDP connections to `frontend` that go to `backend` are no longer right.

    A frontend's own address and port as `backend` means those that were never translated.
    """

    frontend: Frontend
    backend: Backend


@dataclass(frozen=True, slots=True)
class Sticky:
    """Backends of which each client keeps the one that it got first, until it has not come for so many seconds."""

    backends: tuple[Backend, ...]
    seconds: int


Target = tuple[Backend, ...] | Sticky | Literal["drop", "reject"]
MapName = Literal["services", "external"]


@dataclass(frozen=True, slots=True)
class Entries:
    """What one service port adds to the ruleset of one IP family on one node."""

    services: Mapping[Frontend, Target]
    external: Mapping[Frontend, Target]
    hairpin: frozenset[str]


NOTHING = Entries({}, {}, frozenset())


@dataclass(frozen=True, slots=True)
class Ruleset:
    """All rules of one IP family on one node. `pods` are the cluster's pod CIDRs, `own` what this node answers for:
    its pod CIDRs and its addresses."""

    family: Family
    pods: tuple[str, ...]
    own: tuple[str, ...]
    services: Mapping[Frontend, Target]
    external: Mapping[Frontend, Target]
    hairpin: frozenset[str]


def render(port: ServicePort, decision: Decision, node: str, node_addresses: Sequence[str]) -> Entries:
    """The entries of one service port on node `node`, whose own addresses of this family are `node_addresses`."""
    services: dict[Frontend, Target] = {}
    external: dict[Frontend, Target] = {}
    target = _target(decision.cluster_ip, port)
    for address in port.cluster_ips:
        services[Frontend(address, port.protocol, port.port)] = target
    if decision.outside is not None and decision.inside is not None:
        inside, outside = _target(decision.inside, port), _target(decision.outside, port)
        for frontend in _external_frontends(port, node_addresses):
            services[frontend] = inside
            if port.external_local:
                external[frontend] = outside
    return Entries(services, external, _local_addresses(decision, node))


def _local_addresses(decision: Decision, node: str) -> frozenset[str]:
    """The endpoints on this node that traffic may reach."""
    local = []
    seen: list[Action | None] = []
    for action in (decision.cluster_ip, decision.outside, decision.inside):
        if isinstance(action, Forward) and not any(action is each for each in seen):
            local += [each.address for each in action.endpoints if each.node == node]
        seen.append(action)
    return frozenset(local)


def _external_frontends(port: ServicePort, node_addresses: Sequence[str]) -> Iterable[Frontend]:
    for address in (*port.load_balancer_ips, *port.external_ips):
        yield Frontend(address, port.protocol, port.port)
    if port.node_port:
        for address in node_addresses:
            yield Frontend(address, port.protocol, port.node_port)


def _target(action: Action, port: ServicePort) -> Target:
    match action:
        case Forward(endpoints):
            backends = tuple([each[:2] for each in endpoints[:MOST_ENDPOINTS]])
            return Sticky(backends, port.affinity_seconds) if port.affinity_seconds else backends
        case Drop():
            return "drop"
        case Reject():
            return "reject"


def mark(name: MapName, target: Target) -> int:
    """The mark that stands for a target in map `services` or `external`."""
    match target:
        case "drop":
            return DROP
        case "reject":
            return REJECT
        case Sticky(backends, seconds):
            return seconds << _AFFINITY_SHIFT | first_index(name) | len(backends)
        case _:
            return len(target) | first_index(name)


class Bucket(NamedTuple):
    """What a mark says of the chain to which it leads: a number of endpoints, 0 for drop and reject."""

    endpoints: int
    first: int
    seconds: int

    @classmethod
    def of(cls, mark: int) -> Bucket:
        """Take a mark apart."""
        return cls(mark & MOST_ENDPOINTS, mark & LOCAL_LIST, mark >> _AFFINITY_SHIFT)


def backends_of(target: Target | None) -> tuple[Backend, ...]:
    """Where a target forwards to."""
    match target:
        case Sticky(backends):
            return backends
        case tuple():
            return target
        case _:
            return ()


def identities(name: MapName, backends: Iterable[Backend]) -> list[int]:
    """Numbers under which a frontend with affinity has its backends: the same on every node and after each restart.

    Two that would have the same one get different ones.
    """
    found: dict[int, None] = {}
    for address, port in backends:
        number = crc32(f"{address} {port}".encode()) & ~LOCAL_LIST | first_index(name)
        while number in found:
            number = (number + 1) & 0xFFFFFFFF & ~LOCAL_LIST | first_index(name)
        found[number] = None
    return list(found)


def first_index(name: MapName) -> int:
    """The index of a frontend's first endpoint in map `endpoints`."""
    return LOCAL_LIST if name == "external" else 0


def buckets(ruleset: Ruleset, *, fixed: bool = False) -> list[int]:
    """The marks that lead to a chain that draws an endpoint, and if `fixed` those to drop and reject."""
    marks = {mark("services", target) for target in ruleset.services.values()}
    marks |= {mark("external", target) for target in ruleset.external.values()}
    return sorted(marks | {DROP, REJECT} if fixed else marks - {DROP, REJECT})


def place(current: Target | None, wanted: Target) -> Target:
    """Put the wanted backends into numbered slots, so that few slots change.

    Who has a slot keeps it; new ones fill what became free; a hole at the end is filled from the last slot. So one
    endpoint that comes or goes changes at most one slot and the count.
    """
    if isinstance(wanted, Sticky):
        slots = place(backends_of(current), wanted.backends)
        return replace(wanted, backends=backends_of(slots))
    if not isinstance(current, tuple) or not isinstance(wanted, tuple) or not current:
        return wanted
    kept = set(wanted).intersection(current)
    if len(kept) == len(current) == len(wanted):
        return current
    placed: list[Backend | None] = [each if each in kept else None for each in current]
    fresh = [each for each in wanted if each not in kept]
    for index, each in enumerate(placed):
        if each is None and fresh:
            placed[index] = fresh.pop()
    placed += fresh
    _close_holes(placed)
    return tuple([each for each in placed if each is not None])


def _close_holes(slots: list[Backend | None]) -> None:
    """Move backends from the end into the holes, and drop the empty end."""
    index = 0
    while index < len(slots):
        if slots[-1] is None:
            slots.pop()
        elif slots[index] is None:
            slots[index] = slots.pop()
        else:
            index += 1
