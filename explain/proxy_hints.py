"""Check whether the service proxy of each node uses the hints."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import lru_cache, partial
from typing import Literal

from explain.case import Case, ServicePorts, condition, distinct, nodes_of, zones_of
from explain.causes import CROSSES, FAILS, NOTE, SHOWN, Finding, found, listed, many
from explain.cluster import Node, version_of
from explain.components import PROXY
from explain.hint_patches import add_ports, give_family, give_hints, not_listed
from explain.placement import keeping, spread, template
from explain.programs import ProxyProgram
from explain.routes import STRICT, Route, about, stopping
from explain.routes import nodes_of as nodes_of_routes
from harness.api.client import Object
from reference.endpointslice.hints import CpuHeuristic, NoHints
from reference.features import GATES, NEWEST, OLDEST, Features, Version
from reference.objects.endpoints import is_ready, name_of
from reference.proxy.decision import Behaviour

Fault = tuple[Literal["gate", "old", "bare", "empty", "hints"], str]
"""A reason why connections from a node do not go where the Service requests, with details.

The kinds, in order: gate ServiceTopology is on, kube-proxy is old, node has no zone, zone has no endpoint, wrong hints.
"""

_GATES = ("TopologyAwareHints", "ServiceTrafficDistribution", "PreferSameTrafficDistribution")
_BY_ZONE = {"zone", "strict"}  # of `Follows`: no hints for nodes
_IN_PROXY = "in featureGates of kube-proxy's configuration, and restart it"


def faults(case: Case, question: ServicePorts) -> dict[Fault, set[str]]:
    """Return the faults, each with its nodes. A node may have several faults."""
    found, cluster, by_node = defaultdict[Fault, set[str]](set), case.cluster, case.wish == "node"
    ready = [each for each, _ in question.ready]
    zones, hosts = {cluster.zone(each) for each in ready}, {each.get("nodeName") for each in ready}
    unhinted, unnamed = not all(map(zones_of, ready)), by_node and not all(map(nodes_of, ready))
    own_zone = case.wish != "cpu" or case.by_hand  # by CPU, endpoints in other zones may get hints for a zone
    hinted = {(zone, cluster.zone(each)) for each in ready for zone in zones_of(each)}
    lost = zones - {"", *(zone for zone, _ in hinted)}  # without a hint for them
    misled = lost | {zone for zone, place in hinted if zone != place} if own_zone else set[str]()
    misled |= {name for each in ready for name in nodes_of(each) if name != each.get("nodeName")}
    needed = lru_cache(partial(_needed, case))
    for name in (name for each in question.routes if each.short in {"crosses", "misses"} for name in each.nodes):
        node, here, mine = cluster.nodes[name], by_node and name in hosts, list[Fault]()
        follows = node.program.of(case.service).follows
        if follows in {"none", "name"} or (by_node and here and follows in _BY_ZONE):
            continue  # see `implementations`
        if cluster.behaviour(node.version).keys_alone:
            found["gate", ""].add(name)
            continue
        if follows in {"all", ""} and (release := needed(node.version, here)):
            mine.append(("old", release))
        if not here and (not node.zone or (own_zone and node.zone not in zones)):
            mine.append(("empty", node.zone) if node.zone else ("bare", ""))
        if not mine or unhinted or (here and unnamed) or misled & {name, node.zone}:
            mine.append(("hints", ""))
        for each in mine:
            found[each].add(name)
    return found


def _needed(case: Case, version: Version, here: bool) -> str:
    """Return the first release whose kube-proxy uses the hints that a node needs, or "" if `version` uses them."""
    now, by_node = case.cluster.behaviour(version), case.wish == "node"
    if now.node_hints if here else case.is_read(now, version):  # a node with an endpoint (`here`) needs node hints
        return ""
    for minor in range(version[1], NEWEST[1] + 1):  # a newer one must use all hints, even without the annotation
        later = Behaviour.of(Features((1, minor), follows="released"))
        lasts = case.wish == "cpu" or later.annotation == "unused"
        if later.node_hints if by_node else lasts and case.is_read(later, (1, minor)):
            return f"1.{minor}"
    return ""


def of_places(
    case: Case, question: ServicePorts, known: AbstractSet[str], of_hints: Sequence[Finding]
) -> Iterator[Finding]:
    """Yield the reasons why nodes (except `known`) use distant endpoints. `of_hints` are findings about hints."""
    seen = {fault: names - known for fault, names in sorted(faults(case, question).items()) if names - known}
    several = {name for name in set().union(*seen.values()) if sum(name in each for each in seen.values()) > 1}
    for one in _of_faults(case, question, seen, of_hints):
        mine = sorted(several & {*one.nodes}) if one.cause.weight <= CROSSES else []
        to = f"from {listed(mine)} to {', '.join(question.labels)}"
        alone = f"connections {to} change only once their other causes are gone too" * bool(mine)
        yield replace(one, also="; ".join(filter(None, [one.also, alone])))


def _of_faults(
    case: Case, question: ServicePorts, seen: dict[Fault, set[str]], of_hints: Sequence[Finding]
) -> Iterator[Finding]:
    to_hint = seen.pop(("hints", ""), set[str]())
    for one in of_hints:
        on = tuple(sorted(to_hint & {*one.nodes} if one.nodes else to_hint))
        scoped = replace(one, nodes=on) if on else one.weighing(NOTE)
        yield one if one.cause.weight > CROSSES else scoped
    of_zones = set[str]()
    for (kind, detail), names in seen.items():
        if kind == "gate":
            says = f"{many(len(names), 'node', 'has/have')} gate ServiceTopology on, so the proxy there ignores hints"
            yield found("topology-keys", says, nodes=sorted(names))
        elif kind == "old":
            yield from _too_old(case, detail, sorted(names))
        else:
            of_zones |= names
    overridden = isinstance(case.decided_by, CpuHeuristic) and case.wish != "cpu"  # see `annotation-overrides-field`
    known_why = not case.by_hand and (overridden or isinstance(case.decided_by, NoHints))
    if not known_why and all(each.cause.weight > CROSSES for each in of_hints):
        of_zones |= to_hint
    yield from of_nodes(case, question, of_zones)


def of_nodes(case: Case, question: ServicePorts, names: Iterable[str]) -> Iterator[Finding]:
    """Yield findings about nodes that use other zones, because their own is unknown or has no usable endpoint."""
    alike = defaultdict[str, dict[str, set[str]]](dict)
    for zone, name in sorted((case.cluster.nodes[each].zone, each) for each in names):
        alike[_cause(case, zone, question)].setdefault(zone, set()).add(name)
    for cause, zones in alike.items():
        yield _of_zones(case, cause, [*zones], tuple(sorted(set().union(*zones.values()))), question)


def _too_old(case: Case, release: str, names: Sequence[str]) -> Iterator[Finding]:
    nodes = {name: case.cluster.nodes[name] for name in names}
    seen = {name: case.cluster.gate_off(f"{PROXY} 1.{node.version[1]}", *_GATES) for name, node in nodes.items()}
    if off := {name: gate for name, gate in seen.items() if gate}:
        names_off = listed(sorted(set(off.values())))
        count = many(len(off), "node", "runs/run")
        says = f"{count} a kube-proxy with feature gate {names_off} off, as its metrics or settings show"
        remedy = f"enable {names_off} {_IN_PROXY} there"
        yield found("gate-off", says, nodes=sorted(off), remedy=remedy)
    what, bare = "use hints for nodes" if case.wish == "node" else "use these hints", case.cluster.in_doubt("missing")
    bare = [name for name in nodes if name in bare]
    if old := [name for name in nodes if name not in {*off, *bare}]:
        yield _upgrade(case, old, what, release, _GATES)
    if bare:
        ages = listed(sorted({nodes[each].age for each in bare}))
        says = f"no proxy was seen on {listed(bare)}; kube-proxy {ages} would not {what}, as it does since {release}"
        remedy = f"run kube-proxy {_target(case, release)} on {listed(bare)}"
        yield found("proxy-too-old", says, nodes=bare, remedy=remedy, also="Services work there only once a proxy runs")


def merged_policies(case: Case, of_all: Sequence[Route]) -> Iterator[Finding]:
    """Yield findings about nodes whose kube-proxy does not keep the two traffic policies of the Service apart."""
    by_both, issue = case.spec.get("externalTrafficPolicy") == "Local", "(kubernetes/kubernetes#105470)"
    what = "follow internalTrafficPolicy Local"
    what += f" next to externalTrafficPolicy Local {issue}" if by_both else ""
    missed = nodes_of_routes(of_all, lambda each: each.clients == "internal" and each.short == "misses")
    if some := [name for name in missed if not case.cluster.nodes[name].program.is_other]:  # see `implementations`
        yield _upgrade(case, some, what, "1.24")
    limited = [each for each in of_all if each.clients == "external" and "internalTrafficPolicy" in each.because]
    if mine := limited if not by_both else []:
        fails, what = any(each.fails for each in mine), f"limit internalTrafficPolicy Local to the cluster {issue}"
        old = _upgrade(case, nodes_of_routes(mine), what, "1.24")
        yield about(replace(old.weighing(FAILS if fails else NOTE), clients="external"), mine, mine)


def _target(case: Case, needed: str) -> str:
    """Return the release to upgrade kube-proxy to: the API server's, or "1.N or newer" if that is too old."""
    newest, least = case.cluster.objects.version, max(int(needed[2:]), case.cluster.features.version[1] - 3)
    first = " (first upgrade the control plane, unless it is so new)" * (case.cluster.server < (1, least))
    return newest if (version_of(newest) or OLDEST) >= (1, least) else f"1.{least} or newer{first}"


