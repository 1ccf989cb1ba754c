"""Decides what a node does with connections to one service port: forward to some endpoints, drop, or reject.

This module implements all of topology-aware routing as a pure function. It follows kube-proxy's CategorizeEndpoints.
The hints of all *ready* endpoints together select one mode for the node, such as PreferSameZone (KEP-2433, KEP-4444,
KEP-3015). If no endpoint in a list is ready, endpoints that are terminating but still serving are used (KEP-1669). The
Local list (the endpoints on this node, for the traffic policy `Local`) is never filtered by hints (KEP-2086).

`spec.trafficDistribution` and an endpoint's own zone and node do not influence the mode; only hints do. The node of an
endpoint is used only for the Local lists, and to choose among duplicates.

If the ServiceTopology gate is enabled, a Service's topology keys (KEP-536) replace hints. The order of precedence is:

1. The traffic policy `Local`: traffic goes to the Local list, which neither keys nor hints filter. KEP-536 forbids keys
   together with externalTrafficPolicy `Local`. internalTrafficPolicy, which is newer, is treated in the same way.
2. Topology keys: they are a requirement, so connections fail if no key matches. All endpoints of the first matching key
   are used equally ("we will randomly pick one by default").
3. Hints: they are a preference. Hints and trafficDistribution are ignored on a Service with topology keys.

An endpoint that is terminating but still serving matches a key only if no ready endpoint matches any key.

The KEPs do not state this order explicitly; it is our interpretation. While the ServiceTopology gate was enabled,
released kube-proxy used only topology keys. It ignored internalTrafficPolicy and hints, even for Services without keys.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from reference.features import Features
from reference.objects.topology_keys import ANY, Labels, first_match

Family = Literal["IPv4", "IPv6"]
Protocol = Literal["TCP", "UDP", "SCTP"]
Mode = Literal["", "PreferSameNode", "PreferSameZone", "TopologyKeys"]


class Endpoint(NamedTuple):
    """One endpoint address and port. It is a tuple for speed, because up to 100 endpoints are read for each event."""

    address: str
    port: int
    ready: bool = True
    serving: bool = True
    terminating: bool = False
    node: str = ""
    zone_hints: frozenset[str] = frozenset()
    node_hints: frozenset[str] = frozenset()
    labels: Labels = frozenset()  # of the endpoint's node; empty without topology keys


@dataclass(frozen=True, slots=True)
class ServicePort:
    """One port of one Service, with its addresses of one IP family. Without a node port, `node_port` is 0.

    `affinity_seconds` is the time for which an idle client keeps its endpoint, or 0 without session affinity.
    `source_ranges` are the CIDRs of the clients that may use the load balancer IPs; if empty, all clients may use them.
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
        """True if the port has external addresses. Otherwise externalTrafficPolicy has no effect."""
        return bool(self.node_port or self.load_balancer_ips or self.external_ips)

    @property
    def addresses(self) -> str:
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
class OwnNode:
    """The node of the proxy. `zone` is "" without a zone label. `labels` is empty without topology keys."""

    node: str
    zone: str = ""
    labels: Labels = frozenset()


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The features of a Kubernetes release that influence the decisions of a proxy."""

    internal_policy: bool
    terminating_fallback: bool
    zone_hints: bool
    node_hints: bool
    annotation: Literal["unused", "any", "auto"]
    zone_label_needed: bool
    topology_keys: bool
    external_ips: bool = True
    keys_alone: bool = False

    @classmethod
    def of(cls, features: Features) -> "Behaviour":
        """Return the behaviour of a proxy with `features`.

        With the gate of KEP-4444, a proxy ignores the annotation of KEP-2433. It uses node hints in the same way in
        both versions of KEP-3015 (2022 and 2025).
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
            external_ips=not features.at_least(36) or features.enabled("AllowServiceExternalIPs"),
            keys_alone=alone,
        )


NEWEST = Behaviour.of(Features())


