"""Turns decisions into elements of a few nftables maps that all Services share.

kube-proxy creates chains for each Service and a chain for each endpoint. In this proxy, a Service is a few elements of
shared maps. So a packet's cost does not grow with the number of Services, and a change affects few elements:

- `services` maps a service address (address, protocol, port) to a mark. The mark represents an action: forward to a
  number of endpoints, drop, or reject.
- `external` does the same for external traffic, and for traffic from pods on other nodes to node ports, if
  externalTrafficPolicy is `Local`: other in-cluster traffic may use all endpoints. The marks in this map have the bit
  LOCAL_LIST, and so have the indexes of the endpoints that these marks select. So in postrouting the mark of a packet
  shows, without another lookup, that the client's address must be preserved.
- `actions` maps a mark to the chain that executes the action, for example by selecting an index at random.
- `endpoints` maps a service address and an index to an endpoint.
- `hairpin` contains the endpoints on this node or on no known node, which may connect to themselves through a Service.
- `ranges` maps a service address with source ranges to the chain that drops packets of all other clients.
- `affinity`, which the kernel fills, maps a client and a service address to the identity of an endpoint, for the
  timeout of the Service. With session affinity, `endpoints` is keyed by identity, and `identities` maps an index to an
  identity. The identity depends only on the endpoint. So the clients of an endpoint that moves to another index stay
  with it, and the clients of a removed endpoint find no endpoint.
- `tags`, which the kernel fills, contains a tag (see `flows`) for each pair of service address and endpoint with a UDP
  connection. The tag stays until the endpoint has left the Service and its connections are deleted.

The index is passed through the packet's mark because nft 1.0.6 aborts when it lists a rule that puts a random number or
the result of a map into a register of a concatenation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple
from zlib import crc32

from reference.proxy.decision import Action, Decision, Drop, Family, Forward, Reject, ServicePort

# A mark has 14 bits for the number of endpoints, one for the Local list, and 17 for the seconds of session affinity.
# In the marks of drop and reject, the number of endpoints is 0.
LOCAL_LIST = 0x4000
DROP = 0
REJECT = LOCAL_LIST

MOST_ENDPOINTS = LOCAL_LIST - 1
"""The maximum number of endpoints that are used for one service address. Additional endpoints are ignored."""

_AFFINITY_SHIFT = 15


class ServiceAddress(NamedTuple):
    """An address of a service port to which clients connect: address, protocol ("TCP", "UDP", "SCTP") and port."""

    address: str
    protocol: str
    port: int


Endpoint = tuple[str, int]
"""An address and a port. It is a plain tuple because rulesets contain many endpoints."""


class StaleUdp(NamedTuple):
    """UDP connections to a service address that still go to an endpoint that has left the Service.

    If `endpoint` is the service's own address and port, the connections were never translated.
    """

    service: ServiceAddress
    endpoint: Endpoint

    @property
    def untranslated(self) -> bool:
        return self.endpoint == self.service[::2]


@dataclass(frozen=True, slots=True)
class StickyEndpoints:
    """Endpoints with session affinity: a client keeps its endpoint until it has been idle for `seconds`."""

    endpoints: tuple[Endpoint, ...]
    seconds: int


RuleAction = tuple[Endpoint, ...] | StickyEndpoints | Literal["drop", "reject"]
"""The action for connections to a service address: forward to one of these endpoints, drop, or reject."""

SourceRanges = tuple[str, ...]
"""The CIDRs of the clients that may use a service address, sorted."""

MapName = Literal["services", "external"]


@dataclass(frozen=True, slots=True)
class PortEntries:
    """The entries of one service port in one node's ruleset of one IP family."""

    services: Mapping[ServiceAddress, RuleAction]
    external: Mapping[ServiceAddress, RuleAction]
    hairpin: frozenset[str]
    ranges: Mapping[ServiceAddress, SourceRanges] = field(default_factory=dict)


NOTHING = PortEntries({}, {}, frozenset())


@dataclass(frozen=True, slots=True)
class Ruleset:
    """All rules of one IP family on one node. `pods` are all pod CIDRs, `own` this node's CIDRs and addresses."""

    family: Family
    pods: tuple[str, ...]
    own: tuple[str, ...]
    services: Mapping[ServiceAddress, RuleAction]
    external: Mapping[ServiceAddress, RuleAction]
    hairpin: frozenset[str]
    ranges: Mapping[ServiceAddress, SourceRanges] = field(default_factory=dict)


def render(port: ServicePort, decision: Decision, node: str, node_addresses: Sequence[str]) -> PortEntries:
    """Return the entries of one service port on `node`; `node_addresses` are the node's addresses of this family."""
    services: dict[ServiceAddress, RuleAction] = {}
    external: dict[ServiceAddress, RuleAction] = {}
    action = _rule_action(decision.cluster_ip, port)
    for address in port.cluster_ips:
        services[ServiceAddress(address, port.protocol, port.port)] = action
    if decision.outside is not None and decision.inside is not None:
        inside, outside = _rule_action(decision.inside, port), _rule_action(decision.outside, port)
        for service in _external_addresses(port, node_addresses):
            services[service] = inside
            if port.external_local:
                external[service] = outside
    restricted = port.load_balancer_ips if port.source_ranges else ()
    ranges = {ServiceAddress(each, port.protocol, port.port): port.source_ranges for each in restricted}
    return PortEntries(services, external, _local_addresses(decision, node), ranges)