def _upgrade(case: Case, names: Sequence[str], what: str, needed: str, gates: Iterable[str] = ()) -> Finding:
    """Return a finding about old proxies. The fix upgrades them, or enables one of `gates` if they all have it."""
    nodes = [case.cluster.nodes[each] for each in names]
    releases = "; ".join(sorted({*map(_release, nodes)})[:SHOWN])
    values = {"count": many(len(names), "node", "runs/run"), "releases": releases, "needed": needed, "what": what}
    target = _target(case, needed)
    remedy, newer = f"upgrade kube-proxy on {listed(names)} to {target}", version_of(target) or OLDEST
    case.workloads.does(remedy, stopping(case.cluster, names, newer))
    seen = list[str]()
    for gate in (name for name in gates if GATES[name].on_by_default == int(needed[2:])):
        if all(GATES[gate].exists(each.version[1]) for each in nodes):
            seen = [f"{gate} is off by default, and neither metrics nor settings of these proxies enable it"]
            remedy = f"enable {gate} {_IN_PROXY} on {listed(names)}; or {remedy}"
    return found("proxy-too-old", nodes=names, evidence=seen, remedy=remedy, **values)


def implementations(case: Case, of_all: Sequence[Route]) -> Iterator[Finding]:
    """Yield findings about service proxies other than kube-proxy, with their nodes."""
    for one, nodes in case.cluster.others.items():
        each = one.of(case.service)
        values = {"title": each.title, "when": f" {each.when}".rstrip(), "does": each.does}
        values["count"] = many(len(nodes), "node")
        mine = [replace(route, nodes=on) for route in of_all if (on := tuple(sorted({*route.nodes} & {*nodes})))]
        yield from _of_policies(case, each, [route for route in mine if route.clients == "internal"], values)
        lost = [route for route in mine if route.because.endswith(STRICT)]
        if case.wish not in {"node", "zone", "cpu"} and not lost:
            continue
        remedy = each.remedy(case.ask("PreferClose"), f"trafficdist explain {case.namespace}/{case.name} --probe")
        values["so"] = f"; this release {STRICT}" if lost else _so(case, each)
        known = found("not-kube-proxy", nodes=nodes, remedy=remedy, **values)
        if failing := nodes_of_routes(lost, lambda route: route.fails):
            yield replace(known, nodes=failing).weighing(FAILS)
        if each.follows not in {"all", "each", *(() if case.wish == "node" else _BY_ZONE)}:
            yield known
        elif not failing:
            yield known.weighing(NOTE)


