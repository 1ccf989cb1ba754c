"""Fixes that add pods: how many pods a Service needs, and how to run them in each zone.

All fixes for a Service use the same number of pods, so no fix undoes another one.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from explain.case import Case, condition
from explain.causes import listed, many
from explain.zone_overload import enough
from harness.api.client import Object
from harness.model.manifests import refusing_taints
from reference.endpointslice.allocation import rules
from reference.endpointslice.endpoints import is_ready as is_pod_ready
from reference.endpointslice.hints import CpuHeuristic
from reference.endpointslice.labels import ZONE
from reference.endpointslice.zones import ZoneShares
from reference.objects.endpoints import is_ready, name_of

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
    """Yield each PodDisruptionBudget that permits evicting all pods of a zone, with the allowed evictions and zones."""
    zones = endpoints_by_zone(case)
    for each in case.further("poddisruptionbudgets"):
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
    """Return whether a PodDisruptionBudget selects the Service's pods (False if the budget uses matchExpressions)."""
    selector = (budget.get("spec") or {}).get("selector") or {}
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
    zones = len((case.cluster.open_zones | there.keys()) - {""})  # with an endpoint, or a node where a pod can start
    single = case.wish in {"node", "zone", "cpu"} and with_at_most(1, there) and any(permits(case))
    number = max(zones * (2 if single else 1), pods(case))
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
    return case.scale(number) if number > pods(case) and case.selects_pods else ""


def spread(case: Case, zones: Sequence[str]) -> str:
    """Return commands or advice for running pods in these zones, which have no endpoint."""
    if not case.selects_pods:
        return f"let the writer of the EndpointSlices add an endpoint in {many(zones, 'zone')}"
    if case.workload.startswith("daemonset/"):
        return admit(case, [name for name, each in case.cluster.nodes.items() if each.zone in zones])
    if let := shut_out(case, zones):
        return f"nothing, if no client runs there; otherwise {let}"
    desired = int(case.deployment.get("replicas") or 0)
    if desired >= wanted(case) > pods(case):
        look = f"kubectl -n {case.namespace} get pods -l {case.selector} -o wide"
        return f"find out why {many(desired - pods(case), 'pod', 'is/are')} missing: {look}"
    scale = more(case)
    if case.is_spread:
        return scale or case.restart
    return "; and, ".join(filter(None, [scale, template(case)]))


def shut_out(case: Case, zones: Sequence[str]) -> str:
    """Return advice on letting pods start in these zones, or "" if they can start there or belong to a DaemonSet."""
    here = [name for name, each in case.cluster.nodes.items() if each.zone in zones]
    opened = case.workload.startswith("daemonset/") or not {*here} <= case.cluster.closed
    return "" if opened else f"let a node of {many(zones, 'zone')} take pods ({_reasons(case, here)})"


def template(case: Case) -> str:
    """Return the constraint that spreads the pods of a workload over zones where they can start."""
    shut, features, nodes = case.cluster.closed, case.cluster.features, case.cluster.nodes.items()
    taints = "nodeTaintsPolicy: Honor, " * (bool(shut) and features.at_least(26))
    when = "ScheduleAnyway" if shut and not taints else "DoNotSchedule"
    selector = ",".join(f"{key}: {value}" for key, value in sorted((case.spec.get("selector") or {}).items()))
    bare = [] if "nodes" in case.cluster.objects.unread else [name for name, each in nodes if not each.zone]
    label = f"{case.label(bare)}; then, " if bare and when == "DoNotSchedule" else ""  # no pod starts elsewhere
    spread_out = [each for each in case.owners if not each.startswith("daemonset/")] or [*case.owners]
    spread_out += [listed(sorted(case.unread))] * bool(case.unread)
    return (
        f"{label}{case.in_template(spread_out)}: topologySpreadConstraints: [{{maxSkew: 1, "
        f"topologyKey: {ZONE}, {taints}whenUnsatisfiable: {when}, labelSelector: {{matchLabels: {{{selector}}}}}}}]"
    )


def admit(case: Case, names: Iterable[str]) -> str:
    """Return advice on running pods of a DaemonSet on these nodes, or "" if each node has a ready pod."""
    there = {str(each["spec"].get("nodeName")): each for each in case.pods or ()}
    ill = [each["metadata"]["name"] for name, each in there.items() if name in names and not is_pod_ready(each)]
    groups: dict[tuple[str, ...], list[str]] = {}
    for each in sorted({*names} & case.cluster.node_objects.keys() - there.keys()):
        groups.setdefault(tuple(sorted(refusing_taints(case.cluster.node_objects[each]))), []).append(each)
    do = []
    for keys, on in sorted(groups.items()):
        add = ", ".join(f"{{key: {each}, operator: Exists}}" for each in keys)
        let = f"in the pod template of {case.workload}, add tolerations: [{add}]"
        if not keys:
            look = f"kubectl -n {case.namespace} get {case.workload} -o jsonpath='{{.spec.template.spec}}'"
            let = f"let {case.workload} run there, by its nodeSelector, affinity and tolerations: {look}"
        do.append(f"nothing, if no client runs on {listed(on)}; otherwise {let}")
    return "; and, ".join([f"kubectl -n {case.namespace} describe pod {' '.join(ill)}"] * bool(ill) + do)


def _reasons(case: Case, names: Sequence[str]) -> str:
    said = []
    for each in names[:3]:
        keys = " ".join(refusing_taints(case.cluster.node_objects[each]))
        cordoned, ill = each in case.cluster.cordoned, not case.cluster.nodes[each].ready
        said.append(f"{each} is {'cordoned' if cordoned else 'not ready' if ill else f'tainted with {keys}'}")
    return ", ".join(said)
