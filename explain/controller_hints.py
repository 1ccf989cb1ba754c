"""Check whether the controller writes hints, and whether they match the Service's request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explain.case import Case, label
from explain.causes import Finding, found, listed, many
from explain.numbers import enough, floating_point_refuses, overloads
from harness.api.client import Object
from reference.endpointslice.allocation import allocate, rules
from reference.endpointslice.hints import CpuHeuristic, SamePlace, endpoint_hints, topology_annotation
from reference.endpointslice.labels import CONTROLLER, MANAGED_BY, ZONE
from reference.endpointslice.zones import Refusal, ZoneShares
from reference.objects.endpoints import has_hints, name_of


def hints(case: Case, ready: Sequence[tuple[Object, Object]]) -> Iterator[Finding]:
    """Yield the reasons why ready endpoints lack hints, or have hints that the Service does not request."""
    yield from _of_former_zones(case, ready)
    without = [(each, one) for each, one in ready if not has_hints(each)]
    if isinstance(case.decided_by, CpuHeuristic):
        refused = _refused(case, [each for each, _ in ready], hinted=len(without) < len(ready))
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
            says = f"{many(len(named), 'endpoint')} have hints for nodes, which the Service does not request"
            yield found("node-hints-not-asked", says, nodes=sorted(on))


def _of_former_zones(case: Case, ready: Sequence[tuple[Object, Object]]) -> Iterator[Finding]:
    """Yield endpoints whose node now has another zone, while the slice still has the old zone."""
    nodes = case.cluster.nodes
    former = [
        each
        for each, _ in ready
        if each.get("zone") and (node := nodes.get(str(each.get("nodeName")))) and node.zone not in {"", each["zone"]}
    ]
    if former:
        each = former[0]
        name, now = name_of(each), nodes[each["nodeName"]].zone
        count = many(len(former), "endpoint", "has/have")
        says = f"{count} an old zone: {name} has zone {each['zone']}, but node {each['nodeName']} is in zone {now}"
        late = case.cluster.late_labels.get(each["nodeName"])
        evidence = (*((late.said,) if late else ()), *case.evidence)
        on = tuple(sorted({str(one["nodeName"]) for one in former}))
        yield found("endpoint-of-a-former-zone", says, nodes=on, evidence=evidence, remedy=case.touch)


def _without(case: Case, ready: Sequence[tuple[Object, Object]], without: Sequence[tuple[Object, Object]]) -> Finding:
    """Return the reason why endpoints lack the hints that the Service requests."""
    of_all = f"{len(without)} of {many(len(ready), 'ready endpoint')}"
    said = f"{of_all} {'has' if len(without) == 1 else 'have'} no hints, so proxies use no hints at all"
    if len(without) == len(ready):
        said = f"none of {many(len(ready), 'ready endpoint')} has hints"
    for each, one in without:
        if not each.get("zone") and _manager(one) in {None, CONTROLLER}:
            return _no_zone(case, each, said)
    managers = {_manager(one) or "nobody" for _, one in without} - {CONTROLLER}
    if managers:
        foreign = [(each, one) for each, one in without if _manager(one) != CONTROLLER]
        names = listed(sorted({one["metadata"]["name"] for _, one in foreign}))
        values = {"said": said, "names": names, "managers": listed(sorted(managers))}
        return found("slice-of-another-manager", **values, patch=_give_hints(case, foreign))
    if len(without) < len(ready):
        names = listed(sorted({one["metadata"]["name"] for _, one in without}))
        return found("slices-disagree", f"{said}: look at slice {names}", evidence=case.evidence, remedy=case.log)
    if case.cluster.controller_is_gone:
        return found("controller-gone", f"{said}, and kube-controller-manager is not running", evidence=case.evidence)
    if isinstance(case.decided_by, CpuHeuristic) and any("Disabled" in each for each in case.events):
        says = f"{said}: the obstacle is gone, but the controller has not processed the Service since"
        return found("hints-not-back", says, evidence=case.evidence, remedy=case.touch)
    says = f"{said}, though {case.decided_by.reason}"
    return found("hints-not-written", says, evidence=case.evidence, remedy=case.log)


def _give_hints(case: Case, endpoints: Sequence[tuple[Object, Object]]) -> str:
    """Return the commands that hint endpoints for their zone, or one that withdraws the wish if a zone is unknown."""
    if not all(each.get("zone") for each, _ in endpoints):
        return f"{case.unask}, or let the writer of the slices give each endpoint a zone and a hint"
    patches: dict[str, list[Object]] = {}
    for each, one in endpoints:
        number = next(number for number, other in enumerate(one["endpoints"]) if other is each)
        hints: Object = {"forZones": [{"name": each["zone"]}]}
        if case.wish == "node" and each.get("nodeName"):
            hints["forNodes"] = [{"name": each["nodeName"]}]
        change = {"op": "add", "path": f"/endpoints/{number}/hints", "value": hints}
        patches.setdefault(one["metadata"]["name"], []).append(change)
    return "; ".join(case.patch_slice(name, changes) for name, changes in sorted(patches.items()))


def _manager(endpoint_slice: Object) -> str | None:
    return (endpoint_slice["metadata"].get("labels") or {}).get(MANAGED_BY)


def _no_zone(case: Case, endpoint: Object, said: str) -> Finding:
    node, name = endpoint.get("nodeName"), name_of(endpoint)
    if node and node not in case.cluster.nodes:
        says = f"{said}: node {node} of endpoint {name} does not exist"
        return found("endpoint-on-a-missing-node", says, remedy=case.of_pod("delete", name))
    if node and not case.cluster.nodes[node].zone:
        says = f"{said}: endpoint {name} is on node {node}, which has no zone label"
        return found("endpoint-without-zone", says, remedy=label(node))
    why = f"its slice was written before node {node} had its label" if node else "it is on no node"
    again = case.touch if node else "write its zone in the EndpointSlice"
    return found("endpoint-without-zone", f"{said}: endpoint {name} has no zone: {why}", remedy=again)


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
        says = f"{overloads(shares, len(ready))}, which is allowed, but rounds up to more in kube-controller-manager"
        return found(
            "floating-point", says, evidence=(_cpu(shares), *case.events), remedy=_instead(case, shares, len(ready))
        )
    return None


def _too_little_known(case: Case, refusal: Refusal) -> Finding:
    counted = [each for each in case.cluster.nodes.values() if each.counts]
    for node in counted:
        if not node.zone:
            says = f"node {node.name} is ready and has no zone label, so no endpoint gets hints"
            return found("node-without-zone", says, evidence=case.events, remedy=label(node.name))
    zones = sorted({each.zone for each in counted})
    for node in counted if len(zones) > 1 else ():
        if not node.milli_cpu:
            says = f"node {node.name} is ready and reports no CPU, so no endpoint gets hints"
            remedy = f"kubectl get node {node.name} -o jsonpath='{{.status.allocatable}}'"
            return found("node-without-cpu", says, evidence=case.events, remedy=remedy)
    where = (
        f"all {many(len(counted), 'node')} that count are in zone {zones[0]}"
        if zones
        else "no node that counts is ready"
    )
    left_out = [each.name for each in case.cluster.nodes.values() if not each.counts]
    more = f"; not ready, or of the control plane: {listed(left_out)}" if left_out else ""
    evidence = (refusal.message, *case.events)
    return found("one-zone", where + more, evidence=evidence, remedy=f"kubectl get nodes -L {ZONE}")


def _overloaded(case: Case, refusal: Refusal, shares: ZoneShares, endpoints: int) -> Finding:
    if refusal.why == "TooFewEndpoints":
        says = f"{many(endpoints, 'ready endpoint', 'is/are')} too few for {len(shares.weights)} zones: each needs one"
        return found("too-few-endpoints", says, evidence=case.events, remedy=_instead(case, shares, endpoints))
    evidence, says = (_cpu(shares), *case.events), f"{overloads(shares, endpoints)}, and 20 % is the limit"
    return found("overload", says, evidence=evidence, remedy=_instead(case, shares, endpoints))


def _cpu(shares: ZoneShares) -> str:
    return "CPU of the zones: " + ", ".join(
        f"{zone} {weight / shares.total:.0%}" for zone, weight in shares.weights.items()
    )


def _instead(case: Case, shares: ZoneShares, endpoints: int) -> str:
    """Return the two remedies: a number of pods that can be shared evenly between zones, or trafficDistribution."""
    number = enough(shares, endpoints, rules(case.cluster.features).to_add)
    return f"{case.scale(number)}; or {_by_field(case)}" if number else _by_field(case)


def _by_field(case: Case) -> str:
    """Return the commands that remove the annotation, and set the field unless it is set."""
    key, _ = topology_annotation(case.service, case.cluster.features)
    remove = case.kubectl(f"annotate {key}-")
    return remove if case.spec.get("trafficDistribution") else f"{remove}; {case.set_field()}"


def _others(case: Case, ready: Sequence[Object]) -> Iterator[Finding]:
    """Yield hints that do not match trafficDistribution."""
    decided_by = case.decided_by
    assert isinstance(decided_by, SamePlace)
    nodes = "forNodes" if decided_by.nodes else ""
    unnamed = [each for each in ready if nodes and not each["hints"].get(nodes)]
    other = [] if unnamed else [each for each in ready if _differs(each, decided_by)]
    if other:
        each = other[0]
        says = (
            f"{many(len(other), 'endpoint', 'has/have')} hints that differ from the request {decided_by.value}: "
            f"{name_of(each)} of zone {each.get('zone') or '(none)'} is hinted for {_names(each['hints'])}"
        )
        yield found("hints-of-somebody-else", says, remedy=case.writers)
    elif unnamed:
        says = f"{many(len(unnamed), 'endpoint', 'has/have')} no hint for the node, though {decided_by.reason}"
        yield found("hints-not-written", says, evidence=tuple(filter(None, [case.cluster.controller()])))


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
        says = (
            f"{many(len(moved), 'endpoint', 'is/are')} hinted for another zone, in proportion to its CPU: "
            f"{name_of(each)} of zone {each['zone']} for {_names(each['hints'])}"
        )
        yield found("hinted-for-another-zone", says, remedy=_by_field(case))


def zones_of(hints: Object) -> list[str]:
    return [str(each["name"]) for each in hints.get("forZones") or ()]


def _names(hints: Object) -> str:
    words = (("forZones", "zone"), ("forNodes", "node"))
    return ", ".join(f"{word} {each['name']}" for kind, word in words for each in hints.get(kind) or ())
