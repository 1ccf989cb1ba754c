"""Fixes that add pods: how many pods a Service needs so that no zone is overloaded, and how to run them in each zone.

All fixes for a Service use the same number of pods, so no fix undoes another one.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from explain.case import Case, condition
from explain.causes import listed, many
from explain.cluster import Cluster
from explain.scheduling import constraints, untolerated
from explain.workloads import HASHES
from harness.api.client import Object
from reference.endpointslice.allocation import Threshold, allocate, rules
from reference.endpointslice.allocation import floating_point_refuses as refuses
from reference.endpointslice.endpoints import is_ready as is_pod_ready
from reference.endpointslice.hints import CpuHeuristic
from reference.endpointslice.labels import ZONE
from reference.endpointslice.zones import NoHintsReason, ZoneShares
from reference.objects.endpoints import is_ready, name_of

_THRESHOLDS = (20, 30)  # maximum overload in percent (KEP-2433)
_FAR = 1_000
"""The maximum number of additional pods that a fix suggests."""

Zones = Mapping[str, Mapping[tuple[str, ...], str]]
"""The nodes of ready endpoints, by zone and address of the endpoint."""


def endpoints_by_zone(case: Case) -> Zones:
    """Return the nodes of ready endpoints by zone and address. An endpoint in two slices counts once."""
    first = next(iter(case.families), "")
    zones: dict[str, dict[tuple[str, ...], str]] = {}
    for each, one in case.endpoints:
        node = case.cluster.nodes.get(str(each.get("nodeName")))
        if one["addressType"] == first and is_ready(each) and node and node.zone:
            zones.setdefault(node.zone, {})[tuple(each["addresses"][:1])] = node.name
    return zones


def permits(case: Case) -> Iterator[tuple[Object, int, list[str]]]:
    """Yield each PodDisruptionBudget that permits evicting all pods of a zone: budget, allowed evictions, and zones."""
    zones = endpoints_by_zone(case)
    for each in case.cluster.further["poddisruptionbudgets", case.namespace]:
        allowed = _allowed(each, sum(map(len, zones.values())))
        if _selects(each, case) and (names := with_at_most(allowed, zones)):
            yield each, allowed, names


def _allowed(budget: Object, pods: int) -> int:
    spec, status = budget.get("spec") or {}, budget.get("status")
    if status:
        return int(status.get("disruptionsAllowed", 0))
    if "maxUnavailable" in spec:
        return min(pods, math.ceil(part(spec["maxUnavailable"], pods)))
    return max(0, pods - math.ceil(part(spec.get("minAvailable", pods), pods)))


def _selects(budget: Object, case: Case) -> bool:
    selector = (budget.get("spec") or {}).get("selector") or {}  # of which matchExpressions are not evaluated
    wanted = (selector.get("matchLabels") or {}).items()
    labels = [(each["metadata"].get("labels") or {}).items() for each in case.pods or ()]
    labels = labels or [(case.spec.get("selector") or {}).items()]  # which each of its pods has
    return not selector.get("matchExpressions") and bool(labels) and all(wanted <= each for each in labels)


def with_at_most(number: int, zones: Zones) -> list[str]:
    """Return the zones with at most this number of endpoints."""
    return sorted(zone for zone, endpoints in zones.items() if len(endpoints) <= number)


def part(bound: object, pods: int) -> float:
    """Return the number of pods that `bound` allows: a number, or a percentage of `pods`."""
    said = str(bound)
    return pods * int(said[:-1]) / 100 if said.endswith("%") else int(said)


def wanted(case: Case) -> int:
    """Return the number of pods that the fixes suggest: one per zone, or two if a zone's only pod may be evicted."""
    there = endpoints_by_zone(case)
    zones = len((case.workloads.open_zones | there.keys()) - {""})  # with an endpoint, or a node where a pod can start
    single = case.wish in {"node", "zone", "cpu"} and with_at_most(1, there) and any(permits(case))
    new = len(case.workloads.open_zones - there.keys()) * case.workloads.own_claims
    number = max(zones * (2 if single else 1), pods(case) + new)
    shares = case.cluster.zones.shares
    if isinstance(case.decided_by, CpuHeuristic) and isinstance(shares, ZoneShares):
        return enough(shares, number - 1, rules(case.cluster.features).to_add)
    return number


