"""Compute which endpoints each node uses for a Service, according to the release of the node's proxy.

Nodes with the same zone, release and proxy share one computation, unless the decision depends on the node itself.
"""

import contextlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter
from typing import Any, Literal

from explain.causes import SHOWN, Finding, listed
from explain.cluster import Cluster, Node, ServiceName
from explain.programs import ProxyProgram
from explain.requested_topology import Shortfall, Wish, shortfall, wish_of
from harness.api.client import Object
from reference.features import Version
from reference.objects.endpoints import is_ready
from reference.objects.topology_keys import Labels
from reference.proxy.decision import Decision, Endpoint, Family, Forward, OwnNode, Reject, ServicePort, decide, describe
from reference.proxy.node_labels import NodeLabels
from reference.proxy.objects import UNREADABLE, read_slice, service_ports, topology_keys

UNPARSED = "an EndpointSlice has an address that no proxy can parse"
"""The reason why routes fail if proxies write no rules for the Service."""

STRICT = "uses no endpoint that is hinted for other zones only"

_BOTH_POLICIES = (1, 24)
"""The first release whose kube-proxy keeps the two traffic policies of a Service apart (kubernetes/kubernetes#105470).

Older releases ignore internalTrafficPolicy Local if externalTrafficPolicy is Local, and otherwise also apply it to
external clients. Nodes without endpoints then reject connections, or drop them (kubernetes/kubernetes#106497).
"""

TIERS = {"PreferSameNode": "node", "PreferSameZone": "zone", "": "anywhere", "TopologyKeys": "keys"}


@dataclass(frozen=True, slots=True)
class Route:
    """The endpoints that some nodes of a zone use for the cluster IP, for one port and IP family.

    If `clients` is "external", a policy Local limits external clients to these endpoints. `tier` is "node", "zone",
    "anywhere", "local", "keys", "nowhere", or "excluded" by health checks. `targets` are addresses and ports.
    `crossing` is the number of endpoints on other nodes that are in another or an unknown zone. For a node without a
    zone, `crossing` counts all endpoints on other nodes.
    """

    nodes: tuple[str, ...]
    zone: str
    port: str
    family: Family
    tier: str
    targets: tuple[tuple[str, int], ...]
    crossing: int
    because: str
    short: Shortfall = ""
    clients: Literal["internal", "external"] = "internal"

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(address for address, _ in self.targets)

    @property
    def fails(self) -> bool:
        return self.short == "fails"

    @property
    def label(self) -> str:
        """The port and IP family, like "http/TCP IPv4", or "http/TCP IPv4 external"."""
        return f"{self.port} {self.family}{' external' if self.clients == 'external' else ''}"


def routes(service: Object, slices: Sequence[Object], cluster: Cluster) -> tuple[Route, ...]:
    """Return the routes of a Service. If proxies cannot parse a slice, all routes fail.

    Raises one of `UNREADABLE` for a malformed Service.
    """
    ports = service_ports(service)
    try:
        found = _decided(service, slices, cluster)
    except UNREADABLE:
        return tuple(
            Route(tuple(names), zone, _name(port), family, "nowhere", (), 0, UNPARSED, "fails")
            for family, of_family in ports.items()
            for port in of_family
            for (zone, _, _), names in cluster.alike.items()
        )
    made = [replace(route, nodes=tuple(names)) for route, names in found.items()]
    checked = service["spec"].get("type") == "LoadBalancer" and service["spec"].get("externalTrafficPolicy") == "Local"
    return tuple(_checked(made, slices) if checked else made)


def _checked(made: Sequence[Route], slices: Iterable[Object]) -> Iterator[Route]:
    """Yield the routes. Mark a route as excluded if the health check of its node finds no ready endpoint (KEP-1669)."""
    known, ready = nodes_of(made), [(each, one) for one in slices for each in one.get("endpoints") or ()]
    well = {(each.get("nodeName"), one["addressType"]) for each, one in ready if is_ready(each)}
    families = {family for name, family in well if name in known}
    for each in made:
        is_checked = each.clients == "external" and each.family in families
        if out := tuple(name for name in each.nodes if is_checked and (name, each.family) not in well):
            why = f"({each.because})" if each.targets else each.because.partition(" ")[2]
            because = f"health checks of the load balancer exclude the node {why}"
            yield replace(each, nodes=out, tier="excluded", targets=(), crossing=0, because=because, short="")
        if kept := tuple(name for name in each.nodes if name not in out):
            yield replace(each, nodes=kept)


