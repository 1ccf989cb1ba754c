"""Explains where the traffic of a Service goes: what decides about hints, and what each node makes of them.

"Hints are there, traffic still crosses zones" has a small number of causes, and all of them stand in objects that
anybody may read: the Service, its EndpointSlices and the Nodes. This reads them as the controller and the proxies
of a release do, and names the first safeguard that failed. It asks no component, so it works on any cluster.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from reference.client import Object
from reference.endpointslice.allocation import allocate, floating_point_refuses, rules
from reference.endpointslice.hints import CpuHeuristic, Mechanism, NoHints, SamePlace, endpoint_hints, mechanism
from reference.endpointslice.labels import is_headless, node_zone
from reference.endpointslice.zones import Refusal, ZoneShares, ZoneTable, milli_cpu
from reference.features import Features
from reference.objects.endpoints import any_hints, has_hints, is_ready, name_of
from reference.objects.topology_keys import Labels
from reference.proxy.decision import (
    Behaviour,
    Decision,
    Endpoint,
    Family,
    Forward,
    Place,
    ServicePort,
    decide,
    describe,
)
from reference.proxy.node_labels import NodeLabels
from reference.proxy.objects import UNREADABLE, annotation_key, read_node, read_slice, service_ports, topology_keys

_THRESHOLDS = (20, 30)  # per cent of overload (KEP-2433)
TIERS = {"PreferSameNode": "node", "PreferSameZone": "zone", "": "anywhere", "TopologyKeys": "keys"}


@dataclass(frozen=True, slots=True)
class Tier:
    """The tier of a node for one port and IP family: "node", "zone", "anywhere", "local", "keys" or "nowhere", and why.

    `used` endpoints take connections to the cluster IP.
    """

    node: str
    zone: str
    port: str
    tier: str
    used: int
    because: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The mechanism of hints and its reason; the first failed safeguard, or ""; hints by family; tiers by node."""

    decided_by: str
    safeguard: str
    hints: tuple[str, ...]
    tiers: tuple[Tier, ...]


def explain(service: Object, slices: Sequence[Object], nodes: Sequence[Object], features: Features) -> Explanation:
    """Explain one Service from objects as the API server serves them; `slices` are all of the Service's."""
    decided_by = mechanism(service, features)
    named = {each["metadata"]["name"]: each for each in nodes}
    ready = [each for one in slices for each in one.get("endpoints") or () if is_ready(each)]
    return Explanation(
        decided_by.reason,
        _safeguard(service, decided_by, slices, named, features),
        tuple(_hints_of(one_family, slices) for one_family in sorted({each["addressType"] for each in slices})),
        tuple(_tiers(service, slices, nodes, Behaviour.of(features))) if ready or slices else (),
    )


def _safeguard(
    service: Object,
    decided_by: Mechanism,
    slices: Sequence[Object],
    nodes: Mapping[str, Object],
    features: Features,
) -> str:
    """The first thing that keeps traffic from being near, in the order in which they count."""
    if said := _out_of_reach(service, features):
        return said
    if isinstance(decided_by, NoHints) and not any(map(any_hints, slices)):
        return decided_by.reason
    for family in sorted({each["addressType"] for each in slices}):
        mine = [each for one in slices if one["addressType"] == family for each in one.get("endpoints") or ()]
        ready = [each for each in mine if is_ready(each)]
        said = _not_given(decided_by, ready, nodes, features) if ready else f"no {family} endpoint is ready"
        if said := said or _not_everywhere(ready, nodes):
            return said
    return "" if slices else "the Service has no EndpointSlice: no controller wrote one, or nothing is selected"


def _out_of_reach(service: Object, features: Features) -> str:
    """Return why hints cannot count for a Service, whatever they are; "" if they can."""
    if is_headless(service):
        return "the Service is headless: clients choose among its endpoints, no proxy does"
    if service["spec"].get("internalTrafficPolicy") == "Local":
        return "internalTrafficPolicy is Local: connections stay on the node, and hints do not count"
    if topology_keys(service) and features.enabled("ServiceTopology"):
        return f"topology keys decide, and hints do not count: {', '.join(topology_keys(service))}"
    return ""


def _not_given(decided_by: Mechanism, ready: Sequence[Object], nodes: Mapping[str, Object], features: Features) -> str:
    """Return why endpoints have no hints, or not those that the Service asks for; "" if they have them."""
    if isinstance(decided_by, CpuHeuristic):
        hinted = any(map(has_hints, ready))
        threshold = rules(features).to_keep if hinted else rules(features).to_add
        shares = ZoneTable(features, nodes).shares
        refusal = allocate(shares, len(ready), threshold)
        if isinstance(refusal, Refusal):
            return _why_refused(refusal, shares, len(ready), nodes)
        if isinstance(shares, ZoneShares) and not hinted and floating_point_refuses(shares, len(ready)):
            return (
                f"{_overload(shares, len(ready))}, which may be; kube-controller-manager's floating point takes it "
                "for more, and gives no hints"
            )
    for each in ready:
        if not has_hints(each):
            place = each.get("nodeName")
            if not each.get("zone"):
                return f"endpoint {name_of(each)} has no zone: {_why_no_zone(place, nodes)}"
            return f"endpoint {name_of(each)} has no hints, so nobody uses those of the others"
        if isinstance(decided_by, SamePlace) and each["hints"] != endpoint_hints(each, decided_by):
            return f"endpoint {name_of(each)} has other hints than {decided_by.value} asks for: {_names(each['hints'])}"
    return ""


