"""The decision of one node for one service port: forward to these endpoints, drop, or reject, and why.

This is all of topology-aware routing, as a function over values. It follows kube-proxy's CategorizeEndpoints: the hints
of the *ready* endpoints choose one mode for the node, all-or-nothing (KEP-2433, KEP-4444, KEP-3015); a list that would
be empty falls back to endpoints that terminate and still serve (KEP-1669); the Local list of a traffic policy is never
filtered by hints (KEP-2086).

Neither `spec.trafficDistribution` nor an endpoint's own zone and node decide: only hints do. The node's name counts for
the Local lists alone.

Topology keys (KEP-536), with gate ServiceTopology, replace hints where a Service has any. The order is:

1. A traffic policy Local. Its traffic goes to the Local list, which neither keys nor hints filter. KEP-536 excludes
   keys beside externalTrafficPolicy Local; the later internalTrafficPolicy is treated alike.
2. Topology keys: a requirement, and connections fail where it cannot be met. All endpoints of the deciding key are
   equal ("we will randomly pick one by default").
3. Hints: a preference. They and trafficDistribution are ignored on a Service with topology keys.

An endpoint that terminates and still serves meets a key only where no ready one meets any.

That order is a reading of the texts. Released kube-proxy used nothing else while the gate was on: neither
internalTrafficPolicy nor hints, also for Services without keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from reference.features import Features
from reference.objects.topology_keys import ANY, Labels, first_match

Family = Literal["IPv4", "IPv6"]
Protocol = Literal["TCP", "UDP", "SCTP"]
Mode = Literal["", "PreferSameNode", "PreferSameZone", "TopologyKeys"]


class Endpoint(NamedTuple):
    """One endpoint address and port. A tuple, because a slice of 100 is read again at each event."""

    address: str
    port: int
    ready: bool = True
    serving: bool = True
    terminating: bool = False
    node: str = ""
    zone_hints: frozenset[str] = frozenset()
    node_hints: frozenset[str] = frozenset()
    labels: Labels = frozenset()  # of its node; only where the Service has topology keys


@dataclass(frozen=True, slots=True)
class ServicePort:
    """One port of one Service, with its addresses of one IP family. `node_port` is 0 where there is none.

    `affinity_seconds` is how long an idle client keeps its endpoint; 0 without session affinity. `source_ranges` are
    the CIDRs of the clients that may use its load balancer IPs; empty: all.
    """

    namespace: str
    name: str
    port_name: str
    protocol: Protocol
    port: int
    node_port: int = 0
    cluster_ips: tuple[str, ...] = ()
    load_balancer_ips: tuple[str, ...] = ()
    external_ips: tuple[str, ...] = ()
    internal_local: bool = False
    external_local: bool = False
    topology_annotation: str = ""
    affinity_seconds: int = 0
    topology_keys: tuple[str, ...] = ()
    source_ranges: tuple[str, ...] = ()

    @property
    def externally_accessible(self) -> bool:
        """True if it has external addresses; else externalTrafficPolicy has no meaning."""
        return bool(self.node_port or self.load_balancer_ips or self.external_ips)

    @property
    def addresses(self) -> str:
        """The addresses of the service port by kind, for people."""
        kinds = (
            ("cluster IP", self.cluster_ips),
            ("node port", (str(self.node_port),) if self.node_port else ()),
            ("load balancer IP", self.load_balancer_ips),
            ("external IP", self.external_ips),
        )
        return ", ".join(f"{kind} {' '.join(each)}" for kind, each in kinds if each)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}:{self.port_name or self.port}/{self.protocol}"


@dataclass(frozen=True, slots=True)
class Place:
    """The node of the proxy: its name, and the value of its zone label ("" without one).

    `labels` are all those of the node; only set if the Service has topology keys.
    """

    node: str
    zone: str = ""
    labels: Labels = frozenset()


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The differences between Kubernetes releases in what a proxy decides."""

    internal_policy: bool
    terminating_fallback: bool
    zone_hints: bool
    node_hints: bool
    annotation: Literal["unused", "any", "auto"]
    zone_label_needed: bool
    topology_keys: bool
    keys_alone: bool = False

    @classmethod
    def of(cls, features: Features) -> Behaviour:
        """Return the behaviour of a version and its gates (KEP-2433 until 1.29, KEP-4444 from its gate on).

        Node hints are the same in both texts of KEP-3015, of 2022 and of 2025.
        """
        annotation: Literal["unused", "any", "auto"] = "any" if features.at_least(27) else "auto"
        keys = features.enabled("ServiceTopology")
        alone = keys and features.follows == "released"
        return cls(
            internal_policy=features.enabled("ServiceInternalTrafficPolicy") and not alone,
            terminating_fallback=features.enabled("ProxyTerminatingEndpoints"),
            zone_hints=features.enabled("TopologyAwareHints"),
            node_hints=features.enabled("PreferSameTrafficDistribution") or features.enabled("NodeLevelTopology"),
            annotation="unused" if features.enabled("ServiceTrafficDistribution") else annotation,
            zone_label_needed=not features.at_least(30),
            topology_keys=keys,
            keys_alone=alone,
        )


