"""Find facts about a Service or its endpoints that explain what clients see, apart from hints."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from explain.case import Case
from explain.causes import NOTE, SHOWN, Finding, found, listed, many
from explain.proxy_bypass import choosers
from explain.requested_topology import KEYS, OFF, read_wish, unread_requests
from explain.routes import Route
from explain.upcoming_risks import outlook
from harness.api.client import Object
from reference.endpointslice.hints import CpuHeuristic, NoHints
from reference.endpointslice.labels import TOPOLOGY_MODE
from reference.objects.endpoints import has_hints, is_ready, name_of
from reference.proxy.objects import canonical

_OF_ISTIO = "networking.istio.io/traffic-distribution"
_ROLES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def oddities(case: Case, of_all: Sequence[Route]) -> Iterator[Finding]:
    if case.spec.get("sessionAffinity") == "ClientIP":
        yield found("session-affinity", patch=case.patch({"sessionAffinity": "None"}))
    if case.spec.get("publishNotReadyAddresses"):
        yield found("publishes-unready-pods", patch=case.patch({"publishNotReadyAddresses": False}))
    yield from choosers(case)
    yield from _addresses(case)
    ours = any(has_hints(each) and case.is_own(one) for each, one in case.endpoints)
    if ours and isinstance(case.decided_by, NoHints) and not case.decided_by.unknown:
        yield found("hints-nobody-asked-for", writers=listed(case.writers) or "an unknown client", touch=case.touch)
    used = {address for route in of_all for address in route.endpoints}
    hosts = {str(each.get("nodeName")) for each, _ in case.endpoints if canonical(each["addresses"][0]) in used}
    if lost := sorted(case.cluster.ill & hosts):
        yield found("endpoint-on-a-node-not-ready", nodes=lost, names=listed(lost), first=" ".join(lost[:SHOWN]))
    yield from outlook(case)
    if not case.selects_pods and case.spec.get("selector"):
        selected = {"namespace": case.namespace, "selector": case.selector}
        yield found("selector-matches-nobody", **selected).weighing(NOTE)
    if isinstance(case.decided_by, CpuHeuristic) and any(case.is_own(one) for _, one in case.endpoints):
        yield from _control_plane(case)


def unread(case: Case) -> Iterator[Finding]:
    """Yield findings about labels and annotations that apparently request topology, but that no component reads."""
    features = case.cluster.features
    annotations: Object = case.service["metadata"].get("annotations") or {}
    asks, meant = read_wish(case.service, features), KEYS[not features.at_least(27)]
    for kind, key, value in unread_requests(case.service, features):
        again = case.kubectl(f"annotate {meant}={value if value in OFF else 'Auto'} --overwrite")
        verb, cause = ("label", "annotation-as-label") if kind == "label" else ("annotate", "annotation-misspelt")
        change = case.kubectl(f"{verb} {key}-") + ("" if asks or meant in annotations else f"; {again}")
        if key != TOPOLOGY_MODE or kind == "label" or not features.at_least(27):  # see `annotation-hidden`
            known = found(cause, key=key, meant=meant, change=change)
            yield known.weighing(NOTE) if asks else known
    if not case.wish and annotations.get(_OF_ISTIO):
        yield found("annotation-of-a-mesh", key=_OF_ISTIO, value=annotations[_OF_ISTIO], patch=case.ask())


def _addresses(case: Case) -> Iterator[Finding]:
    by_address: dict[tuple[str, ...], list[Object]] = defaultdict(list)
    for each, one in case.endpoints:
        for port in one.get("ports") or ():
            by_address[each["addresses"][0], port.get("name") or "", port.get("protocol") or "TCP"].append(each)
    twice = [each for each in by_address.values() if len(each) > 1]
    pods = [each for each in twice if len({*map(name_of, each)}) > 1 and len({*map(is_ready, each)}) > 1]
    for held in pods[:1]:
        used, names = name_of(next(filter(is_ready, held))), listed([*map(name_of, held)])
        yield found("address-of-two-endpoints", address=held[0]["addresses"][0], names=names, used=used)
    if in_two := sorted({name_of(each[0]) for each in twice if len({*map(name_of, each)}) == 1}):
        says = many(in_two, "endpoint", "is in several slices, and counts once/are in several slices, and count once")
        yield found("endpoint-in-two-slices", says)


def _control_plane(case: Case) -> Iterator[Finding]:
    left_out = {
        str(each["metadata"]["name"]): next(iter(role))
        for each in case.cluster.objects.nodes
        if (role := {*_ROLES} & (each["metadata"].get("labels") or {}).keys())
    }
    if left_out and case.cluster.features.at_least(23):
        zones = {each.zone for each in case.cluster.nodes.values() if each.counts}
        lost = sorted(name for name in left_out if case.cluster.nodes[name].zone not in zones)
        values = {"count": many(len(left_out), "node", "has/have"), "label": next(iter(left_out.values()))}
        known = found("control-plane-not-counted", nodes=lost or sorted(left_out), instead=case.by_field, **values)
        yield known if lost else known.weighing(NOTE)
