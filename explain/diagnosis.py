"""Find why connections to a Service leave their zone: the causes in its objects, each with evidence and a fix.

The checks follow a hint from the request to its use: whether the Service requests topology, which pods it selects,
whether the controller writes hints, and whether nodes use them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from explain import service_intent
from explain.case import Case, ServicePorts, distinct, zones_of
from explain.causes import AS_ASKED, CROSSES, FAILS, NOTE, Effect, Finding, found, many
from explain.cluster import Cluster
from explain.controller_hints import hints
from explain.hint_patches import not_listed
from explain.other_causes import oddities, unread
from explain.proxy_bypass import to_pods
from explain.proxy_hints import doubts, faults, implementations, merged_policies, of_nodes, of_places, proxies
from explain.requested_topology import Wish
from explain.routes import UNPARSED, Route, about, described, is_far, nodes_of, routes
from harness.api.client import Object
from reference.endpointslice.hints import NoHints
from reference.endpointslice.labels import is_managed
from reference.objects.endpoints import any_hints, has_hints, is_ready


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The destinations of connections to a Service, and the reasons. Findings are sorted by weight.

    `asks` is what decides where connections go, `wish` is what the Service requests, and `hints` counts hints by IP
    family. `unrouted` are all nodes if a Service requests topology but no proxy routes it. `uncertain` are nodes that
    may have no proxy, or one that may ignore hints: their routes assume kube-proxy. `unseen` is true if no proxy pod
    was found, `predicted` if slices were predicted from pods, and `named` if the nodes are known only from slices.
    """

    service: Object
    asks: str
    wish: Wish
    hints: tuple[str, ...]
    findings: tuple[Finding, ...]
    routes: tuple[Route, ...]
    nodes: int
    seen_crossing: tuple[str, ...] = ()
    seen_failing: tuple[str, ...] = ()
    unrouted: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()
    predicted: bool = False
    named: bool = False
    unseen: bool = False

    @property
    def failing(self) -> tuple[str, ...]:
        """The nodes from which connections to some port fail."""
        return tuple(sorted({*nodes_of(self.routes, lambda each: each.fails), *self.seen_failing}))

    @property
    def crossing(self) -> tuple[str, ...]:
        """The nodes from which connections may leave the zone, even if the Service does not request to stay in it."""
        return tuple(sorted({*nodes_of(self.inside, lambda each: bool(each.crossing)), *self.seen_crossing}))

    @property
    def inside(self) -> list[Route]:
        """The routes of clients in the cluster."""
        return [each for each in self.routes if each.clients == "internal"]

    @property
    def unmet(self) -> tuple[str, ...]:
        """The nodes on which the Service does not get what it requests, because connections fail or go elsewhere."""
        short = nodes_of(self.routes, lambda each: bool(each.short))
        return tuple(sorted({*short, *self.seen_failing, *self.seen_crossing, *self.unrouted}))

    @property
    def wanting(self) -> bool:
        return bool(self.unmet)

    @property
    def shortfalls(self) -> list[tuple[Sequence[Route], "Causes"]]:
        """The routes in the headline, with their causes: failing routes, or else routes that leave a zone or node."""
        if not self.failing:
            away = [each for each in self.inside if each.crossing or each.short]
            return [(away, _causes_of(away, self.findings, AS_ASKED))]
        alike: dict[tuple[object, ...], list[Route]] = {}
        failing = sorted((each for each in self.routes if each.fails), key=lambda each: each.clients != "internal")
        for label in dict.fromkeys(each.label for each in failing):
            of_label = [each for each in failing if each.label == label]
            says = tuple((one.says, *names) for one, names in _causes_of(of_label, self.findings, FAILS))
            nodes, of = {*nodes_of(of_label)}, label.removesuffix(" external")
            same = [key for key, known in alike.items() if key[1:] == says and of in {each.label for each in known}]
            inside = [key for key in same if of != label and nodes <= {*nodes_of(alike[key])}]
            alike.setdefault(inside[0] if inside else (nodes_of(of_label), *says), []).extend(of_label)
        found = [(each, _causes_of(each, self.findings, FAILS)) for each in alike.values()]
        return sorted(found, key=lambda one: (one[0][0].clients != "internal", -len(nodes_of(one[0]))))

    @property
    def reason(self) -> Finding | None:
        """The first cause in the headline, or None if every node does what the Service requests."""
        if not self.unmet:
            return None
        seen = self.seen_failing or self.seen_crossing
        quoted = [] if seen else [one for _, causes in self.shortfalls for one, _ in causes]
        return next(iter([*quoted, *self.findings]))