NEWEST = Behaviour.of(Features())


@dataclass(frozen=True, slots=True)
class Forward:
    """Each new connection goes to a random one of these endpoints. Never empty.

    `local`: a traffic policy Local applies, so all of them are on this node.
    """

    endpoints: tuple[Endpoint, ...]
    reason: str
    local: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """The client gets no answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class Reject:
    """The client is refused: TCP reset, ICMP port unreachable."""

    reason: str


Action = Forward | Drop | Reject


@dataclass(frozen=True, slots=True)
class Decision:
    """The actions of a node for one service port.

    `cluster_ip` is for traffic to the cluster IP. `outside` and `inside` are for traffic to node port, load balancer
    IPs and external IPs, from outside the cluster and from its pods and this node; None without such addresses. Pods of
    other nodes count as outside at this node's ports.
    """

    mode: Mode
    hints: str
    cluster_ip: Action
    outside: Action | None = None
    inside: Action | None = None

    @property
    def reachable(self) -> frozenset[Endpoint]:
        """Every endpoint that any traffic may reach through this node."""
        actions = (self.cluster_ip, self.outside, self.inside)
        return frozenset(each for action in actions if isinstance(action, Forward) for each in action.endpoints)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The decision in sentences for people."""
        lines = [f"cluster IP: {describe(self.cluster_ip)}"]
        if self.outside is not None and self.inside is not None:
            lines.append(f"external addresses, from outside: {describe(self.outside)}")
            lines.append(f"external addresses, from inside: {describe(self.inside)}")
        return (self.hints, *lines)


def describe(action: Action) -> str:
    match action:
        case Forward(endpoints, reason):
            return f"forward to {', '.join(each.address for each in endpoints)} ({reason})"
        case Drop(reason):
            return f"drop ({reason})"
        case Reject(reason):
            return f"reject ({reason})"


def decide(port: ServicePort, endpoints: Iterable[Endpoint], place: Place, behaviour: Behaviour = NEWEST) -> Decision:
    """Decide for one service port on one node.

    `endpoints` are all endpoints of this port, protocol and IP family, from all slices. The same address and port may
    occur several times.
    """
    known = _distinct(endpoints, place.node)
    ready = [each for each in known if each.ready]
    terminating = _terminating(known) if behaviour.terminating_fallback else []
    if not ready and not terminating:
        return _reject_all(port, known)

    internal_local = port.internal_local and behaviour.internal_policy
    external_local = port.external_local and port.externally_accessible
    mode: Mode = ""
    hints = "hints not used: only the Local list is"
    cluster: Action | None = None
    if not internal_local or port.externally_accessible:
        if port.topology_keys and behaviour.topology_keys:
            mode, hints = "TopologyKeys", "hints not used: the Service has topology keys"
            cluster = _keyed_list(port, ready, terminating, place)
        else:
            mode, hints = _mode(port, ready, place, behaviour)
            cluster = _cluster_list(ready, terminating, mode, place)
    local = _local_list(ready, terminating, place.node) if internal_local or external_local else None

    to_cluster_ip = _under_local_policy("internalTrafficPolicy", local) if internal_local else cluster
    assert to_cluster_ip is not None, "a service uses the Cluster list, or the Local list"
    if not port.externally_accessible:
        return Decision(mode, hints, to_cluster_ip)
    outside = _under_local_policy("externalTrafficPolicy", local) if external_local else cluster
    return Decision(mode, hints, to_cluster_ip, outside=outside, inside=cluster)


def _distinct(endpoints: Iterable[Endpoint], node: str) -> Sequence[Endpoint]:
    """Return one endpoint for each address and port; a local one wins."""
    endpoints = list(endpoints)
    if len({each.address for each in endpoints}) == len(endpoints):
        return endpoints
    found: dict[tuple[str, int], Endpoint] = {}
    for each in endpoints:
        if found.setdefault(each[:2], each) is not each and each.node == node:
            found[each[:2]] = each
    return list(found.values())


def _terminating(endpoints: Iterable[Endpoint]) -> list[Endpoint]:
    return [each for each in endpoints if each.terminating and each.serving and not each.ready]


def _reject_all(port: ServicePort, known: Sequence[Endpoint]) -> Decision:
    why = f"none of {len(known)} endpoints is ready, or serves while it terminates" if known else "no endpoint at all"
    reject = Reject(why)
    external = reject if port.externally_accessible else None
    return Decision("", "hints not used: no endpoint is ready", reject, outside=external, inside=external)


