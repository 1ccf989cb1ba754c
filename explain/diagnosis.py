"""Find why connections to a Service leave their zone: the causes in its objects, each with evidence and a remedy.

This module has no side effects and uses only the objects. The checks follow a hint from the request to its use: whether
the Service requests topology, which pods it selects, whether the controller writes hints, and whether nodes use them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from explain.case import Case
from explain.causes import CROSSES, NOTE, Finding, found, many
from explain.cluster import Cluster
from explain.controller_hints import hints, zones_of
from explain.proxy_hints import of_nodes, proxies
from explain.routes import Route, nodes_of, routes
from explain.service_intent import asks_nothing, ended, nobody, policies, words
from harness.api.client import Object
from reference.endpointslice.hints import NoHints
from reference.objects.endpoints import any_hints, has_hints, is_ready
from reference.proxy.objects import topology_keys

_UNREADABLE = "an EndpointSlice has an address that no proxy can parse, so no proxy makes rules for the Service"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The destinations of connections to a Service, and the reasons. Findings are sorted by weight.

    `asks` is the field or annotation that requests hints. `hints` counts hints by IP family. `crossing` and `failing`
    are the nodes whose connections may leave their zone or fail.
    """

    service: Object
    asks: str
    hints: tuple[str, ...]
    findings: tuple[Finding, ...]
    routes: tuple[Route, ...]
    crossing: tuple[str, ...]
    failing: tuple[str, ...]
    nodes: int

    @property
    def wanting(self) -> bool:
        """True if at least one node does not meet the Service's request."""
        return bool(self.findings) and self.findings[0].cause.weight <= CROSSES


def diagnose(service: Object, cluster: Cluster) -> Diagnosis:
    name = (service["metadata"]["namespace"], service["metadata"]["name"])
    slices = sorted(cluster.slices.get(name, ()), key=lambda each: (each["addressType"], each["metadata"]["name"]))
    case = Case(service, slices, cluster)
    known = [] if case.ends else routes(service, slices, cluster)
    by_proxies = tuple(known or ())
    crossing = nodes_of(by_proxies, lambda each: bool(each.crossing))
    failing = nodes_of(by_proxies, lambda each: each.fails)
    found_now = [found("slice-unreadable", _UNREADABLE)] if known is None else [*_findings(case, by_proxies)]
    weighed = [_weighed(each, crosses=bool(crossing)) for each in found_now]
    return Diagnosis(
        service,
        case.decided_by.reason,
        tuple(_hints_of(family, slices) for family in case.families),
        tuple(sorted(weighed, key=lambda each: each.cause.weight)),
        by_proxies,
        crossing,
        failing,
        len(cluster.nodes),
    )


def _weighed(finding: Finding, *, crosses: bool) -> Finding:
    """Reduce the weight of a finding to a note if no connection leaves its zone."""
    if crosses or finding.cause.weight is not CROSSES:
        return finding
    return replace(finding, cause=replace(finding.cause, weight=NOTE))


def _findings(case: Case, by_proxies: Sequence[Route]) -> Iterator[Finding]:
    if case.ends:
        yield ended(case)
        return
    asked = [*words(case)]
    yield from asked
    if topology_keys(case.service) and case.cluster.features.enabled("ServiceTopology"):
        keys = ", ".join(topology_keys(case.service))
        yield found("topology-keys", f"spec.topologyKeys applies, and hints have no effect: {keys}")
        return
    if (none := nobody(case)) is not None:
        yield none
        return
    yield from policies(case, by_proxies)
    if case.spec.get("internalTrafficPolicy") == "Local":
        return
    if isinstance(case.decided_by, NoHints) and not any(map(any_hints, case.slices)):
        yield from asks_nothing(case) if not asked or all(each.cause.weight > CROSSES for each in asked) else ()
        return
    for family in case.families:
        yield from _of_family(case, family, [each for each in by_proxies if each.family == family])
    yield from proxies(case, by_proxies)


def _of_family(case: Case, family: str, by_proxies: Sequence[Route]) -> Iterator[Finding]:
    """Yield the causes in one IP family. The text contains the family if the Service has two families."""
    known = case.endpoints(family)
    ready = [(each, one) for each, one in known if is_ready(each)]
    more = f"{family}: " if len(case.families) > 1 else ""
    if not ready:
        yield found("no-ready-endpoint", f"{more}no endpoint is ready")
        return
    of_hints = [*hints(case, ready)]
    for_all = any(each.cause.weight <= CROSSES for each in of_hints)
    for each in (*of_hints, *(() if for_all else of_nodes(case, known, by_proxies))):
        yield replace(each, says=more + each.says)


def _hints_of(family: str, slices: Iterable[Object]) -> str:
    mine = [one for one in slices if one["addressType"] == family]
    endpoints = [each for one in mine for each in one.get("endpoints") or ()]
    ready = [each for each in endpoints if is_ready(each)]
    zones = Counter(name for each in ready for name in zones_of(each.get("hints") or {}))
    hinted = sum(map(has_hints, ready))
    by_zone = ", ".join(f"{count} for zone {zone or '(none)'}" for zone, count in sorted(zones.items()))
    said = f"{hinted} of {many(len(ready), 'ready endpoint')} hinted" + (f" ({by_zone})" if by_zone else "")
    return f"{family}: {said}; {many(len(endpoints), 'endpoint')} in {many(len(mine), 'slice')}"