Causes = Sequence[tuple[Finding, Sequence[str]]]
"""The causes of some routes, each with its nodes. A cause without nodes explains all these routes."""


def _causes_of(routes: Sequence[Route], findings: Iterable[Finding], least: Effect) -> Causes:
    left, causes = [{*each.nodes} for each in routes], []
    scopes = {one: [scope(one, each) for each in routes] for one in findings if one.cause.weight <= least}
    known = [one for one, of_routes in scopes.items() if any(of_routes)]
    for one in known:
        whole = all(len(on) == len(each.nodes) for on, each in zip(scopes[one], routes, strict=True))
        pods = one.cause.id == "pod-in-no-slice" and one is not known[0]  # for all ports, so others explain more
        if whole and one.cause.weight is known[0].cause.weight and not pods:
            return [(one, ())]
    for one in known:
        mine = [open_ & {*on} for open_, on in zip(left, scopes[one], strict=True)]
        left = [open_ - found for open_, found in zip(left, mine, strict=True)]
        if names := sorted(set().union(*mine)):
            causes.append((one, names))
    return causes


def diagnose(service: Object, cluster: Cluster) -> Diagnosis:
    name = (service["metadata"]["namespace"], service["metadata"]["name"])
    slices = sorted(cluster.slices.get(name, ()), key=lambda each: (each["addressType"], each["metadata"]["name"]))
    case = Case(service, slices, cluster)
    predicted = "endpointslices" in cluster.objects.unread
    unknown = predicted and not case.spec.get("selector") and not case.ends  # slices that nobody predicts
    by_proxies = () if case.ends or unknown else routes(service, slices, cluster)
    if to_pods(service):  # no node gets connections of its clients
        by_proxies = tuple(each for each in by_proxies if each.clients == "internal")
    weighed = [] if unknown else [_weighed(case.also(each), by_proxies) for each in _findings(case, by_proxies)]
    unrouted = tuple(sorted(cluster.nodes)) if case.wish and case.ends in {"headless", "external-name"} else ()
    if unrouted:
        weighed = [each.weighing(CROSSES) for each in weighed]
    findings = [*weighed, *_unexplained(case, weighed, by_proxies)]
    made = Diagnosis(
        service,
        service_intent.decides(case, balanced=bool(to_pods(service))),
        case.wish,
        tuple(_hints_of(family, slices) for family in case.families),
        tuple(sorted(findings, key=lambda each: each.cause.weight)),
        by_proxies,
        len(cluster.nodes),
        unrouted=unrouted,
        uncertain=cluster.uncertain if by_proxies else (),
        predicted=predicted,
        named="nodes" in cluster.objects.unread,
        unseen=not cluster.has_programs,
    )
    first = made.reason
    return replace(made, findings=tuple(sorted(made.findings, key=lambda each: each is not first))) if first else made


def _weighed(finding: Finding, by_proxies: Sequence[Route]) -> Finding:
    """Reduce a finding's weight to its worst effect on routes, and its nodes to the nodes with this effect."""
    if finding.cause.weight > CROSSES:
        return finding
    mine = [replace(each, nodes=names) for each in by_proxies if (names := tuple(scope(finding, each)))]
    fails = finding.cause.weight is FAILS and any(each.fails for each in mine)
    short = nodes_of(mine, lambda each: each.fails if fails else bool(each.short and not each.fails))
    if not short:
        return finding.weighing(NOTE)
    named = replace(finding, nodes=() if short == nodes_of(by_proxies) else short)
    return named if fails else named.weighing(CROSSES)