@dataclass(frozen=True, slots=True)
class Forward:
    """Each new connection goes to one of these endpoints at random. `endpoints` is never empty.

    If `local` is true, the traffic policy `Local` applies, and all endpoints are on this node.
    """

    endpoints: tuple[Endpoint, ...]
    reason: str
    local: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """The node drops the packets of a new connection, so the client receives no reply."""

    reason: str


@dataclass(frozen=True, slots=True)
class Reject:
    """The client receives a rejection (a TCP reset or an ICMP port unreachable message)."""

    reason: str


Action = Forward | Drop | Reject


@dataclass(frozen=True, slots=True)
class Decision:
    """The actions of a node for one service port.

    `cluster_ip` is for traffic to the cluster IP. `outside` and `inside` are for traffic to the node port, load
    balancer IPs and external IPs: `outside` from external clients, `inside` from pods and this node. Both fields are
    None if there are no such addresses. For node ports, pods on other nodes count as external clients.
    """

    mode: Mode
    hints: str
    cluster_ip: Action
    outside: Action | None = None
    inside: Action | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        lines = [f"cluster IP: {describe(self.cluster_ip)}"]
        if self.outside is not None and self.inside is not None:
            lines.append(f"external addresses, from external clients: {describe(self.outside)}")
            lines.append(f"external addresses, from in-cluster clients: {describe(self.inside)}")
        return (self.hints, *lines)


def describe(action: Action) -> str:
    match action:
        case Forward(endpoints, reason):
            return f"forward to {', '.join(each.address for each in endpoints)} ({reason})"
        case Drop(reason):
            return f"drop ({reason})"
        case Reject(reason):
            return f"reject ({reason})"


def decide(port: ServicePort, endpoints: Iterable[Endpoint], place: OwnNode, behaviour: Behaviour = NEWEST) -> Decision:
    """Return the decision for one service port on one node.

    `endpoints` contains all endpoints of this port, protocol and IP family, from all slices. Duplicates may occur.
    """
    known = _distinct(endpoints, place.node)
    ready = [each for each in known if each.ready]
    terminating = [each for each in known if each.terminating and each.serving and not each.ready]
    terminating = terminating if behaviour.terminating_fallback else []
    if not ready and not terminating:
        return _reject_all(port, known)

    internal_local = port.internal_local and behaviour.internal_policy
    external_local = port.external_local and port.externally_accessible
    mode: Mode = ""
    hints = "hints not used: the Local list ignores them"
    cluster: Action | None = None
    if not internal_local or port.externally_accessible:
        if port.topology_keys and behaviour.topology_keys:
            mode, hints = "TopologyKeys", "hints not used: the Service has topology keys"
            cluster = _keyed_list(port, ready, terminating, place)
        else:
            mode, hints = _mode(port, ready, place, behaviour)
            cluster = _cluster_list(ready, terminating, mode, place)

    def local_list(policy: str) -> Action:
        return _local_list(policy, ready, terminating, place.node)

    to_cluster_ip = local_list("internalTrafficPolicy") if internal_local else cluster
    assert to_cluster_ip is not None, "a service uses the Cluster list, or the Local list"
    if not port.externally_accessible:
        return Decision(mode, hints, to_cluster_ip)
    outside = local_list("externalTrafficPolicy") if external_local else cluster
    return Decision(mode, hints, to_cluster_ip, outside=outside, inside=cluster)


def _distinct(endpoints: Iterable[Endpoint], node: str) -> Sequence[Endpoint]:
    """Return one endpoint for each address and port. Prefer ready, then non-terminating, then serving, then local ones.

    A network plugin may assign the address of a terminating pod to a new pod while the slices still contain both pods.
    """
    endpoints = list(endpoints)
    if len({each.address for each in endpoints}) == len(endpoints):
        return endpoints
    endpoints.sort(key=lambda each: (each.ready, not each.terminating, each.serving, each.node == node))
    return list({each[:2]: each for each in endpoints}.values())  # keeps the last of each address and port


