"""Commands that add hints, ports and IP families to EndpointSlices that no controller writes."""

from collections.abc import Sequence

from explain.case import Case, slice_port
from explain.causes import CROSSES, Effect, Finding, found, listed, many
from harness.api.client import Object
from reference.endpointslice.labels import MANAGED_BY
from reference.objects.endpoints import is_ready

_MIRRORING = "endpointslicemirroring-controller.k8s.io"


def give_hints(case: Case, endpoints: Sequence[tuple[Object, Object]]) -> str:
    """Return the commands that add hints to endpoints, or, if that may not work, remove the request for hints."""
    asked = [case.unannotate] if case.annotation[1] else []
    asked += [case.patch({"trafficDistribution": None})] if case.spec.get("trafficDistribution") else []
    unask = "; ".join(asked) or "nothing"
    if case.is_of_server:
        return f"{unask}{'; ' if asked else ': '}the API server writes these endpoints, and takes hints away"
    if any((one["metadata"].get("labels") or {}).get(MANAGED_BY) == _MIRRORING for _, one in endpoints):
        write = "write an EndpointSlice with these endpoints and hints (mirrored Endpoints have none)"
        skip = f"kubectl -n {case.namespace} label endpoints {case.name} endpointslice.kubernetes.io/skip-mirror=true"
        return f"{unask}; or {write}; then {skip}"
    slices = {one["metadata"]["name"]: one for _, one in endpoints}
    made = [_patched(case, slices[each]) for each in sorted(slices)]
    unknown = [zone for _, zones in made for zone in zones]
    commands = "; ".join(command for command, _ in made)
    return f"{commands}; with zones in place of {listed(unknown)}" if unknown else commands


def _patched(case: Case, endpoint_slice: Object) -> tuple[str, list[str]]:
    changes, unknown = list[Object](), list[str]()
    for number, each in enumerate(endpoint_slice["endpoints"]):
        zone = case.cluster.zone(each) or f"ZONE_OF_{each['addresses'][0]}"
        hints: Object = {"forZones": [{"name": zone}]}
        if case.wish == "node" and each.get("nodeName"):
            hints["forNodes"] = [{"name": each["nodeName"]}]
        new = {"zone": zone, "hints": hints}
        if is_ready(each) and (paths := [key for key, value in new.items() if each.get(key) != value]):
            unknown += [] if case.cluster.zone(each) else [zone]
            changes += [{"op": "add", "path": f"/endpoints/{number}/{key}", "value": new[key]} for key in paths]
    return case.patch_slice(endpoint_slice["metadata"]["name"], changes), unknown


def give_family(case: Case, family: str) -> str:
    """Return advice on adding endpoints of an IP family to a Service."""
    if not case.selects_pods:
        return f"write endpoints of family {family} into an EndpointSlice"
    look = f"kubectl -n {case.namespace} get pods -o custom-columns=NAME:.metadata.name,IPS:.status.podIPs"
    return f"{look}; then give the pods addresses of family {family}"


def add_ports(case: Case, ports: Sequence[Object], slices: Sequence[Object]) -> str:
    """Return the commands that add ports to slices. If another slice has a port, use its number."""
    new, commands, given = [slice_port(each) for each in ports], [], set[str]()
    for each in new:
        known = [one for other in case.slices for one in other.get("ports") or ()]
        each["port"] = next((one["port"] for one in known if {**one, "port": 0} == {**each, "port": 0}), each["port"])
    by_size = sorted(slices, key=lambda each: -len(each.get("endpoints") or ()))
    for name, one in {each["metadata"]["name"]: each for each in by_size}.items():
        addresses = {each["addresses"][0] for each in one.get("endpoints") or ()}
        if addresses <= given:
            continue  # as in another slice
        given |= addresses
        whole = {"path": "/ports", "value": new}
        changes = [{"path": "/ports/-", "value": each} for each in new] if one.get("ports") else [whole]
        commands.append(case.patch_slice(name, [{"op": "add", **each} for each in changes]))
    return "; ".join(commands)


def not_listed(case: Case, nodes: Sequence[str], weight: Effect) -> Finding:
    """Return a finding about ready pods in no slice: of all zones if connections fail, or of the zones of `nodes`."""
    pods, so = case.unlisted, ""
    if weight is CROSSES:
        zones = sorted({case.cluster.nodes[each].zone for each in nodes})
        pods = {name: on for name, on in pods.items() if case.cluster.zone({"nodeName": on}) in zones}
        so = f", so nodes of {many(zones, 'zone')} use other zones"
    said = many(sorted(pods), "pod", "is/are")
    known = found("pod-in-no-slice", nodes=nodes, evidence=case.evidence, pods=said, so=so, log=case.sync)
    return known.weighing(weight)