def pods(case: Case) -> int:
    """Return the number of pods of the Service, ready or not, except terminating pods."""
    stay = {name_of(each) for each, _ in case.endpoints if not condition(each, "terminating")}
    return len(stay | case.unlisted.keys())


def more(case: Case) -> str:
    """Return the command that scales to `wanted` pods, or "" if there are enough or the workload cannot be scaled."""
    number = wanted(case)
    scaled = number > pods(case) and case.selects_pods and not case.workloads.stuck
    return case.workloads.scale(number) if scaled else ""


def spread(case: Case, zones: Sequence[str]) -> str:
    """Return commands or advice for running pods in these zones, which have no endpoint."""
    if not case.selects_pods:
        return f"let the writer of the EndpointSlices add an endpoint in {many(zones, 'zone')}"
    if case.workloads.head.kind == "daemonset":
        return admit(case, [name for name, each in case.cluster.nodes.items() if each.zone in zones])
    closed = case.workloads.refusing(zones)
    let = shut_out(case, closed)
    if closed == sorted(zones):
        return f"nothing, if no client runs there; otherwise {let}"
    then = f"; and, if clients run there, {let}" * bool(let)
    return _run(case, [each for each in zones if each not in closed]) + then


def _run(case: Case, zones: Sequence[str]) -> str:
    workloads = case.workloads
    there = (workloads.head.obj.get("status") or {}).get("replicas", len(workloads.head.pods))
    missing = int(workloads.head.spec.get("replicas") or 0) - int(there)
    if missing > 0 and pods(case) + missing >= wanted(case) > pods(case) and not case.unread:
        look = f"kubectl -n {case.namespace} get pods -l {case.selector} -o wide"
        return f"find out why {many(missing, 'pod', 'is/are')} missing: {look}"
    if claim := workloads.stuck:
        own = f"let each pod have a volume that nodes of {many(zones, 'zone')} can use, and then run a pod in each zone"
        return f"{own}: all pods share PersistentVolumeClaim {claim}, whose volume may keep them in one zone"
    scale = more(case)
    if workloads.own_claims:  # the pods stay where they are, and new pods start where the constraint wants
        return "; then, ".join(filter(None, ["" if workloads.is_spread() else keeping(case) + template(case), scale]))
    if workloads.is_spread() and scale:
        return scale
    return moved(case, scale=scale)


def moved(case: Case, losing: Iterable[str] = (), *, scale: str = "") -> str:
    """Return `scale` and commands that replace the pods, which are then spread over zones."""
    workloads = case.workloads
    steps = [workloads.restart] if workloads.is_spread(per_template=True) else [*workloads.gradual, template(case)]
    return keeping(case, losing) + "; and, ".join(filter(None, [scale, "; then, ".join(steps)]))


def keeping(case: Case, losing: Iterable[str] = ()) -> str:
    """Return what must happen before pods are replaced: zones with endpoints (except `losing`) must accept new pods."""
    let = shut_out(case, sorted(endpoints_by_zone(case).keys() - {*losing}))
    return f"first, {let}; then, " * bool(let)


def shut_out(case: Case, zones: Sequence[str]) -> str:
    """Return advice on letting pods start in zones that refuse them, or "" if none of these zones does."""
    shut = case.workloads.refusing(zones)
    refusals = case.workloads.refusals
    here = [name for name, each in case.cluster.nodes.items() if each.zone in shut]
    reasons = {why: [each for each in here if refusals[each] == why] for why in refusals.values()}
    why = ", ".join(f"{many(names, '', 'is/are')} {why}" for why, names in reasons.items() if names)
    return f"let a node of {many(shut, 'zone')} take pods ({why})" * bool(shut)


