"""The hints that the writer of EndpointSlices should give, where no controller writes them, and commands that do."""

from collections.abc import Sequence

from explain.case import Case
from explain.causes import listed
from harness.api.client import Object
from reference.endpointslice.labels import MANAGED_BY

_MIRRORING = "endpointslicemirroring-controller.k8s.io"


def give_hints(case: Case, endpoints: Sequence[tuple[Object, Object]]) -> str:
    """Return the commands that give endpoints their zone and hints for their place, or one that withdraws the wish."""
    key, value = case.annotation
    asked = [case.kubectl(f"annotate {key}-")] if value else []
    asked += [case.patch({"trafficDistribution": None})] if case.spec.get("trafficDistribution") else []
    unask = "; ".join(asked) or "nothing"
    if (case.namespace, case.name) == ("default", "kubernetes"):
        return f"{unask}; the API server writes these endpoints, and takes hints away"
    if any((one["metadata"].get("labels") or {}).get(MANAGED_BY) == _MIRRORING for _, one in endpoints):
        write = "write an EndpointSlice with these endpoints and hints (mirrored Endpoints have none)"
        skip = f"kubectl -n {case.namespace} label endpoints {case.name} endpointslice.kubernetes.io/skip-mirror=true"
        return f"{unask}; or {write}; then {skip}"
    patches: dict[str, list[Object]] = {}
    unknown = []
    for each, one in endpoints:
        number = next(number for number, other in enumerate(one["endpoints"]) if other is each)
        zone = case.cluster.zone(each) or f"ZONE_OF_{each['addresses'][0]}"
        hints: Object = {"forZones": [{"name": zone}]}
        if case.wish == "node" and each.get("nodeName"):
            hints["forNodes"] = [{"name": each["nodeName"]}]
        change: Object = {"hints": hints} if each.get("zone") == zone else {"zone": zone, "hints": hints}
        unknown += [] if case.cluster.zone(each) else [zone]
        changes = [{"op": "add", "path": f"/endpoints/{number}/{key}", "value": it} for key, it in change.items()]
        patches.setdefault(one["metadata"]["name"], []).extend(changes)
    commands = "; ".join(case.patch_slice(name, changes) for name, changes in sorted(patches.items()))
    return f"{commands}; with zones in place of {listed(unknown)}" if unknown else commands
