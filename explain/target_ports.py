"""Find ports of a Service whose targetPort is a name that only some of the selected pods have."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from explain.case import Case, port_name
from explain.causes import FAILS, NOTE, Finding, found, many
from explain.objects import sidecars
from explain.routes import Route
from harness.api.client import Object


def partly(case: Case, of_all: Sequence[Route]) -> Iterator[Finding]:
    """Yield findings about named target ports that only some ready pods have. Other pods are not endpoints."""
    for number, port in enumerate(case.spec.get("ports") or ()):
        target, protocol = port.get("targetPort"), port.get("protocol") or "TCP"
        if isinstance(target, str):
            lack = [each for each in case.ready_pods if f"{target} {protocol}" not in ports_of(each)]
            if 0 < len(lack) < len(case.ready_pods):
                yield _unnamed(case, number, lack, [each for each in of_all if each.port == port_name(port)])


def _unnamed(case: Case, number: int, lack: Sequence[Object], of_port: Sequence[Route]) -> Finding:
    port = case.spec["ports"][number]
    on = {str(each["spec"].get("nodeName")) for each in lack}
    nodes_by_name = case.cluster.nodes
    zones = {nodes_by_name[each].zone for each in on if each in nodes_by_name} - {""}
    near = on | {name for name, each in nodes_by_name.items() if each.zone in zones}
    short = [(each, on if "Local" in each.because or each.short == "misses" else near) for each in of_port]
    nodes = sorted({name for each, known in short if each.short for name in each.nodes if name in known})
    name = port.get("name") or ""
    there = {each["port"] for one in case.slices for each in one.get("ports") or () if (each.get("name") or "") == name}
    at = min(there, default=port["port"])
    change = [{"op": "replace", "path": f"/spec/ports/{number}/targetPort", "value": at}]
    values = {"port": port_name(port), "target": port["targetPort"], "protocol": port.get("protocol") or "TCP"}
    values["pods"] = many(sorted(each["metadata"]["name"] for each in lack), "pod", "has/have")
    values["template"] = case.workloads.in_template(sorted({case.workloads.owner(each) for each in lack}))
    values["patch"] = case.kubectl(f"patch --type=json -p '{json.dumps(change, separators=(',', ':'))}'")
    known = found("target-port-of-some-pods", nodes=nodes, number=at, **values)
    fails = any(each.fails for each, known in short if {*each.nodes} & {*nodes} & known)
    weight = NOTE if not nodes else FAILS if fails else known.cause.weight
    return replace(known.weighing(weight), ports=tuple(dict.fromkeys(each.label for each in of_port)))


def ports_of(pod: Object) -> set[str]:
    """Return the names of a pod's container ports, with their protocols."""
    return {
        f"{each['name']} {each.get('protocol') or 'TCP'}"
        for container in (*(pod["spec"].get("containers") or ()), *sidecars(pod))
        for each in container.get("ports") or ()
        if each.get("name")
    }