def template(case: Case) -> str:
    """Return the constraint that spreads the pods of a workload over zones where they can start."""
    features, workloads, nodes = case.cluster.features, case.workloads, case.cluster.nodes.items()
    shut = any("nodeSelector" not in each for each in workloads.refusals.values())
    taints = "nodeTaintsPolicy: Honor, " * (shut and features.at_least(26))
    when = "ScheduleAnyway" if workloads.own_claims or (shut and not taints) else "DoNotSchedule"
    selector = ",".join(f"{key}: {value}" for key, value in sorted((case.spec.get("selector") or {}).items()))
    kinds = {each.kind for each in workloads.movable} if workloads.movable and not case.unread else {"deployment"}
    hashes = sorted({HASHES[each] for each in kinds & HASHES.keys()}) * features.at_least(27)
    count = f", matchLabelKeys: [{', '.join(hashes)}]" * bool(hashes)
    bare = [] if "nodes" in case.cluster.objects.unread else [name for name, each in nodes if not each.zone]
    label = f"{case.label(bare)}; then, " if bare and when == "DoNotSchedule" else ""  # no pod starts elsewhere
    spread_out = [each.name for each in workloads.movable] or [*workloads.each]
    spread_out += [listed(sorted(case.unread))] * bool(case.unread)
    constraint = (
        f"topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {ZONE}, {taints}whenUnsatisfiable: {when}, "
        f"labelSelector: {{matchLabels: {{{selector}}}}}{count}}}]"
    )
    other = any(any(constraints(spec)) for each in workloads.movable for spec in each.specs)
    workloads.does(constraint, "it replaces the constraint for zones in the pod template" * other)
    return f"{label}{workloads.in_template(spread_out)}: {constraint}"


def admit(case: Case, names: Iterable[str]) -> str:
    """Return advice on running pods of a DaemonSet on these nodes, or "" if each node has a ready pod."""
    head = case.workloads.head
    there = {str(each["spec"].get("nodeName")): each for each in case.pods or ()}
    ill = [each["metadata"]["name"] for name, each in there.items() if name in names and not is_pod_ready(each)]
    groups: dict[tuple[str, ...], list[str]] = {}
    spec: Object = head.pods[0]["spec"] if head.pods else {}
    for each in sorted({*names} & case.cluster.node_objects.keys() - there.keys()):
        groups.setdefault(tuple(sorted(untolerated(spec, case.cluster.node_objects[each]))), []).append(each)
    do = []
    for keys, on in sorted(groups.items()):
        add = ", ".join(f"{{key: {each}, operator: Exists}}" for each in keys)
        let = f"{case.workloads.in_template([head.name])}, add tolerations: [{add}]"
        if not keys:
            look = f"kubectl -n {case.namespace} get {head.name} -o jsonpath='{{.spec.template.spec}}'"
            let = f"let {head.name} run there, by its nodeSelector, affinity and tolerations: {look}"
        do.append(f"nothing, if no client runs on {listed(on)}; otherwise {let}")
    return "; and, ".join([f"kubectl -n {case.namespace} describe pod {' '.join(ill)}"] * bool(ill) + do)


def overloads(shares: ZoneShares, endpoints: int) -> str:
    """Return a sentence about the overload of a zone in the best distribution of endpoints."""
    percent = overload_percent(shares, endpoints)
    near = round(percent) in _THRESHOLDS
    said = f"exactly {percent}" if percent in _THRESHOLDS else f"{float(percent):.{int(near)}f}"
    return f"{endpoints} endpoints over {len(shares.weights)} zones with this CPU would overload a zone by {said} %"


def overload_percent(shares: ZoneShares, endpoints: int) -> Fraction:
    """Return the minimum overload of all distributions, in percent (KEP-2433, Overload)."""
    held = dict.fromkeys(shares.weights, 1)
    heap = [(float(-weight), zone) for zone, weight in shares.weights.items()]
    heapq.heapify(heap)
    for _ in range(endpoints - len(held)):
        _, zone = heap[0]
        held[zone] += 1
        heapq.heapreplace(heap, (-shares.weights[zone] / held[zone], zone))
    worst = max(Fraction(shares.weights[zone] * endpoints, shares.total * count) for zone, count in held.items())
    return (worst - 1) * 100


def floating_point_refuses(cluster: Cluster, endpoints: int) -> bool:
    """Return whether rounding errors cause the controller to refuse hints that exact arithmetic allows."""
    shares = cluster.zones.shares
    return cluster.features.follows == "released" and isinstance(shares, ZoneShares) and refuses(shares, endpoints)


def enough(shares: ZoneShares, endpoints: int, threshold: Threshold) -> int:
    """Return the next larger number of endpoints for which every controller writes hints, or 0 if it is too large."""
    for number in range(max(endpoints, len(shares.weights)), max(endpoints, len(shares.weights)) + _FAR):
        refused = isinstance(allocate(shares, number, threshold), NoHintsReason) or refuses(shares, number)
        if not refused and number != endpoints:
            return number
    return 0
