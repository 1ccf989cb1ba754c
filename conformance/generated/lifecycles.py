"""The lifecycle of a Service: its successive states, its slices, its clients, and the outcomes that the KEPs require.

A `Lifecycle` is an immutable value, which describes one generated scenario. `strategies` generates scenarios,
`shrinking` reduces failing ones, `yaml_format` reads and writes them, and `traffic` runs them with real packets.
`why_impossible` lists the constraints on scenarios, with reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from conformance import oracle
from conformance.interactions.cells import GONE, LEAVING, NOT_READY, CellEndpoint, as_judged

NODES = ("a1", "a2", "b1", "b2", "c1")

SERVERS = ("a1", "b1", "a2", "b2", "a1", "c1", "a2", "b2", "b1")
"""The node of each server, by server number. Server k listens only on port `FIRST_PORT` + k % `PORTS`."""

FIRST_PORT = 9000
PORTS = 3

CONDITIONS: Mapping[str, Mapping[str, bool | None]] = {
    "ready": {},
    "unwritten": {"ready": None},
    "starts": NOT_READY,
    "leaves": LEAVING,
    "gone": GONE,
}

OF = ("", "another port", "the other family")
"""The values of `Slice.of`: "" for the port and family that clients use. Other slices must not affect clients."""


@dataclass(frozen=True, slots=True)
class SliceEndpoint:
    """An endpoint of a slice: a server number, zone and node hints, and a key of `CONDITIONS`."""

    server: int
    zones: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    condition: str = "ready"

    @property
    def node(self) -> str:
        return SERVERS[self.server]

    @property
    def written(self) -> CellEndpoint:
        return CellEndpoint(self.server, self.zones, self.nodes, CONDITIONS[self.condition])


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice with endpoints whose servers all listen on the same port."""

    name: str
    members: tuple[SliceEndpoint, ...] = ()
    of: str = ""

    @property
    def number(self) -> int:
        """The port on which the servers of the slice listen."""
        return FIRST_PORT + (self.members[0].server % PORTS if self.members else 0)