def _not_everywhere(ready: Sequence[Object], nodes: Mapping[str, Object]) -> str:
    """Return the place that has to use endpoints elsewhere although there are hints; "" if none has."""
    hinted = {name for each in ready for name in _zones(each)}
    for name, node in sorted(nodes.items()):
        zone = node_zone(node)
        if not zone:
            return f"node {name} has no zone label, and uses endpoints anywhere"
        if hinted and zone not in hinted:
            return f"zone {zone} has no endpoint: its nodes use those of all zones"
    return ""


def _why_refused(refusal: Refusal, shares: ZoneShares | Refusal, endpoints: int, nodes: Mapping[str, Object]) -> str:
    """A refusal of the CPU heuristic, with the name or the number that it comes from."""
    if isinstance(shares, Refusal):
        for name, node in sorted(nodes.items()):
            if not node_zone(node):
                return f"node {name} has no zone label"
            if not milli_cpu(str(((node.get("status") or {}).get("allocatable") or {}).get("cpu", ""))):
                return f"node {name} does not say how much CPU it has"
        return f"all nodes are in one zone: {refusal.message}" if refusal.why == "OneZone" else refusal.message
    if refusal.why == "TooFewEndpoints":
        return f"{endpoints} endpoints are fewer than {len(shares.weights)} zones"
    return _overload(shares, endpoints)


def _overload(shares: ZoneShares, endpoints: int) -> str:
    """Return how many endpoints are too few, and whether they would reach a threshold or pass it."""
    percent = overload_percent(shares, endpoints)
    near = round(percent) in _THRESHOLDS
    said = f"exactly {percent}" if percent in _THRESHOLDS else f"{float(percent):.{int(near)}f}"
    return f"{endpoints} endpoints over {len(shares.weights)} zones would overload by {said} %"


def overload_percent(shares: ZoneShares, endpoints: int) -> Fraction:
    """The least overload in percent that any distribution has (KEP-2433, Overload). One endpoint a zone."""
    held = dict.fromkeys(shares.weights, 1)
    heap = [(float(-weight), zone) for zone, weight in shares.weights.items()]
    heapq.heapify(heap)
    for _ in range(endpoints - len(held)):
        _, zone = heap[0]
        held[zone] += 1
        heapq.heapreplace(heap, (-shares.weights[zone] / held[zone], zone))
    worst = max(Fraction(shares.weights[zone] * endpoints, shares.total * count) for zone, count in held.items())
    return (worst - 1) * 100


def _why_no_zone(node: str | None, nodes: Mapping[str, Object]) -> str:
    if not node:
        return "it is on no node"
    if node not in nodes:
        return f"node {node} does not exist"
    return f"node {node} has no zone label" if not node_zone(nodes[node]) else "its slice was written before"


def _hints_of(family: str, slices: Iterable[Object]) -> str:
    mine = [one for one in slices if one["addressType"] == family]
    endpoints = [each for one in mine for each in one.get("endpoints") or ()]
    ready = [each for each in endpoints if is_ready(each)]
    zones = Counter(name for each in ready for name in _zones(each))
    hinted = sum(map(has_hints, ready))
    by_zone = ", ".join(f"{count} for zone {zone or '(none)'}" for zone, count in sorted(zones.items()))
    said = f"{hinted} of {_count(len(ready), 'ready endpoint')} hinted" + (f" ({by_zone})" if by_zone else "")
    return f"{family}: {said}; {_count(len(endpoints), 'endpoint')} in {_count(len(mine), 'slice')}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _tiers(service: Object, slices: Iterable[Object], nodes: Iterable[Object], behaviour: Behaviour) -> Iterator[Tier]:
    """Yield the tiers of all nodes. Objects are read once: in a large cluster that is most of the work."""
    nodes, labels = list(nodes), NodeLabels()
    keyed = behaviour.topology_keys and bool(topology_keys(service))
    for node in nodes if keyed else ():
        labels.receive(node)
    ports = _ports(service, slices, behaviour, labels.of_endpoint if keyed else None)
    for node in nodes:
        place = read_node(node).place
        place = replace(place, labels=labels.of_node(place.node)) if keyed else place
        for (port, family), endpoints in ports.items():
            yield _tier(place, f"{port} {family}", decide(port, endpoints, place, behaviour))


def _ports(
    service: Object,
    slices: Iterable[Object],
    behaviour: Behaviour,
    labels: Callable[[Mapping[str, Any]], Labels] | None,
) -> dict[tuple[ServicePort, Family], list[Endpoint]]:
    """The endpoints of each port and IP family; no ports where a proxy could not read a slice, and made no rules."""
    known = [each for each in map(read_slice, slices) if each is not None]
    by_family = service_ports(service, annotation_key=annotation_key(behaviour))
    try:
        return {
            (port, family): [
                endpoint
                for each in known
                if each.family == family
                for endpoint in each.endpoints((port.port_name, port.protocol), labels)
            ]
            for family, ports in by_family.items()
            for port in ports
        }
    except UNREADABLE:
        return {}


def _tier(place: Place, port: str, decision: Decision) -> Tier:
    action = decision.cluster_ip
    if not isinstance(action, Forward):
        return Tier(place.node, place.zone, port, "nowhere", 0, describe(action))
    used = len(action.endpoints)
    if action.local:
        return Tier(place.node, place.zone, port, "local", used, action.reason)
    because = action.reason if decision.mode else decision.hints
    return Tier(place.node, place.zone, port, TIERS[decision.mode], used, because)


def _zones(endpoint: Object) -> list[str]:
    return [each["name"] for each in (endpoint.get("hints") or {}).get("forZones") or ()]


def _names(hints: Object) -> str:
    return ", ".join(f"{kind} {each['name']}" for kind, names in sorted(hints.items()) for each in names or ())
