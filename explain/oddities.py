"""Find what is odd about a Service or its endpoints, whatever its hints: mostly notes that explain what clients see."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterator

from explain.case import Case
from explain.causes import Finding, found, listed, many
from harness.api.client import Object
from reference.endpointslice.hints import CpuHeuristic, NoHints
from reference.endpointslice.labels import TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE, is_managed
from reference.objects.endpoints import has_hints, is_ready, name_of

_KEYS = (TOPOLOGY_MODE, TOPOLOGY_AWARE_HINTS)
_ROLES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_POD_TARGETS = {
    "service.beta.kubernetes.io/aws-load-balancer-nlb-target-type": "ip",
    "cloud.google.com/neg": "",
    "networking.gke.io/load-balancer-type": "",
}
"""Annotations of load balancers that send to pods instead of nodes, with their value ("" for any)."""


def oddities(case: Case) -> Iterator[Finding]:
    yield from of_service(case)
    endpoints = [(each, one) for one in case.slices for each in one.get("endpoints") or ()]
    if names := case.cluster.choosers(case.namespace):
        yield found("clients-choose-endpoints", names=listed(sorted(names)))
    yield from _addresses([each for each, _ in endpoints])
    yield from _of_hints(case, [(each, one) for each, one in endpoints if has_hints(each)])
    ready = [each for each, _ in endpoints if is_ready(each)]
    yield from _places(case, ready)
    if isinstance(case.decided_by, CpuHeuristic):
        yield from _control_plane(case)


def of_service(case: Case) -> Iterator[Finding]:
    metadata, spec = case.service["metadata"], case.spec
    annotations = metadata.get("annotations") or {}
    if spec.get("sessionAffinity") == "ClientIP":
        yield found("session-affinity", patch=case.patch({"sessionAffinity": "None"}))
    if spec.get("publishNotReadyAddresses"):
        yield found("publishes-unready-pods", patch=case.patch({"publishNotReadyAddresses": False}))
    if spec.get("internalTrafficPolicy") == "Local" and spec.get("trafficDistribution"):
        yield found("policy-hides-field", field=spec["trafficDistribution"])
    for key, value in _POD_TARGETS.items():
        if key in annotations and value in {"", annotations[key]}:
            yield found("load-balancer-to-pods", key=key)


def misspelt(case: Case) -> Finding | None:
    """Return the annotation that is nearly the topology annotation, if the Service asks for nothing."""
    annotations = case.service["metadata"].get("annotations") or {}
    for key, value in sorted(annotations.items() if not case.wish else ()):
        near = difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.85) if key not in _KEYS else []
        if near or ("topology" in key and key.startswith("service.kubernetes.io/") and key not in _KEYS):
            meant = TOPOLOGY_MODE if case.cluster.features.at_least(27) else TOPOLOGY_AWARE_HINTS
            again = f"annotate {meant}={value or 'Auto'}"
            change = f"{case.kubectl(f'annotate {key}-')}; {case.kubectl(again)}"
            return found("annotation-misspelt", key=key, meant=meant, change=change)
    return None


def _addresses(endpoints: list[Object]) -> Iterator[Finding]:
    by_address: dict[tuple[str, ...], list[Object]] = defaultdict(list)
    for each in endpoints:
        by_address[tuple(each["addresses"][:1])].append(each)
    twice = {address: each for address, each in by_address.items() if len(each) > 1}
    if not twice:
        return
    (address,), held = next(iter(twice.items()))
    if len({is_ready(each) for each in held}) > 1:
        used = name_of(next(each for each in held if is_ready(each)))
        yield found("address-of-two-endpoints", address=address, names=listed([*map(name_of, held)]), used=used)
    elif len({name_of(each) for each in held}) == 1:
        yield found("endpoint-in-two-slices", names=listed(sorted({name_of(each[0]) for each in twice.values()})))


def _of_hints(case: Case, hinted: list[tuple[Object, Object]]) -> Iterator[Finding]:
    zones = {str(name["name"]) for each, _ in hinted for name in each["hints"].get("forZones") or ()}
    if empty := sorted(zones - {*case.cluster.names_of_zones}):
        foreign = any(not is_managed(one) for _, one in hinted)
        again = case.writers if foreign or not case.spec.get("selector") else case.touch
        yield found("hint-for-a-zone-without-nodes", zones=listed(empty), again=again)
    ours = [one for _, one in hinted if is_managed(one)]
    if ours and case.spec.get("selector") and isinstance(case.decided_by, NoHints):
        fields = [each for one in ours for each in one["metadata"].get("managedFields") or ()]
        writers = {str(each.get("manager", "?")) for each in fields if "f:endpoints" in (each.get("fieldsV1") or {})}
        yield found("hints-nobody-asked-for", writers=listed(sorted(writers)) or "an unknown client", touch=case.touch)


def _places(case: Case, ready: list[Object]) -> Iterator[Finding]:
    lost = sorted({
        str(each.get("nodeName")) for each in ready
        if each.get("nodeName") in case.cluster.nodes and not case.cluster.nodes[each["nodeName"]].ready
    })  # fmt: skip
    if lost:
        yield found("endpoint-on-a-node-not-ready", nodes=lost, names=listed(lost), first=lost[0])


def _control_plane(case: Case) -> Iterator[Finding]:
    """Yield the nodes that the controller leaves out of the CPU ratio and of the count of zones."""
    left_out = {
        str(each["metadata"]["name"]): next(iter(role))
        for each in case.cluster.objects.nodes
        if (role := {*_ROLES} & (each["metadata"].get("labels") or {}).keys())
    }
    if left_out and case.cluster.features.at_least(23):
        label = next(iter(left_out.values()))
        count = many(len(left_out), "node", "has/have")
        yield found("control-plane-not-counted", nodes=sorted(left_out), count=count, label=label)