@dataclass(frozen=True, slots=True)
class State:
    """A Service and its slices between two changes. `zones` pairs nodes with zone labels other than the default.

    `ingress` is True if the status has load balancer addresses. `dual` is True if the Service is dual-stack. `exists`
    is False if the Service is deleted, in which case the slices may remain.
    """

    type: str = "ClusterIP"
    distribution: str | None = None
    internal: oracle.Policy = "Cluster"
    external: oracle.Policy = "Cluster"
    affinity: str = "None"
    external_ips: bool = False
    ingress: bool = True
    dual: bool = False
    exists: bool = True
    slices: tuple[Slice, ...] = ()
    zones: tuple[tuple[str, str], ...] = ()

    def zone_of(self, node: str) -> str:
        """The zone label of a node, or "" if the node has no zone label."""
        return dict(self.zones).get(node, node[0])


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The states of a Service in order, and its clients, which connect to one kind of address from (or via) `nodes`."""

    states: tuple[State, ...]
    protocol: str = "TCP"
    family: str = "IPv4"
    address: oracle.AddressKind = "cluster-ip"
    client: oracle.ClientKind = "pod"
    nodes: tuple[str, ...] = ("a1", "c1")


_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "type": ("ClusterIP", "NodePort", "LoadBalancer"),
    "distribution": (None, "PreferClose", "PreferSameZone", "PreferSameNode"),
    "internal": get_args(oracle.Policy),
    "external": get_args(oracle.Policy),
    "affinity": ("None", "ClientIP"),
    "protocol": ("TCP", "UDP"),
    "family": ("IPv4", "IPv6"),
    "address": get_args(oracle.AddressKind),
    "client": get_args(oracle.ClientKind),
    "ingress": (True, False),
    "exists": (True, False),
}


def choices(name: str) -> tuple[Any, ...]:
    """Return the possible values of a field of `Lifecycle` or `State`, with the simplest value first."""
    return _CHOICES.get(name, (False, True))


def switches() -> tuple[str, ...]:
    """Return the names of the fields of `State` that have a small set of values."""
    return tuple(each.name for each in fields(State) if each.name not in {"slices", "zones"})


LIFECYCLE_FIELDS = ("protocol", "family", "address", "client")
"""The names of the fields of `Lifecycle` that have a small set of values."""


def unusual(what: Lifecycle | State) -> dict[str, Any]:
    """Return the names and values of the fields that do not have their simplest value (see `choices`)."""
    names = LIFECYCLE_FIELDS if isinstance(what, Lifecycle) else switches()
    return {name: value for name in names if (value := getattr(what, name)) != choices(name)[0]}


def hints_asked(state: State) -> tuple[str, ...]:
    """Return the kinds of hints that a Service requests, as field names of `SliceEndpoint`."""
    return {None: (), "PreferSameNode": ("zones", "nodes")}.get(state.distribution, ("zones",))


def of_family(lifecycle: Lifecycle) -> str:
    """Return the IP family that the clients of a scenario do not use."""
    return "IPv6" if lifecycle.family == "IPv4" else "IPv4"


def is_given(lifecycle: Lifecycle, state: State) -> bool:
    """Return whether, in this state, the Service has the kind of address that clients use."""
    return (
        state.exists
        and {
            "cluster-ip": True,
            "node-port": state.type != "ClusterIP",
            "load-balancer": state.type == "LoadBalancer" and state.ingress,
            "external-ip": state.external_ips,
        }[lifecycle.address]
    )


def asked_slices(state: State) -> list[Slice]:
    """Return the slices for the port and IP family that clients use."""
    return [each for each in state.slices if not each.of]


def outcome(lifecycle: Lifecycle, state: State, node: str, reading: oracle.Reading = "kep") -> oracle.Outcome:
    """Return the outcome that the KEPs require for a client on (or via) a node, if the Service has the address."""
    client = oracle.Client(lifecycle.client, node, state.zone_of(node))
    policies = oracle.Policies(state.internal, state.external)
    return oracle.outcome(_judged(state), client, to=lifecycle.address, policies=policies, reading=reading)


def _judged(state: State) -> list[oracle.Endpoint]:
    members = dict.fromkeys(member for each in asked_slices(state) for member in each.members)
    return [as_judged(each.written, each.node) for each in members]


def told(lifecycle: Lifecycle, state: State, node: str) -> frozenset[int]:
    """Return the servers that must all answer a client that connects often, or an empty set if none may answer."""
    found = outcome(lifecycle, state, node) if is_given(lifecycle, state) else None
    return frozenset(map(int, found.pods)) if isinstance(found, oracle.AllowedPods) else frozenset()


def meanwhile(lifecycle: Lifecycle, before: State, after: State, node: str) -> frozenset[int]:
    """Return the servers that may answer a client during the change from `before` to `after`.

    During a change a proxy may have processed any subset of the writes. So every endpoint that is usable before or
    after the change may answer, unless a `Local` policy applies throughout and the endpoint is on another node.
    """
    return _usable(lifecycle, before, node, (before, after)) | _usable(lifecycle, after, node, (before, after))


def _usable(lifecycle: Lifecycle, state: State, node: str, both: tuple[State, State]) -> frozenset[int]:
    client = oracle.Client(lifecycle.client, node, state.zone_of(node))
    ruling = [
        oracle.governing(client, lifecycle.address, oracle.Policies(each.internal, each.external)) for each in both
    ]
    return frozenset(
        int(each.pod)
        for each in _judged(state)
        if oracle.is_usable(each) and not (ruling == ["Local", "Local"] and each.node != node)
    )


def may_not_lose(lifecycle: Lifecycle, before: State, after: State, node: str) -> bool:
    """Return whether a change must not lose connections: True if only hints change and an endpoint stays allowed.

    A proxy ignores hints while some endpoint has none, for "safer transitions" (KEP-4444, Changes within kube-proxy).
    The KEP does not say whether connections may be lost during other changes.
    """
    stays = bool(told(lifecycle, before, node) & told(lifecycle, after, node))
    return stays and before.zones == after.zones and _without_hints(before) == _without_hints(after)


def _without_hints(state: State) -> State:
    bare = tuple(
        replace(each, members=tuple(replace(member, zones=(), nodes=()) for member in each.members))
        for each in state.slices
    )
    return replace(state, distribution=None, slices=bare)


def follows_hints(lifecycle: Lifecycle) -> bool:
    """Return whether hints determine the outcome for any client in any state."""
    found = [outcome(lifecycle, state, node) for state in lifecycle.states for node in lifecycle.nodes]
    return any(isinstance(each, oracle.AllowedPods) and each.by in {"zone hints", "node hints"} for each in found)


def needs_more(lifecycle: Lifecycle) -> bool:
    """Return whether a scenario requires extended features: IPv6, session affinity or external addresses."""
    return (
        lifecycle.family == "IPv6"
        or lifecycle.address in {"load-balancer", "external-ip"}
        or any(
            each.dual or each.external_ips or each.type == "LoadBalancer" or each.affinity == "ClientIP"
            for each in lifecycle.states
        )
    )


def group_of(lifecycle: Lifecycle) -> tuple[str, bool]:
    """Return the group of a scenario: "core" or "all" features, and whether hints determine an outcome."""
    return "all" if needs_more(lifecycle) else "core", follows_hints(lifecycle)


def why_impossible(lifecycle: Lifecycle) -> str:
    """Return why a scenario cannot be tested or has no defined outcome, or "" if it can be tested."""
    if lifecycle.address == "cluster-ip" and lifecycle.client == "external":
        return "external clients have no route to a cluster IP"
    if lifecycle.address == "node-port" and lifecycle.family == "IPv6":
        return "a proxy may serve node ports only on addresses of one family (--nodeport-addresses)"
    if why := next((why for state in lifecycle.states for why in _of_state(lifecycle, state)), ""):
        return why
    if not any(told(lifecycle, lifecycle.states[0], node) for node in lifecycle.nodes):
        return "no endpoint may answer in the first state, so a proxy that never answers would pass"
    return ""


def _of_state(lifecycle: Lifecycle, state: State) -> Iterator[str]:
    unasked = {"zones", "nodes"} - {*hints_asked(state)}
    members = [member for each in state.slices for member in each.members]
    if state.type == "ClusterIP" and (state.external == "Local" or state.external_ips):
        yield "the API accepts externalTrafficPolicy only for external addresses"
    if any(getattr(member, name) for member in members for name in unasked):
        yield "a proxy may ignore hints of a kind that the Service does not request"
    if any(len({member.server % PORTS for member in each.members}) > 1 for each in state.slices):
        yield "all endpoints of a slice must have the same port"
    if any(len({member.server for member in each.members}) < len(each.members) for each in state.slices):
        yield "a slice contains each address only once"
    if not state.dual and any(each.of == OF[2] for each in state.slices):
        yield "a single-stack Service has no slices of the other family"
    own = {member for each in asked_slices(state) for member in each.members}
    if len({member.server for member in own}) < len(own):
        yield "no KEP covers an address that two slices describe differently"
    for node in lifecycle.nodes:
        found = outcome(lifecycle, state, node)
        if isinstance(found, oracle.UndefinedOutcome):
            yield f"undefined: {found.why}"
        elif found != outcome(lifecycle, state, node, "released"):
            yield "KEP-3015 and released Kubernetes differ on unready endpoints without hints"