def _reject_all(port: ServicePort, known: Sequence[Endpoint]) -> Decision:
    why = f"no endpoint of {len(known)} is ready, or terminating but still serving" if known else "no endpoint at all"
    reject = Reject(why)
    external = reject if port.externally_accessible else None
    return Decision("", "hints not used: no endpoint is ready", reject, outside=external, inside=external)


def _mode(port: ServicePort, ready: Sequence[Endpoint], place: OwnNode, behaviour: Behaviour) -> tuple[Mode, str]:
    if not ready or behaviour.keys_alone:
        return "", f"hints not used: {'the ServiceTopology gate is enabled' if ready else 'no endpoint is ready'}"
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


def _hints_refused(port: ServicePort, place: OwnNode, behaviour: Behaviour) -> str:
    """Return the reason why the release ignores all zone hints of this Service, or "" if it uses zone hints."""
    value = port.topology_annotation
    wanted = ("auto", "Auto")
    if not behaviour.zone_hints:
        return "hints not used: the TopologyAwareHints gate is disabled"
    if behaviour.annotation == "auto" and value not in wanted:
        return f"hints not used: topology annotation is {value!r}, not Auto"
    if behaviour.annotation == "any" and value in {"", "disabled", "Disabled"}:
        return f"hints not used: topology annotation is {value!r}"
    if behaviour.zone_label_needed and not place.zone:
        return f"hints not used: node {place.node} has no zone label"
    return ""


def _why_not(kind: str, ready: Sequence[Endpoint], hints: Sequence[frozenset[str]], mine: str) -> str:
    """Return the reason to ignore all hints of one kind on this node, or "" if the hints are used."""
    if not all(hints):
        return f"endpoint {ready[hints.index(frozenset())].address} has no {kind} hint"
    if not any(mine in each for each in hints):
        return f"no endpoint is hinted for {kind} {mine or '(none)'}"
    return ""


def _keyed_list(
    port: ServicePort, ready: Sequence[Endpoint], terminating: Sequence[Endpoint], place: OwnNode
) -> Forward | Reject:
    for usable, state in ((ready, "ready"), (terminating, "terminating, still serving")):
        key, chosen = first_match(port.topology_keys, place.labels, usable, lambda each: each.labels)
        if chosen:
            here = "any node" if key == ANY else f"{key}={dict(place.labels)[key]}"
            return Forward(chosen, f"topology key {key}: {state} endpoints on {here}: {len(chosen)} of {len(usable)}")
    return Reject(
        f"no endpoint for topology keys {', '.join(port.topology_keys)}, others: {len(ready) or len(terminating)}"
    )


def _cluster_list(ready: Sequence[Endpoint], terminating: Sequence[Endpoint], mode: Mode, place: OwnNode) -> Forward:
    if not ready:
        return Forward(tuple(terminating), f"no endpoint is ready; terminating, but still serving: {len(terminating)}")
    match mode:
        case "PreferSameNode":
            chosen, where = tuple(each for each in ready if place.node in each.node_hints), f"node {place.node}"
        case "PreferSameZone":
            chosen, where = tuple(each for each in ready if place.zone in each.zone_hints), f"zone {place.zone}"
        case _:
            reason = f"all {len(ready)} ready endpoints" if len(ready) > 1 else "the one ready endpoint"
            return Forward(tuple(ready), reason)
    return Forward(chosen, f"ready endpoints that are hinted for {where}: {len(chosen)} of {len(ready)}")


def _local_list(policy: str, ready: Sequence[Endpoint], terminating: Sequence[Endpoint], node: str) -> Action:
    if chosen := tuple(each for each in ready if each.node == node):
        return Forward(chosen, f"{policy} Local: ready endpoints on node {node}: {len(chosen)}", local=True)
    if chosen := tuple(each for each in terminating if each.node == node):
        reason = f"none is ready on node {node}; terminating there, but still serving: {len(chosen)}"
        return Forward(chosen, f"{policy} Local: {reason}", local=True)
    others = len(ready) or len(terminating)
    return Drop(f"{policy} Local: no usable endpoint on node {node}, {others} elsewhere")
