"""Find what may soon leave a zone without endpoints: an autoscaler, a rollout, evictions, or a drain.

Connections then leave the zone, although they stay in it now. Only what objects show counts. Manifests have no status:
what their spec permits is told then, and that more is not known.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from explain.case import Case
from explain.causes import Finding, found, listed, many
from harness.api.client import Object
from reference.objects.endpoints import name_of

ONE_BY_ONE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
"""The strategy of a Deployment that starts a new pod before an old pod ends."""

Zones = Mapping[str, Mapping[str, str]]
"""The nodes of ready endpoints, by zone and name of the endpoint."""


def outlook(case: Case, ready: Sequence[Object]) -> Iterator[Finding]:
    zones: dict[str, dict[str, str]] = defaultdict(dict)
    for each in ready:
        node = case.cluster.nodes.get(str(each.get("nodeName")))
        if node and node.zone:
            zones[node.zone][name_of(each)] = node.name
    if case.wish in {"node", "zone", "cpu"} and len(zones) > 1:
        yield from _autoscaler(case, zones)
        yield from _rollout(case, zones)
        yield from _evictions(case, zones)
        yield from _drains(case, zones)


def _autoscaler(case: Case, zones: Zones) -> Iterator[Finding]:
    least = (case.autoscaler or {"spec": {"minReplicas": len(zones)}})["spec"].get("minReplicas", 1)
    if case.autoscaler and least < len(zones):
        values = {"name": case.autoscaler["metadata"]["name"], "workload": case.workload, "zones": len(zones)}
        yield found("autoscaler-below-zones", least=many(least, "pod"), patch=case.scale(len(zones)), **values)


def _rollout(case: Case, zones: Zones) -> Iterator[Finding]:
    for each in case.further("deployments"):
        if f"deployment/{each['metadata']['name']}" != case.workload:
            continue
        spec, patch = each.get("spec") or {}, case.patch({"strategy": ONE_BY_ONE}, case.workload)
        if (spec.get("strategy") or {}).get("type") == "Recreate":
            yield found("recreate-empties-all-zones", workload=case.workload, patch=patch)
            continue
        most, (updated, pods), status = _most_unavailable(spec, zones), _progress(each), each.get("status")
        if (updated < pods or not status) and (names := _with_at_most(most, zones)):
            evidence = [f"{updated} of {many(pods, 'pod')} updated"] if status else []
            has = "has begun and may take" if status else "would take up to"
            values = {"workload": case.workload, "most": many(most, "pod"), "zones": listed(names), "patch": patch}
            values |= {"has": has, "unread": "" if status else _NO_STATUS}
            yield found("rollout-may-empty-a-zone", nodes=_nodes(case, names), evidence=evidence, **values)


_NO_STATUS = " (by its spec; its status was not read)"


def _most_unavailable(spec: Object, zones: Zones) -> int:
    """Return how many pods a rolling update of a Deployment may take at once."""
    bounds, pods = (spec.get("strategy") or {}).get("rollingUpdate") or {}, int(spec.get("replicas", _ready(zones)))
    most = {name: _part(bounds.get(name, "25%"), pods) for name in ("maxSurge", "maxUnavailable")}
    return math.floor(most["maxUnavailable"]) or int(math.ceil(most["maxSurge"]) == 0)


def _ready(zones: Zones) -> int:
    return sum(map(len, zones.values()))


def _part(bound: object, pods: int) -> float:
    """Return a number of pods that is given as a number or as a share."""
    said = str(bound)
    return pods * int(said[:-1]) / 100 if said.endswith("%") else int(said)


def _progress(deployment: Object) -> tuple[int, int]:
    """Return how many pods of a Deployment are of its newest template, and how many pods there are or should be."""
    metadata, spec, status = deployment["metadata"], deployment.get("spec") or {}, deployment.get("status") or {}
    if "replicas" not in status:
        return 0, 0
    pods = max(int(status["replicas"]), int(spec.get("replicas", 1)))
    seen = status.get("observedGeneration", 0) >= metadata.get("generation", 0)
    return (int(status.get("updatedReplicas", 0)) if seen else 0), pods


def _evictions(case: Case, zones: Zones) -> Iterator[Finding]:
    for each in case.further("poddisruptionbudgets"):
        allowed = _allowed(each, _ready(zones))
        if _selects(each, case) and (names := _with_at_most(allowed, zones)):
            name = each["metadata"]["name"]
            patch = case.patch({"maxUnavailable": 1, "minAvailable": None}, f"poddisruptionbudget {name}")
            if _with_at_most(1, zones):
                patch = f"{case.scale(2 * len(zones))}; {patch}"
            now = "now" if each.get("status") else "if no pod is missing" + _NO_STATUS
            values = {"name": name, "allowed": many(allowed, "eviction"), "zones": listed(names), "patch": patch}
            values |= {"now": now}
            yield found("budget-permits-an-empty-zone", nodes=_nodes(case, names), **values)


def _allowed(budget: Object, pods: int) -> int:
    """Return how many evictions a PodDisruptionBudget permits now, or without a status while so many pods are ready."""
    spec, status = budget.get("spec") or {}, budget.get("status")
    if status:
        return int(status.get("disruptionsAllowed", 0))
    if "maxUnavailable" in spec:
        return min(pods, math.ceil(_part(spec["maxUnavailable"], pods)))
    return max(0, pods - math.ceil(_part(spec.get("minAvailable", pods), pods)))


def _selects(budget: Object, case: Case) -> bool:
    """Return whether a PodDisruptionBudget selects the pods of the Service. Expressions are not read."""
    selector = (budget.get("spec") or {}).get("selector") or {}
    wanted = (selector.get("matchLabels") or {}).items()
    labels = [(each["metadata"].get("labels") or {}).items() for each in case.pods or ()]
    labels = labels or [(case.spec.get("selector") or {}).items()]  # which each of its pods has
    return not selector.get("matchExpressions") and bool(labels) and all(wanted <= each for each in labels)


def _drains(case: Case, zones: Zones) -> Iterator[Finding]:
    for zone, endpoints in sorted(zones.items()):
        if {*endpoints.values()} <= case.cluster.cordoned:
            nodes = sorted({*endpoints.values()})
            uncordon = "; ".join(f"kubectl uncordon {each}" for each in nodes)
            values = {"names": listed(nodes), "zone": zone, "uncordon": uncordon}
            yield found("drain-empties-a-zone", nodes=_nodes(case, [zone]), **values)


def _with_at_most(number: int, zones: Zones) -> list[str]:
    return sorted(zone for zone, endpoints in zones.items() if len(endpoints) <= number)


def _nodes(case: Case, zones: Sequence[str]) -> list[str]:
    return [each.name for each in case.cluster.nodes.values() if each.zone in zones]