def scope(finding: Finding, route: Route) -> Sequence[str]:
    """Return the nodes of a route to which a finding applies."""
    if (finding.ports and not route.label.startswith(finding.ports)) or finding.clients not in {"", route.clients}:
        return ()
    known = {*finding.nodes}
    return [each for each in route.nodes if each in known] if known else route.nodes


def _without(by_proxies: Iterable[Route], findings: Sequence[Finding]) -> Iterator[Route]:
    for each in by_proxies:
        known = set().union(*(scope(one, each) for one in findings))
        if names := tuple(name for name in each.nodes if name not in known) if known else each.nodes:
            yield replace(each, nodes=names)


def _unexplained(case: Case, findings: Sequence[Finding], by_proxies: Sequence[Route]) -> Iterator[Finding]:
    fails = [each for each in findings if each.cause.weight is FAILS]
    goes = [each for each in findings if each.cause.weight is CROSSES]
    failing, going = ([each for each in by_proxies if each.short and each.fails is fail] for fail in (True, False))
    for route in (*_without(failing, fails), *_without(going, goes)):
        evidence = [case.of_slices(_described(one)) for one in case.slices]
        values = {"port": route.label, "because": route.because, "namespace": case.namespace, "service": case.name}
        unknown = found("not-known", nodes=route.nodes, evidence=evidence, **values)
        yield replace(unknown.weighing(FAILS if route.fails else CROSSES), ports=(route.label,))


def _described(one: Object) -> str:
    named = [f"{each.get('name') or repr('')} {each.get('port', '?')}" for each in one.get("ports") or ()]
    count = many(len(one.get("endpoints") or ()), "endpoint")
    return f"slice {one['metadata']['name']}: {one['addressType']}, ports {', '.join(named) or 'none'}, {count}"


def _findings(case: Case, of_all: Sequence[Route]) -> Iterator[Finding]:
    by_proxies = [each for each in of_all if each.clients == "internal"]
    if case.ends:
        yield service_intent.ended(case)
        return
    yield from doubts(case)
    for word in service_intent.words(case):
        yield _overriding(case, word, by_proxies) if word.cause.id == "annotation-overrides-field" else word
    if any(each.because == UNPARSED for each in by_proxies):
        yield found("slice-unreadable", remedy=f"correct the address, or {case.show_writers}")
        return
    if case.wish == "keys":
        yield from service_intent.keys(case, by_proxies)
        return
    if emptied := case.cluster.objects.emptied_by:
        yield found("emptied-by-the-supposition", supposed=emptied)
        return
    if (none := service_intent.nobody(case)) is not None:
        yield none
        return
    partial = [*service_intent.partly(case, of_all)]
    yield from partial
    known = [each for each in partial if each.nodes]
    yield from service_intent.policies(case, [*_without(by_proxies, known)])
    unasked = isinstance(case.decided_by, NoHints) and not any(map(any_hints, case.slices))
    wrong = [*unread(case)]
    yield from wrong
    if not case.wish and unasked and not wrong:
        yield service_intent.asks_nothing(case, by_proxies)
    if case.wish == "local":
        yield from merged_policies(case, of_all)
    yield from implementations(case, of_all)
    to_hints = bool(case.wish or not unasked) and case.wish != "local"
    of_ports = [*_of_ports(case, by_proxies, known, to_hints=to_hints)]
    unlisted = [each for each in of_ports if each.cause.id == "pod-in-no-slice"]
    yield from (each for each in of_ports if each not in unlisted)
    if case.is_external and not to_pods(case.service):
        outside = [each for each in _without(of_all, known) if each.clients == "external"]
        yield from service_intent.external(case, outside)
    for weight in (FAILS, CROSSES):  # for all ports, and after other causes of some ports
        mine = [each for each in unlisted if each.cause.weight is weight]
        nodes = sorted(set().union(*(each.nodes for each in mine)))
        also = "; ".join(dict.fromkeys(each.also for each in mine if each.also))
        yield from [replace(not_listed(case, nodes, weight), also=also)] * bool(mine)
    yield from oddities(case, of_all)
    if case.wish != "local" and not unasked:
        yield from proxies(case, by_proxies)


