"""Find ports of a Service whose targetPort is a name that only some of the selected pods have."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from explain.case import Case, has_port, port_name
from explain.causes import CROSSES, FAILS, NOTE, Effect, Finding, found, many
from explain.objects import ports_of
from explain.routes import Route
from harness.api.client import Object
from reference.objects.endpoints import is_ready


def partly(case: Case, of_all: Sequence[Route]) -> Iterator[Finding]:
    """Yield findings about named target ports that ready pods lack, if some port of a slice or pod has the name."""
    for number, port in enumerate(case.spec.get("ports") or ()):
        target, protocol = port.get("targetPort"), port.get("protocol") or "TCP"
        if isinstance(target, str):
            lack = [each for each in case.ready_pods if f"{target} {protocol}" not in ports_of(each)]
            there = any(one.get("endpoints") and has_port(one, port) for one in case.slices)
            if lack and (there or len(lack) < len(case.ready_pods)):
                yield from _unnamed(case, number, lack, [each for each in of_all if each.port == port_name(port)])


def _unnamed(case: Case, number: int, lack: Sequence[Object], of_port: Sequence[Route]) -> Iterator[Finding]:
    port = case.spec["ports"][number]
    on = {str(each["spec"].get("nodeName")) for each in lack}
    served = {case.cluster.zone(each) for each, one in case.endpoints if is_ready(each) and has_port(one, port)} - {""}
    places = {name: each.zone for name, each in case.cluster.nodes.items() if each.zone not in served}
    zones = {places[each] for each in on if each in places} - {""}
    near = {name for name, zone in places.items() if zone in zones or (name in on and not zone)}
    lost = defaultdict[Effect, dict[str, set[str]]](dict)  # nodes by label
    for each in (one for one in of_port if one.short):
        by_node = "Local" in each.because or each.short == "misses"
        if names := {*each.nodes} & (on if by_node else set() if each.fails else near):
            lost[FAILS if each.fails else CROSSES].setdefault(each.label, set()).update(names)
    name = port.get("name") or ""
    there = {each["port"] for one in case.slices for each in one.get("ports") or () if (each.get("name") or "") == name}
    at = min(there, default=port["port"])
    change = [{"op": "replace", "path": f"/spec/ports/{number}/targetPort", "value": at}]
    values = {"port": port_name(port), "target": port["targetPort"], "protocol": port.get("protocol") or "TCP"}
    values["pods"] = many(sorted(each["metadata"]["name"] for each in lack), "pod", "has/have")
    values["template"] = case.workloads.in_template(sorted({case.workloads.owner(each) for each in lack}))
    values["patch"] = case.kubectl(f"patch --type=json -p '{json.dumps(change, separators=(',', ':'))}'")
    for weight, of_labels in (lost or {NOTE: {each.label: set() for each in of_port}}).items():
        nodes, so = (
            sorted(set().union(*of_labels.values())),
            {FAILS: ": connections fail", CROSSES: ": connections go elsewhere"},
        )
        known = found("target-port-of-some-pods", nodes=nodes, number=at, so=so.get(weight, ""), **values)
        yield replace(known.weighing(weight), ports=tuple(of_labels))