def _decided(service: Object, slices: Sequence[Object], cluster: Cluster) -> dict[Route, list[str]]:
    labels, wish = _labels(service, cluster), wish_of(service, cluster.features)
    is_apart = "Local" in {service["spec"].get(each) for each in ("internalTrafficPolicy", "externalTrafficPolicy")}
    releases = {version for _, version, _ in cluster.alike}
    by_release = {version: _ports(service, slices, cluster, version, labels) for version in releases}
    found: dict[Route, list[str]] = defaultdict(list)
    for names in _alike(cluster, _matter(service, slices, wish, cluster)):
        one = cluster.nodes[names[0]]
        program = one.program.of(service)
        place = OwnNode(one.name, one.zone, labels.of_node(one.name) if labels else frozenset())
        for (known, family), (endpoints, zones) in by_release[one.version].items():
            port = known
            if program.follows_policies_since:
                port = replace(known, internal_local=program.name == "kube-router" and known.external_local)
            seen = _seen(program, endpoints, place)
            decision = decide(port, seen, place, cluster.behaviour(one.version, program.follows))
            outside = decision.outside if is_apart else None
            if is_old(one.version, cluster) and decision.cluster_ip.reason.startswith("internalTrafficPolicy"):
                action = decision.cluster_ip  # for all clients
                action = action if isinstance(action, Forward) else Reject(action.reason)
                decision, outside = replace(decision, cluster_ip=action), action if outside else None
            on = {each.node == one.name for each in endpoints if each.ready}
            for is_outside, taken in ((False, decision.cluster_ip), (True, outside)):
                if taken is None:
                    continue
                route = _route(one, port, family, replace(decision, cluster_ip=taken), zones)
                because = route.because
                if program.is_other and route.tier in TIERS.values():
                    because = program.because(because, near=bool(decision.mode))
                if len(seen) < len(endpoints):
                    of_all = re.sub(r" of \d+$", f" of {sum(each.ready for each in endpoints)}", because)
                    because = of_all if decision.mode else f"{program.title} {STRICT}"
                if program.follows_policies_since and not is_outside:
                    because = because.replace("internalTrafficPolicy", "externalTrafficPolicy")
                misses = route.tier != "node" and on == {True, False}
                asked = "" if is_outside else wish
                short = shortfall(asked, tier=route.tier, crosses=bool(route.crossing), misses=misses)
                route = replace(route, because=because, short=short)
                found[replace(route, clients="external") if is_outside else route] += names
    return found


def _seen(program: ProxyProgram, endpoints: Sequence[Endpoint], place: OwnNode) -> Sequence[Endpoint]:
    """Return endpoints among which kube-proxy's rules make the same choice as the program on a node."""
    match program.follows:
        case "name":
            return [one._replace(zone_hints=frozenset(), node_hints=frozenset({one.node} - {""})) for one in endpoints]
        case "strict" if place.zone:
            return [each for each in endpoints if not each.zone_hints or place.zone in each.zone_hints]
        case "each":
            ready = [each for each in endpoints if each.ready]
            on_node = [each for each in ready if place.node in each.node_hints]
            return on_node or [each for each in ready if place.zone in each.zone_hints] or endpoints
    return endpoints


def is_old(version: Version, cluster: Cluster) -> bool:
    """Return whether kube-proxy of this release does not keep the two traffic policies apart."""
    return version < _BOTH_POLICIES and cluster.features.follows == "released"


def nodes_of(by_proxies: Iterable[Route], wanted: Callable[[Route], bool] = lambda _: True) -> tuple[str, ...]:
    return tuple(sorted(set().union(*(each.nodes for each in by_proxies if wanted(each)))))


def is_far(route: Route) -> bool:
    """Return whether nodes use other zones because their own zone has no usable endpoint, or is unknown."""
    return bool(route.crossing) and (not route.zone or route.crossing == len(route.targets))


def described(some: Iterable[Route], routes: Iterable[Route]) -> str:
    """Return the ports and IP families of some routes in words, or "" if these routes cover all of them."""
    every, pairs = ({(each.port, each.family) for each in one} for one in (routes, some))
    if pairs in (every, set()):
        return ""
    over: dict[tuple[str, ...], list[str]] = {}
    for port in sorted({port for port, _ in pairs}):
        of_port = tuple(sorted(family for of, family in pairs if of == port))
        whole = len(of_port) == len({family for of, family in every if of == port})
        over.setdefault(() if whole else of_port, []).append(port)
    if len(over) == 1 and () not in over and {port for port, _ in pairs} == {port for port, _ in every}:
        return " and ".join(*over)
    said = (f"port {' '.join(ports)}{' over ' * bool(of)}{' and '.join(of)}" for of, ports in over.items())
    return " and ".join(said)


def about(finding: Finding, some: Sequence[Route], routes: Sequence[Route], *, named: bool = False) -> Finding:
    """Return a finding limited to some routes. `named` is true if its sentence already names their ports."""
    ports = described(some, routes)
    external = any(each.clients == "external" for each in some)
    says = f"{ports}: {finding.says}" if ports and not named else finding.says
    return replace(finding, says=says, ports=tuple({each.label: None for each in some}) if ports or external else ())


