"""Find what may soon leave a zone without endpoints: an autoscaler, a rollout, evictions, or a drain.

Findings need evidence in objects. Manifests have no status, so findings about manifests only say what the spec permits.
"""

import math
from collections.abc import Iterator, Sequence

from explain.case import Case
from explain.causes import Finding, found, listed, many
from explain.placement import Zones, endpoints_by_zone, more, moved, part, permits, shut_out, wanted, with_at_most


def outlook(case: Case) -> Iterator[Finding]:
    if case.wish in {"node", "zone", "cpu"} and (zones := endpoints_by_zone(case)):
        yield from _autoscaler(case, zones)
        yield from _rollout(case, zones)
        yield from _evictions(case)
        yield from _drains(case, zones)


def _autoscaler(case: Case, zones: Zones) -> Iterator[Finding]:
    autoscaler = case.workloads.autoscaler
    if autoscaler and (least := autoscaler["spec"].get("minReplicas", 1)) < len(zones):
        values = {"name": autoscaler["metadata"]["name"], "workload": case.workloads.head.name, "zones": len(zones)}
        patch = case.workloads.scale(wanted(case))
        yield found("autoscaler-below-zones", least=many(least, "pod"), patch=patch, **values)


def _rollout(case: Case, zones: Zones) -> Iterator[Finding]:
    for each in (one for one in case.workloads.each.values() if one.obj and one.kind == "deployment"):
        patch = case.workloads.one_by_one(each)
        if claim := each.claim_of_one_node:
            patch = f"nothing, if PersistentVolumeClaim {claim} is ReadWriteOnce; otherwise {patch}"
        if (each.spec.get("strategy") or {}).get("type") == "Recreate":
            yield found("recreate-empties-all-zones", workload=each.name, patch=patch)
            continue
        number = int(each.spec.get("replicas", sum(map(len, zones.values()))))
        bounds = (each.spec.get("strategy") or {}).get("rollingUpdate") or {}
        surge, most = (part(bounds.get(name, "25%"), number) for name in ("maxSurge", "maxUnavailable"))
        most = math.floor(most) or int(math.ceil(surge) == 0)
        status = each.obj.get("status") or {}
        pods = max(int(status["replicas"]), int(each.spec.get("replicas", 1))) if "replicas" in status else 0
        seen = status.get("observedGeneration", 0) >= each.obj["metadata"].get("generation", 0)
        updated = int(status.get("updatedReplicas", 0)) if seen else 0
        if (updated < pods or not status) and (names := with_at_most(most, zones)):
            evidence = [f"{updated} of {many(pods, 'pod')} updated"] if status else []
            begun = "is paused, and once resumed may take" if each.strategy == "paused" else "has begun and may take"
            has = begun if status else "would take up to"
            values = {"workload": each.name, "has": has, "most": many(most, "pod"), "patch": patch}
            values |= {"zones": many(names, "zone", "has/have"), "unread": "" if status else _NO_STATUS}
            yield found("rollout-may-empty-a-zone", nodes=_nodes(case, names), evidence=evidence, **values)


_NO_STATUS = " (by its spec; its status was not read)"


def _evictions(case: Case) -> Iterator[Finding]:
    for each, allowed, names in permits(case):
        name, spec = each["metadata"]["name"], each.get("spec") or {}
        has_bound = spec.get("maxUnavailable") == 1 and "minAvailable" not in spec
        bound = {"maxUnavailable": 1, "minAvailable": None}
        do = [] if has_bound else [case.workloads.patch(f"poddisruptionbudget {name}", bound)]
        if with_at_most(1, endpoints_by_zone(case)):
            closed = shut_out(case, names)
            some = case.workloads.refusing(names) != sorted(names)
            more_pods = more(case) or ("" if case.workloads.is_spread() or case.workloads.stuck else moved(case, names))
            do = [closed, more_pods if some else "", *do]
        patch = "; ".join(filter(None, do))
        now = "now" if each.get("status") else "if no pod is missing" + _NO_STATUS
        values = {"name": name, "allowed": many(allowed, "eviction"), "zones": many(names, "zone", "has/have")}
        yield found("budget-permits-an-empty-zone", nodes=_nodes(case, names), now=now, patch=patch, **values)


def _drains(case: Case, zones: Zones) -> Iterator[Finding]:
    pinned = [each for one in case.workloads.each.values() if one.kind == "daemonset" for each in one.pods]
    stay = {each["spec"].get("nodeName") for each in pinned}
    for zone, endpoints in sorted(zones.items()):  # kubectl drain leaves the pods of DaemonSets
        nodes = sorted({*endpoints.values()})
        specs = [case.cluster.node_objects[each].get("spec") or {} for each in nodes]
        if all(each.get("unschedulable") for each in specs) and not {*nodes} <= stay:
            others = sorted({*_nodes(case, [zone])} - case.workloads.refusals.keys())
            move = f"before the drain, add a node to zone {zone} that takes pods"
            move = _move(case, others) if others or not case.selects_pods else move
            values = {"names": listed(nodes), "zone": zone, "move": move, "uncordon": " ".join(nodes)}
            yield found("drain-empties-a-zone", nodes=_nodes(case, [zone]), **values)


def _move(case: Case, others: Sequence[str]) -> str:
    there = f"on other nodes of the zone ({listed(others)})" if others else "on other nodes"
    if not case.selects_pods:
        return f"before the drain, let the writer of the EndpointSlices add endpoints {there}"
    stay = case.workloads.stuck or all(each.own_claims for each in case.workloads.movable)
    move = case.workloads.restart if stay and case.workloads.movable else moved(case)
    return f"{move}; drain when the new pods run {there}"


def _nodes(case: Case, zones: Sequence[str]) -> list[str]:
    return [each.name for each in case.cluster.nodes.values() if each.zone in zones]