def _overriding(case: Case, finding: Finding, by_proxies: Sequence[Route]) -> Finding:
    """Return the finding that the annotation overrides the field, for the ports and nodes that may need other hints."""
    lost, some = set[str](), list[Route]()
    for each in case.questions(by_proxies) if case.wish != "local" else ():
        counts = {"hints": any(is_managed(one) for _, one in each.ready), "old": case.wish == "node"}
        if names := set[str]().union(*(on for (kind, _), on in faults(case, each).items() if counts.get(kind))):
            lost |= names
            some += each.routes
    return about(replace(finding, nodes=tuple(sorted(lost))), some, by_proxies) if lost else finding.weighing(NOTE)


def _of_ports(
    case: Case, by_proxies: Sequence[Route], known: Sequence[Finding], *, to_hints: bool
) -> Iterator[Finding]:
    alike: dict[tuple[object, ...], list[tuple[Finding, set[str]]]] = {}
    for each in case.questions(by_proxies):
        on = set().union(*(one.nodes for one in known if {*one.ports} & {*each.labels}))
        for one in _of_question(case, each, on, to_hints=to_hints):
            own_way = one.remedy if " or " in one.remedy else ""  # two alternatives cannot be joined
            key = (one.cause, one.says, one.nodes, own_way)
            alike[key] = [*alike.pop(key, []), (one, {*(one.ports or each.labels)})]  # after those of one port
    for equal in alike.values():
        first, labels = equal[0][0], set().union(*(labels for _, labels in equal))
        remedy = "; ".join(dict.fromkeys(one.remedy for one, _ in equal if one.remedy))
        mine = [each for each in by_proxies if each.label in labels]
        evidence = list[str]()
        for line in dict.fromkeys(line for one, _ in equal for line in one.evidence):
            with_line = set().union(*(labels for one, labels in equal if line in one.evidence))
            ports = described([each for each in mine if each.label in with_line], mine)
            evidence.append(type(line)(f"{ports}: {line}") if ports else line)
        also = "; ".join(dict.fromkeys(one.also for one, _ in equal if one.also))
        one = replace(first, remedy=remedy, evidence=tuple(evidence), also=also)
        yield about(one, mine, by_proxies, named=bool(first.ports))


def _of_question(case: Case, question: ServicePorts, known: set[str], *, to_hints: bool) -> Iterator[Finding]:
    if not question.ready:
        why = service_intent.not_ready if question.endpoints else service_intent.lacking
        yield from why(case, question)
        if case.unlisted_at(question.ports) and any(one["addressType"] == question.family for _, one in case.endpoints):
            yield not_listed(case, nodes_of(question.routes), FAILS)
    elif to_hints:
        yield from of_places(case, question, known, [*hints(case, question.ready)])
    elif not case.wish and "nodes" not in case.cluster.objects.unread:
        far = nodes_of(question.routes, is_far)  # also with a request
        yield from (each.weighing(NOTE) for each in of_nodes(case, question, far))


def _hints_of(family: str, slices: Iterable[Object]) -> str:
    mine = [one for one in slices if one["addressType"] == family]
    endpoints = [each for one in mine for each in one.get("endpoints") or ()]
    bare = distinct(each for each in endpoints if is_ready(each) and not has_hints(each))
    ready, endpoints = distinct(filter(is_ready, endpoints)), distinct(endpoints)
    zones = Counter(name for each in ready for name in zones_of(each))
    hinted = len(ready) - len(bare)
    by_zone = ", ".join(f"{count} for zone {zone or '(none)'}" for zone, count in sorted(zones.items()))
    said = f"{hinted} of {many(len(ready), 'ready endpoint')} hinted" + (f" ({by_zone})" if by_zone else "")
    return f"{family}: {said}; {many(len(endpoints), 'endpoint')} in {many(len(mine), 'slice')}"
