"""Decisions as the content of a few shared maps, and that content as nft text.

kube-proxy makes chains for each Service and one for each endpoint. Here a Service is elements of maps that all Services
share, so that its cost does not grow with the number of Services and a change is a handful of elements:

- `services`: a frontend (address, protocol, port) gives a mark: how many endpoints it has, or drop, or reject.
- `external`: the same for traffic from outside the cluster, where externalTrafficPolicy Local gives another list than
  for traffic from inside. Its marks, and the indexes of its endpoints, are LOCAL_LIST higher, so that the packet's mark
  still tells in postrouting that the client's address must be kept: no further lookup is needed.
- `endpoints`: a frontend and an index give the endpoint. `buckets`: a mark gives the chain that draws the index.
- `hairpin`: the endpoints on this node, which may reach themselves through a Service.

The way goes through the packet's mark because nft 1.0.6 aborts when it lists a rule that puts a random number or the
result of a map into a register of a concatenation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from reference.proxy.decision import Action, Decision, Drop, Family, Forward, Reject, ServicePort

LOCAL_LIST = 0x8000
DROP = 0x10000
REJECT = 0x10001


class Frontend(NamedTuple):
    """What a packet is sent to: an address, a protocol ("TCP", "UDP", "SCTP") and a port."""

    address: str
    protocol: str
    port: int


Backend = tuple[str, int]
"""Where it goes instead: address and port. A plain tuple, since there are many."""


class Stale(NamedTuple):
    """UDP connections to `frontend` that go to `backend` are no longer right.

    A frontend's own address and port as `backend` means those that were never translated, None means all.
    """

    frontend: Frontend
    backend: Backend | None


Target = tuple[Backend, ...] | Literal["drop", "reject"]
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
    target = _target(decision.cluster_ip)
    for address in port.cluster_ips:
        services[Frontend(address, port.protocol, port.port)] = target
    if decision.outside is not None and decision.inside is not None:
        inside, outside = _target(decision.inside), _target(decision.outside)
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


def _target(action: Action) -> Target:
    match action:
        case Forward(endpoints):
            return tuple([each[:2] for each in endpoints])
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
        case _:
            return len(target) + first_index(name)


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
    if not isinstance(current, tuple) or not isinstance(wanted, tuple) or not current:
        return wanted
    kept = set(wanted).intersection(current)
    if len(kept) == len(current) == len(wanted):
        return current
    slots: list[Backend | None] = [each if each in kept else None for each in current]
    fresh = [each for each in wanted if each not in kept]
    for index, each in enumerate(slots):
        if each is None and fresh:
            slots[index] = fresh.pop()
    slots += fresh
    _close_holes(slots)
    return tuple([each for each in slots if each is not None])


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