def _of_policies(case: Case, program: ProxyProgram, routes: Sequence[Route], values: Object) -> Iterator[Finding]:
    since = program.follows_policies_since
    asked = case.wish == "local"
    does = "ignores internalTrafficPolicy" if asked else "applies externalTrafficPolicy to cluster IPs as well"
    said = {**values, "does": f"{does}, as all releases before {since} do", "so": ""}
    bad = [each for each in routes if (each.short == "misses" if asked else each.fails and "Local" in each.because)]
    if since and (wrong := nodes_of_routes(bad)):
        known = found("not-kube-proxy", nodes=wrong, remedy=f"upgrade {program.name} to {since} or newer", **said)
        yield known if asked else known.weighing(FAILS)


def _so(case: Case, program: ProxyProgram) -> str:
    if case.wish == "node" and program.follows in _BY_ZONE:
        return ", and no hints for nodes of this Service"
    if program.refused:
        return f", {'but' if program.reads == 'field' else 'and'} {program.refused}"
    return "" if program.reads else ", so the table holds there only if it follows hints as kube-proxy does"


def _release(node: Node) -> str:
    version, image = node.program.version, node.program.image
    return f"kube-proxy {version} ({image})" if version else f"kube-proxy, if it is {node.age}"


def _cause(case: Case, zone: str, question: ServicePorts) -> str:
    here = [each for each, _ in case.endpoints if case.cluster.zone(each) == zone]
    mine = [each for each, _ in question.endpoints if case.cluster.zone(each) == zone]
    unlisted = case.unlisted_at(question.ports).values()
    stay, others = ([each for each in some if not condition(each, "terminating")] for some in (mine, here))
    causes = {
        "client-node-without-zone": not zone,
        "zone-not-hinted": any(map(is_ready, mine)),
        "pod-in-no-slice": zone in {case.cluster.zone({"nodeName": each}) for each in unlisted},
        "zone-not-ready": bool(stay or (others and not any(map(is_ready, here)))),
        "zone-without-port": any(map(is_ready, here)),
        "zone-terminating": bool(mine),
        "zone-without-endpoint": True,
    }
    return next(cause for cause, holds in causes.items() if holds)