def _mode(port: ServicePort, ready: Sequence[Endpoint], place: Place, behaviour: Behaviour) -> tuple[Mode, str]:
    """Choose the mode from the hints of the ready endpoints; returns it with the reason."""
    if not ready or behaviour.keys_alone:
        return "", f"hints not used: {'gate ServiceTopology is on' if ready else 'no endpoint is ready'}"
    set_aside = []
    if behaviour.node_hints:
        why = _why_not("node", ready, [each.node_hints for each in ready], place.node)
        if not why:
            return "PreferSameNode", f"hints name node {place.node}"
        set_aside += [why] if any(each.node_hints for each in ready) else []
    if refused := _hints_refused(port, place, behaviour):
        return "", refused
    why = _why_not("zone", ready, [each.zone_hints for each in ready], place.zone)
    if not why:
        return "PreferSameZone", f"hints name zone {place.zone or '(none)'}"
    if not any(each.zone_hints or each.node_hints for each in ready):
        return "", "no endpoint has hints"
    return "", "hints set aside: " + "; ".join([*set_aside, why])


def _hints_refused(port: ServicePort, place: Place, behaviour: Behaviour) -> str:
    """Return why a release before KEP-4444 does not use zone hints at all; "" if it does."""
    value = port.topology_annotation
    wanted = ("auto", "Auto")
    if not behaviour.zone_hints:
        return "hints not used: gate TopologyAwareHints is off"
    if behaviour.annotation == "auto" and value not in wanted:
        return f"hints not used: topology annotation is {value!r}, not Auto"
    if behaviour.annotation == "any" and value in {"", "disabled", "Disabled"}:
        return f"hints not used: topology annotation is {value!r}"
    if behaviour.zone_label_needed and not place.zone:
        return f"hints not used: node {place.node} has no zone label"
    return ""


def _why_not(kind: str, ready: Sequence[Endpoint], hints: Sequence[frozenset[str]], mine: str) -> str:
    """Return why hints of one kind cannot decide here; "" if they can. The fallback is for all endpoints or none."""
    if not all(hints):
        return f"endpoint {ready[hints.index(frozenset())].address} has no {kind} hint"
    if not any(mine in each for each in hints):
        return f"no endpoint is hinted for {kind} {mine or '(none)'}"
    return ""


def _keyed_list(
    port: ServicePort, ready: Sequence[Endpoint], terminating: Sequence[Endpoint], place: Place
) -> Forward | Reject:
    """Return the endpoints that the topology keys of a Service leave: its Cluster list."""
    for usable, state in ((ready, "ready"), (terminating, "terminating, still serving")):
        key, chosen = first_match(port.topology_keys, place.labels, usable, lambda each: each.labels)
        if chosen:
            here = "any node" if key == ANY else f"{key}={dict(place.labels)[key]}"
            return Forward(chosen, f"topology key {key}: {len(chosen)} of {len(usable)} {state} endpoints on {here}")
    return Reject(
        f"no endpoint for topology keys {', '.join(port.topology_keys)}, {len(ready) or len(terminating)} others"
    )


def _cluster_list(ready: Sequence[Endpoint], terminating: Sequence[Endpoint], mode: Mode, place: Place) -> Forward:
    if not ready:
        return Forward(tuple(terminating), f"no endpoint is ready; {len(terminating)} terminate and still serve")
    match mode:
        case "PreferSameNode":
            chosen = tuple(each for each in ready if place.node in each.node_hints)
            return Forward(chosen, f"{len(chosen)} of {len(ready)} ready endpoints are hinted for node {place.node}")
        case "PreferSameZone":
            chosen = tuple(each for each in ready if place.zone in each.zone_hints)
            return Forward(chosen, f"{len(chosen)} of {len(ready)} ready endpoints are hinted for zone {place.zone}")
        case _:
            return Forward(tuple(ready), f"all {len(ready)} ready endpoints")


def _local_list(ready: Sequence[Endpoint], terminating: Sequence[Endpoint], node: str) -> Action:
    """Return the endpoints on this node. Called only if some endpoint is usable somewhere."""
    if chosen := tuple(each for each in ready if each.node == node):
        return Forward(chosen, f"{len(chosen)} ready endpoints on node {node}")
    if chosen := tuple(each for each in terminating if each.node == node):
        return Forward(chosen, f"none is ready on node {node}; {len(chosen)} there terminate and still serve")
    return Drop(f"no usable endpoint on node {node}, {len(ready) or len(terminating)} elsewhere")


def _under_local_policy(policy: str, local: Action | None) -> Action:
    match local:
        case Forward(endpoints, reason):
            return Forward(endpoints, f"{policy} Local: {reason}", local=True)
        case Drop(reason):
            return Drop(f"{policy} Local: {reason}")
        case Reject() | None:
            raise AssertionError("a Local list forwards or drops")