def _matter(service: Object, slices: Iterable[Object], wish: Wish, cluster: Cluster) -> AbstractSet[str]:
    """Return the nodes whose routes depend on the node itself (a policy, node hints, topology keys, or no zone)."""
    spec = service["spec"]
    if topology_keys(service):
        return cluster.nodes.keys()
    local = "Local" in {spec.get("internalTrafficPolicy"), spec.get("externalTrafficPolicy")}
    endpoints = [each for one in slices for each in one.get("endpoints") or ()]
    named = {hint["name"] for each in endpoints for hint in (each.get("hints") or {}).get("forNodes") or ()}
    if local or wish == "node":
        named |= {each["nodeName"] for each in endpoints if each.get("nodeName")}
    hosts = (cluster.nodes.get(each.get("nodeName") or "") for each in endpoints)
    return named | {each.name for each in hosts if each and not each.zone}  # only their own endpoints are near


def _alike(cluster: Cluster, apart: AbstractSet[str]) -> list[list[str]]:
    groups = [[name for name in alike if name not in apart] for alike in cluster.alike.values()]
    groups += [[name] for name in apart if name in cluster.nodes]
    return sorted(filter(None, groups), key=itemgetter(0))


def _labels(service: Object, cluster: Cluster) -> NodeLabels | None:
    if not topology_keys(service):
        return None
    labels = NodeLabels()
    for node in cluster.objects.nodes:
        labels.receive(node)
    return labels


def _ports(
    service: Object, slices: Iterable[Object], cluster: Cluster, version: Version, labels: NodeLabels | None
) -> dict[tuple[ServicePort, Family], tuple[list[Endpoint], dict[str, str]]]:
    behaviour = cluster.behaviour(version)
    of_endpoint: Callable[[Mapping[str, Any]], Labels] | None = None
    if labels is not None and behaviour.topology_keys:
        of_endpoint = labels.of_endpoint
    known = [each for each in map(read_slice, slices) if each is not None]
    found = {}
    for family, ports in service_ports(service, behaviour).items():
        for port in ports:
            endpoints: list[Endpoint] = []
            zones: dict[str, str] = {}
            for each in known:
                if each.family == family:
                    of_port = each.endpoints((port.port_name, port.protocol), of_endpoint)
                    endpoints += of_port
                    zones |= {one.address: cluster.zone(raw) for one, raw in zip(of_port, each.raw, strict=False)}
            old = port.external_local and is_old(version, cluster)
            found[replace(port, internal_local=False) if old else port, family] = endpoints, zones
    return found


def _name(port: ServicePort) -> str:
    return f"{port.port_name or port.port}/{port.protocol}"


def _route(node: Node, port: ServicePort, family: Family, decision: Decision, zones: Mapping[str, str]) -> Route:
    action = decision.cluster_ip
    name = _name(port)
    if not isinstance(action, Forward):
        because = describe(action).replace(f"node {node.name}", "the node")
        return Route((), node.zone, name, family, "nowhere", (), 0, because)
    others = [each for each in action.endpoints if each.node != node.name]
    crossing = sum(not node.zone or zones.get(each.address) != node.zone for each in others)
    tier = "local" if action.local else TIERS[decision.mode]
    because = action.reason if action.local or decision.mode else decision.hints
    because = because.replace(f"node {node.name}", "the node")
    return Route((), node.zone, name, family, tier, tuple(each[:2] for each in action.endpoints), crossing, because)


def stopping(cluster: Cluster, names: Iterable[str], new: Version | ProxyProgram) -> str:
    """Return in words which connections from nodes work now, but fail with a `new` kube-proxy or program, or ""."""
    here = {*names}
    lost = [f"to {to} on {listed(sorted(on & here))}" for to, on in _stopping(cluster, new).items() if on & here]
    more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
    return f"connections that work now then fail: {', '.join(lost[:SHOWN])}{more}" if lost else ""


@lru_cache(maxsize=32)
def _stopping(cluster: Cluster, new: Version | ProxyProgram) -> Mapping[str, set[str]]:
    after, lost, nodes = copy(cluster), defaultdict[str, set[str]](set), cluster.nodes.items()
    after.__dict__.pop("alike", None)
    if by_hints := isinstance(new, ProxyProgram):
        after.nodes = {name: replace(each, program=new) for name, each in nodes}
    else:
        after.nodes = {name: replace(each, version=max(each.version, new)) for name, each in nodes}
    for name, service in sorted(cluster.services.items()):
        spec = service.get("spec") or {}
        if by_hints or "Local" in {spec.get("internalTrafficPolicy"), spec.get("externalTrafficPolicy")}:
            with contextlib.suppress(*UNREADABLE, AttributeError):  # see `service.of`
                for label, node in _working(name, cluster) - _working(name, after):
                    lost[f"{'/'.join(name)} {label}"].add(node)
    return dict(sorted(lost.items()))


def _working(name: ServiceName, cluster: Cluster) -> set[tuple[str, str]]:
    found = routes(cluster.services[name], cluster.slices.get(name, ()), cluster)
    return {(each.label, node) for each in found if not each.fails for node in each.nodes}