def _of_zones(case: Case, cause: str, zones: Sequence[str], on: tuple[str, ...], question: ServicePorts) -> Finding:
    known = [each for each, _ in question.endpoints]
    here = [(each, one) for each, one in case.endpoints if case.cluster.zone(each) in zones]
    mine = {name_of(each): is_ready(each) for each in known if case.cluster.zone(each) in zones}
    there = Counter(case.cluster.zone(each) or "(none)" for each in distinct(known) if is_ready(each))
    counted = ", ".join(f"{count} in zone {each}" for each, count in sorted(there.items()))
    evidence, names, remedy = (case.of_slices(f"ready endpoints: {counted}"),), sorted(mine), case.sync
    match cause:
        case "client-node-without-zone":
            said = many(on, "", "has no zone label, so it uses/have no zone label, so they use")
            lack = sorted({case.known_zone(name) for name in on} - {"", *there}) if case.wish != "cpu" else []
            to = f"for {', '.join(question.labels)}, nodes of {many(lack, 'zone')}"
            also = f"{to} still use other zones, while these have no ready endpoint" * bool(lack)
            return found(cause, nodes=on, remedy=case.label(on), also=also, names=said)
        case "pod-in-no-slice":
            return not_listed(case, on, CROSSES)
        case "zone-without-port":
            others = [(each, one) for each, one in here if is_ready(each)]
            names = sorted({name_of(each) for each, _ in others})
            there_too = [one for _, one in others if one["addressType"] == question.family]
            remedy = case.sync if case.selects_pods else add_ports(case, question.ports, there_too)
            remedy = remedy if there_too else give_family(case, question.family)
        case "zone-without-endpoint" if case.by_hand and there.keys() == {"(none)"}:
            says = f"the zones of the endpoints are not known, so nodes of {many(zones, 'zone')} use all of them"
            pairs = [(each, one) for each, one in question.endpoints if is_ready(each)]
            remedy = "nothing: the API server writes these endpoints" if case.is_of_server else give_hints(case, pairs)
            return found(cause, says, nodes=on, evidence=evidence, remedy=remedy)
        case "zone-without-endpoint":
            remedy = spread(case, zones)
        case "zone-terminating":
            closed = not case.selects_pods or case.workloads.refusing(zones)
            remedy = spread(case, zones) if closed else _one_by_one(case)
        case "zone-not-ready":
            ill = [each for each, _ in here if not is_ready(each)]
            names, remedy = sorted({name_of(each) for each in ill}), case.describe(ill)
    values = {"zones": many(zones, "zone"), "whose": "its" if len(zones) == 1 else "their", "names": listed(names)}
    values |= {"has": "has" if len(zones) == 1 else "have", "it": "it" if len(zones) == 1 else "them"}
    count = many(sum(mine.values()), "ready endpoint")
    return found(cause, nodes=on, evidence=evidence, remedy=remedy, count=count, **values)


