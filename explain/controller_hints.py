"""Check whether the controller writes hints, and whether they match the Service's request."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from explain.case import Case, distinct, nodes_of, zones_of
from explain.causes import SHOWN, Finding, Prediction, found, listed, many
from explain.hint_patches import give_hints
from explain.placement import floating_point_refuses, more, overloads
from explain.requested_topology import asked_in_words
from harness.api.client import Object
from reference.endpointslice.allocation import allocate, rules
from reference.endpointslice.hints import CpuHeuristic, SameZoneOrNode
from reference.endpointslice.labels import MANAGED_BY, ZONE
from reference.endpointslice.zones import NoHintsReason, ZoneShares
from reference.objects.endpoints import has_hints, name_of


def hints(case: Case, ready: Sequence[tuple[Object, Object]]) -> Iterator[Finding]:
    """Yield the reasons why ready endpoints lack hints, or have hints that the Service does not request."""
    yield from _of_former_zones(case, ready)
    own = [(each, one) for each, one in ready if case.is_own(one)]
    foreign = [(each, one) for each, one in ready if not case.is_own(one)]
    if case.wish:
        bare = [each for each, _ in ready if not has_hints(each)]
        said = _count(bare, [each for each, _ in ready])
        hinted = {zone for each, _ in ready for zone in zones_of(each)}
        yield from _of_writers(case, foreign, said, hinted)
        empty = [] if "nodes" in case.cluster.objects.unread else sorted(hinted - {*case.cluster.names_of_zones})
        if mine := [each for each, _ in own if {*zones_of(each)} & {*empty}]:
            zones = many(sorted({zone for each in mine for zone in zones_of(each)} & {*empty}), "zone")
            yield found("hint-for-a-zone-without-nodes", zones=zones, again=case.touch)
        yield from _of_controller(case, own, said, bare=len(bare) == len(ready))
    if case.wish != "node" and (named := [(each, one) for each, one in ready if nodes_of(each)]):
        on = {name for each, _ in named for name in nodes_of(each)} & case.cluster.nodes.keys()
        remedy = f"nothing, if they are intended; otherwise {give_hints(case, named)}" if not own else ""
        count = many(len(named), "endpoint", "has/have")
        yield found("node-hints-not-asked", nodes=sorted(on), remedy=remedy, count=count)


def _count(bare: Sequence[Object], ready: Sequence[Object]) -> str:
    lacking, all_ready = len(distinct(bare)), many(len(distinct(ready)), "ready endpoint")
    if len(bare) == len(ready):
        return "the one ready endpoint has no hints" if lacking == 1 else f"none of {all_ready} has hints"
    return f"{lacking} of {all_ready} {'has' if lacking == 1 else 'have'} no hints, so proxies use no hints at all"


def _of_writers(case: Case, foreign: Sequence[tuple[Object, Object]], said: str, hinted: set[str]) -> Iterator[Finding]:
    if without := [(each, one) for each, one in foreign if not has_hints(each)]:
        names = many(sorted({one["metadata"]["name"] for _, one in without}), "slice", "is/are")
        labels = [one["metadata"].get("labels") or {} for _, one in without]
        managers = listed(sorted({each.get(MANAGED_BY) or "an unnamed writer" for each in labels}))
        so = ", and no controller writes hints for a Service without a selector" if case.by_hand else ""
        values = {"said": said, "names": names, "managers": f"{managers}{so}", "patch": give_hints(case, without)}
        yield found("slice-of-another-manager", **values)
    if other := [(each, one) for each, one in foreign if has_hints(each) and _differs(case, each, hinted)]:
        yield _other(case, other, give_hints(case, other))


def _of_controller(case: Case, own: Sequence[tuple[Object, Object]], said: str, *, bare: bool) -> Iterator[Finding]:
    without = [(each, one) for each, one in own if not has_hints(each)]
    match case.decided_by:
        case CpuHeuristic() if own and (refused := _refused(case, distinct(each for each, _ in own), len(without))):
            late = "; the controller removes their hints when it next processes them" * (len(without) < len(own))
            yield replace(refused, says=f"{refused.says}{late}")
        case CpuHeuristic() | SameZoneOrNode() if without:
            yield _without(case, without, said, bare=bare)
        case CpuHeuristic():
            if moved := [each for each, _ in own if each.get("zone") and each["zone"] not in zones_of(each)]:
                count = many(len(moved), "endpoint", "is/are")
                yield found("hinted-for-another-zone", remedy=case.by_field, count=count, **_about(case, moved[0]))
        case SameZoneOrNode(nodes=by_node):
            if unnamed := [each for each, _ in own if by_node and not nodes_of(each)]:
                said = f"{many(len(unnamed), 'endpoint', 'has/have')} no hint for the node"
                evidence = [*filter(None, [case.cluster.controller()])]
                yield found("hints-not-written", evidence=evidence, said=said, wish=case.decided_by.reason)
            named = [(each, one) for each, one in own if nodes_of(each) or not by_node]
            if other := [(each, one) for each, one in named if _differs(case, each, set())]:
                yield _other(case, other, case.show_writers)


def _of_former_zones(case: Case, ready: Sequence[tuple[Object, Object]]) -> Iterator[Finding]:
    nodes = case.cluster.nodes
    zone = case.cluster.zone
    if former := [pair for pair in ready if pair[0].get("zone") and zone(pair[0]) != pair[0]["zone"]]:
        each = former[0][0]
        node, count = each["nodeName"], many(len(distinct(one for one, _ in former)), "endpoint", "has/have")
        values = {"count": count, "name": name_of(each), "zone": each["zone"], "node": node, "now": nodes[node].zone}
        late = case.cluster.late_labels.get(node)
        evidence = (*((late.said,) if late else ()), *case.evidence)
        zones = {zone for one, _ in former for zone in (one["zone"], case.cluster.zone(one))}
        on = sorted(one.name for one in nodes.values() if one.zone in zones)
        foreign = [pair for pair in former if not case.is_own(pair[1])]
        touch = case.touch if len(foreign) < len(former) else ""
        remedy = "; ".join(filter(None, [give_hints(case, foreign) if foreign else "", touch]))
        yield found("endpoint-of-a-former-zone", nodes=on, evidence=evidence, remedy=remedy, **values)


def _without(case: Case, without: Sequence[tuple[Object, Object]], said: str, *, bare: bool) -> Finding:
    if placeless := next((each for each, _ in without if not each.get("zone")), None):
        return _no_zone(case, placeless, said, [each for each, _ in without])
    if not bare:
        names = many(sorted({one["metadata"]["name"] for _, one in without}), "slice")
        return found("slices-disagree", evidence=case.evidence, remedy=case.sync, said=said, names=names)
    if case.cluster.controller_is_gone:
        return found("controller-gone", evidence=case.evidence, said=said)
    if isinstance(case.decided_by, CpuHeuristic) and any("Disabled" in each for each in case.events):
        return found("hints-not-back", evidence=case.evidence, remedy=case.touch, said=said)
    wish = case.decided_by.reason
    return found("hints-not-written", evidence=case.evidence, remedy=case.sync, said=said, wish=wish)


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


def _refused(case: Case, ready: Sequence[Object], bare: int) -> Finding | None:
    cluster, shares, hinted = case.cluster, case.cluster.zones.shares, bare < len(ready)
    if "nodes" in cluster.objects.unread:
        return None
    threshold = rules(cluster.features).to_keep if hinted else rules(cluster.features).to_add
    refusal = allocate(shares, len(ready), threshold)
    if isinstance(shares, NoHintsReason):
        return _too_little_known(case, shares)
    if isinstance(refusal, NoHintsReason):
        cause = "too-few-endpoints" if refusal.why == "TooFewEndpoints" else "overload"
        return _overloaded(case, cause, shares, len(ready))
    if not hinted and floating_point_refuses(cluster, len(ready)):
        return _overloaded(case, "floating-point", shares, len(ready))
    return None


def _too_little_known(case: Case, refusal: NoHintsReason) -> Finding:
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
    evidence = (Prediction(f"the controller refuses: {refusal.message}"), *case.events)
    return found("one-zone", where + more, evidence=evidence, remedy=f"kubectl get nodes -L {ZONE}")


def _overloaded(case: Case, cause: str, shares: ZoneShares, ready: int) -> Finding:
    of_zones = ", ".join(f"{zone} {weight / shares.total:.0%}" for zone, weight in shares.weights.items())
    cpu = (Prediction if case.cluster.objects.supposed else str)(f"CPU of the zones: {of_zones}")
    evidence = (*([] if cause == "too-few-endpoints" else [cpu]), *case.events)
    remedy, count = "; or ".join(filter(None, [more(case), case.by_field])), many(ready, "ready endpoint", "is/are")
    values = {"count": count, "zones": str(len(shares.weights)), "overload": overloads(shares, ready)}
    return found(cause, evidence=evidence, remedy=remedy, **values)


def _other(case: Case, other: Sequence[tuple[Object, Object]], remedy: str) -> Finding:
    differ = [_about(case, each) for each in distinct(each for each, _ in other)[:SHOWN]]
    values = {"each": "; ".join(f"{one['name']} of zone {one['zone']} is hinted for {one['hinted']}" for one in differ)}
    values["count"] = many(len(distinct(each for each, _ in other)), "endpoint", "has/have")
    wrote = [f"endpoints last written by {listed(case.writers)}"] if case.writers else []
    hidden = " (which the annotation overrides)" if case.annotated and case.spec.get("trafficDistribution") else ""
    asked = asked_in_words(case.service, case.cluster.features, case.wish) + hidden
    return found("hints-of-somebody-else", evidence=wrote, remedy=remedy, value=asked, **values)


def _differs(case: Case, endpoint: Object, hinted: set[str]) -> bool:
    zones, own = zones_of(endpoint), {case.cluster.zone(endpoint), endpoint.get("zone")}
    if case.wish == "cpu":
        return not own & hinted
    by_node = case.wish == "node" and endpoint.get("nodeName")
    return len(zones) != 1 or not own & {*zones} or (bool(by_node) and nodes_of(endpoint) != [by_node])


def _about(case: Case, endpoint: Object) -> dict[str, str]:
    hinted = [*(f"zone {each}" for each in zones_of(endpoint)), *(f"node {each}" for each in nodes_of(endpoint))]
    zone = case.cluster.zone(endpoint) or "(none)"
    return {"name": name_of(endpoint), "zone": zone, "hinted": ", ".join(hinted)}
