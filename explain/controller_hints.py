"""Check whether the controller writes hints, and whether they match the Service's request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explain.case import Case, distinct
from explain.causes import Finding, Predicted, found, listed, many
from explain.numbers import floating_point_refuses, overloads
from explain.placement import more
from harness.api.client import Object
from reference.endpointslice.allocation import allocate, rules
from reference.endpointslice.hints import CpuHeuristic, SamePlace, endpoint_hints, topology_annotation
from reference.endpointslice.labels import CONTROLLER, MANAGED_BY, ZONE
from reference.endpointslice.zones import Refusal, ZoneShares
from reference.objects.endpoints import has_hints, name_of

_MIRRORING = "endpointslicemirroring-controller.k8s.io"


def hints(case: Case, ready: Sequence[tuple[Object, Object]]) -> Iterator[Finding]:
    """Yield the reasons why ready endpoints lack hints, or have hints that the Service does not request."""
    yield from _of_former_zones(case, ready)
    without = [(each, one) for each, one in ready if not has_hints(each)]
    if isinstance(case.decided_by, CpuHeuristic):
        refused = _refused(case, distinct(each for each, _ in ready), hinted=len(without) < len(ready))
        if refused is not None:
            yield refused
            return
    if without:
        yield _without(case, ready, without)
    elif isinstance(case.decided_by, SamePlace):
        yield from _others(case, [each for each, _ in ready])
    elif isinstance(case.decided_by, CpuHeuristic):
        yield from _moved(case, [each for each, _ in ready])
    if not (isinstance(case.decided_by, SamePlace) and case.decided_by.nodes):
        named = [each for each, _ in ready if (each.get("hints") or {}).get("forNodes")]
        if named:
            on = {str(name["name"]) for each in named for name in each["hints"]["forNodes"]} & case.cluster.nodes.keys()
            yield found("node-hints-not-asked", nodes=sorted(on), count=many(len(named), "endpoint", "has/have"))


def _of_former_zones(case: Case, ready: Sequence[tuple[Object, Object]]) -> Iterator[Finding]:
    """Yield endpoints whose node now has another zone, while the slice still has the old zone."""
    nodes = case.cluster.nodes
    former = [(each, one) for each, one in ready if each.get("zone") and case.cluster.zone(each) != each["zone"]]
    if former:
        each = former[0][0]
        node, count = each["nodeName"], many(len(distinct(one for one, _ in former)), "endpoint", "has/have")
        values = {"count": count, "name": name_of(each), "zone": each["zone"], "node": node, "now": nodes[node].zone}
        late = case.cluster.late_labels.get(node)
        evidence = (*((late.said,) if late else ()), *case.evidence)
        old, hosts = {one["zone"] for one, _ in former}, {str(one["nodeName"]) for one, _ in former}
        on = sorted(hosts | {one.name for one in nodes.values() if one.zone in old})
        foreign = [pair for pair in former if _manager(pair[1]) != CONTROLLER]
        remedy = _give_hints(case, foreign) if foreign else case.touch
        yield found("endpoint-of-a-former-zone", nodes=on, evidence=evidence, remedy=remedy, **values)


def _without(case: Case, ready: Sequence[tuple[Object, Object]], without: Sequence[tuple[Object, Object]]) -> Finding:
    """Return the reason why endpoints lack the hints that the Service requests."""
    lacking, all_ready = (len(distinct(each for each, _ in pairs)) for pairs in (without, ready))
    of_all = f"{lacking} of {many(all_ready, 'ready endpoint')}"
    said = f"{of_all} {'has' if lacking == 1 else 'have'} no hints, so proxies use no hints at all"
    if len(without) == len(ready):
        said = f"none of {many(all_ready, 'ready endpoint')} has hints"
    for each, one in without:
        if not each.get("zone") and _manager(one) in {None, CONTROLLER}:
            return _no_zone(case, each, said, [one for one, _ in without])
    managers = {_manager(one) or "an unnamed writer" for _, one in without} - {CONTROLLER}
    if managers:
        foreign = [(each, one) for each, one in without if _manager(one) != CONTROLLER]
        names = many(sorted({one["metadata"]["name"] for _, one in foreign}), "slice", "is/are")
        values = {"said": said, "names": names, "managers": listed(sorted(managers))}
        return found("slice-of-another-manager", **values, patch=_give_hints(case, foreign))
    if len(without) < len(ready):
        names = many(sorted({one["metadata"]["name"] for _, one in without}), "slice")
        return found("slices-disagree", evidence=case.evidence, remedy=case.log, said=said, names=names)
    if case.cluster.controller_is_gone:
        return found("controller-gone", evidence=case.evidence, said=said)
    if isinstance(case.decided_by, CpuHeuristic) and any("Disabled" in each for each in case.events):
        return found("hints-not-back", evidence=case.evidence, remedy=case.touch, said=said)
    wish = case.decided_by.reason
    return found("hints-not-written", evidence=case.evidence, remedy=case.log, said=said, wish=wish)


def _give_hints(case: Case, endpoints: Sequence[tuple[Object, Object]]) -> str:
    """Return the commands that give endpoints their zone and a hint for it, or one that withdraws the wish."""
    key, value = topology_annotation(case.service, case.cluster.features)
    unask = case.kubectl(f"annotate {key}-") if value else case.patch({"trafficDistribution": None})
    if (case.namespace, case.name) == ("default", "kubernetes"):
        return f"{unask}; the API server writes these endpoints, and takes hints away"
    if any(_manager(one) == _MIRRORING for _, one in endpoints):
        write = "write an EndpointSlice with these endpoints and hints (mirrored Endpoints have none)"
        skip = f"kubectl -n {case.namespace} label endpoints {case.name} endpointslice.kubernetes.io/skip-mirror=true"
        return f"{unask}; or {write}; then {skip}"
    patches: dict[str, list[Object]] = {}
    unknown = []
    for each, one in endpoints:
        number = next(number for number, other in enumerate(one["endpoints"]) if other is each)
        zone = case.cluster.zone(each)
        if not zone:
            zone = f"ZONE_OF_{each['addresses'][0]}"
            unknown.append(zone)
        change: Object = {"zone": zone, "hints": {"forZones": [{"name": zone}]}}
        if each.get("zone") == zone:
            del change["zone"]
        if case.wish == "node" and each.get("nodeName"):
            change["hints"]["forNodes"] = [{"name": each["nodeName"]}]
        changes = [{"op": "add", "path": f"/endpoints/{number}/{key}", "value": it} for key, it in change.items()]
        patches.setdefault(one["metadata"]["name"], []).extend(changes)
    commands = "; ".join(case.patch_slice(name, changes) for name, changes in sorted(patches.items()))
    return f"{commands}; with zones in place of {listed(unknown)}" if unknown else commands


def _manager(endpoint_slice: Object) -> str:
    """Return the controller that writes a slice, or "" if it is written by hand."""
    return str((endpoint_slice["metadata"].get("labels") or {}).get(MANAGED_BY, ""))


def _no_zone(case: Case, endpoint: Object, said: str, without: Sequence[Object]) -> Finding:
    node, name = endpoint.get("nodeName"), name_of(endpoint)
    if node and node not in case.cluster.nodes:
        remedy = f"kubectl -n {case.namespace} delete pod {name}"
        return found("endpoint-on-a-missing-node", remedy=remedy, said=said, node=node, name=name)
    names, why, remedy = [name], "has no zone: it is on no node", "write its zone in the EndpointSlice"
    bare = {each: one.name for each, one in case.cluster.nodes.items() if not one.zone}
    if node in bare:
        on = sorted({str(each.get("nodeName")) for each in without} & bare.keys())
        names = sorted({name_of(each) for each in without if each.get("nodeName") in bare})
        verb = "is" if len(names) == 1 else "are"
        why = f"{verb} on {many(on, 'node')}, which {'has' if len(on) == 1 else 'have'} no zone label"
        remedy = f"{case.label(on)}; {case.touch}"
    elif node:
        why, remedy = f"has no zone: its slice was written before node {node} had its label", case.touch
    return found("endpoint-without-zone", remedy=remedy, said=said, names=many(names, "endpoint"), why=why)


def _refused(case: Case, ready: Sequence[Object], *, hinted: bool) -> Finding | None:
    """Return the reason why CPU-based hints are impossible, or None if they are possible."""
    cluster, shares = case.cluster, case.cluster.zones.shares
    if "nodes" in cluster.objects.unread:
        return None
    threshold = rules(cluster.features).to_keep if hinted else rules(cluster.features).to_add
    refusal = allocate(shares, len(ready), threshold)
    if isinstance(shares, Refusal):
        return _too_little_known(case, shares)
    if isinstance(refusal, Refusal):
        return _overloaded(case, refusal, shares, len(ready))
    if not hinted and floating_point_refuses(cluster, len(ready)):
        evidence, remedy = (_cpu(case, shares), *case.events), _instead(case)
        return found("floating-point", evidence=evidence, remedy=remedy, overload=overloads(shares, len(ready)))
    return None


def _too_little_known(case: Case, refusal: Refusal) -> Finding:
    counted = [each for each in case.cluster.nodes.values() if each.counts]
    if bare := [each.name for each in counted if not each.zone]:
        names = many(bare, "node", "is ready and has no zone label/are ready and have no zone label")
        remedy = case.label(bare)
        return found("node-without-zone", evidence=case.events, remedy=f"{remedy}; {case.touch}", names=names)
    zones = sorted({each.zone for each in counted})
    for node in counted if len(zones) > 1 else ():
        if not node.milli_cpu:
            return found("node-without-cpu", evidence=case.events, name=node.name)
    where = f"all nodes that count ({len(counted)}) are in zone {zones[0]}" if zones else "no node that counts is ready"
    left_out = [each.name for each in case.cluster.nodes.values() if not each.counts]
    more = f"; not ready, or of the control plane: {listed(left_out)}" if left_out else ""
    evidence = (Predicted(f"the controller refuses: {refusal.message}"), *case.events)
    return found("one-zone", where + more, evidence=evidence, remedy=f"kubectl get nodes -L {ZONE}")


def _overloaded(case: Case, refusal: Refusal, shares: ZoneShares, endpoints: int) -> Finding:
    remedy, zones = _instead(case), len(shares.weights)
    if refusal.why == "TooFewEndpoints":
        count = many(endpoints, "ready endpoint", "is/are")
        return found("too-few-endpoints", evidence=case.events, remedy=remedy, count=count, zones=zones)
    evidence = (_cpu(case, shares), *case.events)
    return found("overload", evidence=evidence, remedy=remedy, overload=overloads(shares, endpoints))


def _cpu(case: Case, shares: ZoneShares) -> str:
    of_zones = ", ".join(f"{zone} {weight / shares.total:.0%}" for zone, weight in shares.weights.items())
    said = f"CPU of the zones: {of_zones}"
    return Predicted(said) if case.cluster.objects.supposed else said


def _instead(case: Case) -> str:
    """Return the two remedies: a number of pods that can be shared evenly between zones, or trafficDistribution."""
    scale = more(case)
    return f"{scale}; or {case.by_field}" if scale else case.by_field


def _others(case: Case, ready: Sequence[Object]) -> Iterator[Finding]:
    """Yield hints that do not match trafficDistribution."""
    decided_by = case.decided_by
    assert isinstance(decided_by, SamePlace)
    nodes = "forNodes" if decided_by.nodes else ""
    unnamed = [each for each in ready if nodes and not each["hints"].get(nodes)]
    other = [] if unnamed else [each for each in ready if _differs(each, decided_by)]
    if other:
        each = other[0]
        values = _about(each) | {"count": many(len(other), "endpoint", "has/have"), "value": decided_by.value}
        wrote = [f"endpoints last written by {listed(case.writers)}"] if case.writers else []
        yield found("hints-of-somebody-else", evidence=wrote, remedy=case.show_writers, **values)
    elif unnamed:
        said = f"{many(len(unnamed), 'endpoint', 'has/have')} no hint for the node"
        evidence = [*filter(None, [case.cluster.controller()])]
        yield found("hints-not-written", evidence=evidence, said=said, wish=decided_by.reason)


def _differs(endpoint: Object, decided_by: SamePlace) -> bool:
    """Return whether the hints of an endpoint differ from those that the Service requests."""
    wanted = endpoint_hints(endpoint, decided_by) or {}
    return zones_of(endpoint["hints"]) != zones_of(wanted) or (
        decided_by.nodes and endpoint["hints"].get("forNodes") != wanted.get("forNodes")
    )


def _moved(case: Case, ready: Sequence[Object]) -> Iterator[Finding]:
    moved = [each for each in ready if each.get("zone") and each["zone"] not in zones_of(each["hints"])]
    if moved:
        each = moved[0]
        count = many(len(moved), "endpoint", "is/are")
        yield found("hinted-for-another-zone", remedy=case.by_field, count=count, **_about(each))


def zones_of(hints: Object) -> list[str]:
    return [str(each["name"]) for each in hints.get("forZones") or ()]


def _about(endpoint: Object) -> dict[str, str]:
    """Return the name, the zone and the hints of an endpoint, for a sentence."""
    words, hints = (("forZones", "zone"), ("forNodes", "node")), endpoint["hints"]
    hinted = ", ".join(f"{word} {each['name']}" for kind, word in words for each in hints.get(kind) or ())
    return {"name": name_of(endpoint), "zone": endpoint.get("zone") or "(none)", "hinted": hinted}