def _one_by_one(case: Case) -> str:
    workloads = case.workloads
    if workloads.head.kind == "daemonset":
        return f"in {workloads.head.name}: updateStrategy: {{rollingUpdate: {{maxSurge: 1, maxUnavailable: 0}}}}"
    if not workloads.head.kind and not workloads.is_bare:
        return ""
    patch = [workloads.one_by_one(each) for each in workloads.each.values() if each.kind == "deployment"]
    stay = workloads.is_spread() or workloads.own_claims or workloads.stuck
    return "; and, ".join([*patch, *([] if stay else [keeping(case) + template(case)])]) or "wait for new pods"


def proxies(case: Case, by_proxies: Sequence[Route]) -> Iterator[Finding]:
    late = case.cluster.late_labels if by_proxies else {}
    for deaf, proxy in ((True, "proxy, which may not use it"), (False, "proxy, which follows it")):
        mine = {name: each for name, each in late.items() if bool(each.restart) is deaf and (deaf or each.by_hand)}
        names, evidence = sorted(mine), [each.said for each in [*mine.values()][:SHOWN]]
        restart = "; ".join(each.restart for each in [*mine.values()][:SHOWN])
        values = {"remedy": restart if deaf else "nothing; --probe shows whether the proxy has it", "proxy": proxy}
        known = found("zone-label-changed", nodes=names, evidence=evidence, names=listed(names), **values)
        yield from [known if deaf else replace(known, also="")] * bool(mine)


def doubts(case: Case) -> Iterator[Finding]:
    """Yield findings about nodes whose proxy may have no rules for the Service, so that their routes are uncertain."""
    if ill := case.cluster.in_doubt("unready"):
        remedy = "; ".join(case.cluster.look_at_proxy(each) for each in ill[:SHOWN])
        yield found("proxy-not-ready", nodes=ill, remedy=remedy, names=listed(ill))
    if bare := case.cluster.in_doubt("missing"):
        others = many(len(case.cluster.nodes) - len(bare), "node", "has/have")
        yield found("node-without-proxy", nodes=bare, names=listed(bare), others=others, first=" ".join(bare[:SHOWN]))