def _local_addresses(decision: Decision, node: str) -> frozenset[str]:
    """Return the addresses of the endpoints in use on this node, including endpoints without nodeName."""
    actions = {id(each): each for each in (decision.cluster_ip, decision.outside, decision.inside)}.values()
    endpoints = [each for action in actions if isinstance(action, Forward) for each in action.endpoints]
    return frozenset([each.address for each in endpoints if each.node in (node, "")])


def _external_addresses(port: ServicePort, node_addresses: Sequence[str]) -> Iterable[ServiceAddress]:
    for address in (*port.load_balancer_ips, *port.external_ips):
        yield ServiceAddress(address, port.protocol, port.port)
    if port.node_port:
        for address in node_addresses:
            yield ServiceAddress(address, port.protocol, port.node_port)


def _rule_action(action: Action, port: ServicePort) -> RuleAction:
    match action:
        case Forward(endpoints):
            used = tuple([each[:2] for each in endpoints[:MOST_ENDPOINTS]])
            return StickyEndpoints(used, port.affinity_seconds) if port.affinity_seconds else used
        case Drop():
            return "drop"
        case Reject():
            return "reject"


def mark(name: MapName, action: RuleAction) -> int:
    """Return the mark of an action in the map `services` or `external`."""
    match action:
        case "drop":
            return DROP
        case "reject":
            return REJECT
        case StickyEndpoints(endpoints, seconds):
            return seconds << _AFFINITY_SHIFT | first_index(name) | len(endpoints)
        case _:
            return len(action) | first_index(name)


class DecodedMark(NamedTuple):
    """A decoded mark: number of endpoints (0: drop or reject), first index, and affinity timeout in seconds."""

    endpoints: int
    first: int
    seconds: int

    @classmethod
    def of(cls, mark: int) -> "DecodedMark":
        return cls(mark & MOST_ENDPOINTS, mark & LOCAL_LIST, mark >> _AFFINITY_SHIFT)


def endpoints_of(action: RuleAction | None) -> tuple[Endpoint, ...]:
    match action:
        case StickyEndpoints(endpoints):
            return endpoints
        case tuple():
            return action
        case _:
            return ()


def identities(name: MapName, endpoints: Iterable[Endpoint]) -> list[int]:
    """Return a unique number for each endpoint, the same on all nodes and after restarts, for session affinity."""
    found: dict[int, None] = {}
    for address, port in endpoints:
        number = crc32(f"{address} {port}".encode()) & ~LOCAL_LIST | first_index(name)
        while number in found:
            number = (number + 1) & 0xFFFFFFFF & ~LOCAL_LIST | first_index(name)
        found[number] = None
    return list(found)


def first_index(name: MapName) -> int:
    """Return the index of a service address's first endpoint in the map `endpoints`."""
    return LOCAL_LIST if name == "external" else 0


def marks(ruleset: Ruleset, *, fixed: bool = False) -> list[int]:
    """Return the marks of all forward actions, and with `fixed` also the marks of drop and reject, sorted."""
    found = {mark("services", action) for action in ruleset.services.values()}
    found |= {mark("external", action) for action in ruleset.external.values()}
    return sorted(found | {DROP, REJECT} if fixed else found - {DROP, REJECT})


def place(current: RuleAction | None, wanted: RuleAction) -> RuleAction:
    """Assign the desired endpoints to numbered slots, with few changes from `current`.

    An endpoint keeps its slot, and new endpoints fill free slots. Then endpoints in the last slots fill the remaining
    free slots. So adding or removing an endpoint changes at most one slot and the count.
    """
    if isinstance(wanted, StickyEndpoints):
        slots = place(endpoints_of(current), wanted.endpoints)
        return replace(wanted, endpoints=endpoints_of(slots))
    if not isinstance(current, tuple) or not isinstance(wanted, tuple) or not current:
        return wanted
    kept = set(wanted).intersection(current)
    if len(kept) == len(current) == len(wanted):
        return current
    placed: list[Endpoint | None] = [each if each in kept else None for each in current]
    fresh = [each for each in wanted if each not in kept]
    for index, each in enumerate(placed):
        if each is None and fresh:
            placed[index] = fresh.pop()
    placed += fresh
    _close_holes(placed)
    return tuple([each for each in placed if each is not None])


def _close_holes(slots: list[Endpoint | None]) -> None:
    index = 0
    while index < len(slots):
        if slots[-1] is None:
            slots.pop()
        elif slots[index] is None:
            slots[index] = slots.pop()
        else:
            index += 1
