"""Check whether each node uses the hints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from explain.case import Case, condition, distinct
from explain.causes import SHOWN, Finding, found, listed, many
from explain.cluster import LateLabel, Node
from explain.components import PROXY
from explain.outlook import ONE_BY_ONE
from explain.placement import spread, template
from explain.routes import Route
from harness.api.client import Object
from reference.endpointslice.hints import topology_annotation
from reference.features import Version
from reference.objects.endpoints import is_ready, name_of
from reference.proxy.decision import Behaviour


def of_nodes(case: Case, known: Sequence[tuple[Object, Object]], by_proxies: Sequence[Route]) -> Iterator[Finding]:
    anywhere = [each for each in by_proxies if each.short]
    nodes = {name: case.cluster.nodes[name] for each in anywhere for name in each.nodes}
    nodes = {name: node for name, node in nodes.items() if node.program.of(case.wish).reads in {"all", ""}}  # see below
    alone = {name for name, node in nodes.items() if case.cluster.behaviour(node.version).keys_alone}
    if alone:
        says = f"{many(len(alone), 'node', 'has/have')} gate ServiceTopology on, so the proxy there ignores hints"
        yield found("topology-keys", says, nodes=tuple(sorted(alone)))
        return
    newest = _uses(case.cluster.newest_behaviour, case)
    used = {
        version: _uses(case.cluster.behaviour(version), case) for version in {one.version for one in nodes.values()}
    }
    deaf = {name: node for name, node in nodes.items() if used[node.version] < newest}
    off = {name: gate for name, node in deaf.items() if (gate := _gate_off(case, node.version))}
    if off:
        gates = listed(sorted(set(off.values())))
        says = f"{many(len(off), 'node', 'runs/run')} a kube-proxy with feature gate {gates} off, as its metrics show"
        remedy = f"enable {gates} in featureGates of kube-proxy's configuration, and restart it there"
        yield found("gate-off", says, nodes=tuple(sorted(off)), remedy=remedy)
    old = {name: node for name, node in deaf.items() if name not in off}
    if old:
        releases = "; ".join(sorted({_release(node) for node in old.values()})[:SHOWN])
        remedy = f"upgrade kube-proxy on {listed(sorted(old))} to {case.cluster.objects.version or 'a newer release'}"
        count = many(len(old), "node", "runs/run")
        yield found("proxy-too-old", nodes=sorted(old), remedy=remedy, count=count, releases=releases)
    by_zone: dict[str, list[str]] = {}
    for each in anywhere:
        if each.tier == "anywhere" and each.crossing:
            by_zone.setdefault(each.zone, []).extend(name for name in each.nodes if name in nodes and name not in deaf)
    endpoints = [each for each, _ in known]
    alike: dict[str, dict[str, list[str]]] = {}
    for zone, names in sorted(by_zone.items()):
        if names:
            alike.setdefault(_cause(zone, endpoints), {})[zone] = names
    for cause, zones in alike.items():
        on = tuple(sorted(set().union(*zones.values())))
        yield _of_zones(case, cause, [*zones], on, endpoints)


def implementations(case: Case) -> Iterator[Finding]:
    """Yield the programs that serve Services instead of kube-proxy, with the nodes where they do."""
    for one, nodes in case.cluster.others.items() if case.wish in {"node", "zone", "cpu"} else ():
        each = one.of(case.wish)
        refused = each.refuses(case.wish, case.spec.get("trafficDistribution"))
        values = {"title": each.title, "when": f" {each.when}" if each.when else "", "does": each.does}
        values |= {
            "so": f", {'but' if each.reads == 'field' else 'and'} {refused}" if refused else "" if each.reads else _SO
        }
        probe = f"trafficdist explain {case.namespace}/{case.name} --probe"
        remedy, count = each.remedy(refused, case.ask("PreferClose"), probe), many(len(nodes), "node")
        yield found("not-kube-proxy", nodes=nodes, remedy=remedy, count=count, **values)


_SO = ", so the table holds there only if it follows hints as kube-proxy does"


def _release(node: Node) -> str:
    """Return the release of a node's kube-proxy, and how it is known."""
    return (
        f"kube-proxy {node.program.version} ({node.program.image})"
        if node.program.version
        else f"kube-proxy, if it is {node.age}"
    )


def _gate_off(case: Case, release: Version) -> str:
    gates = ("TopologyAwareHints", "PreferSameTrafficDistribution")
    return case.cluster.gate_off(f"{PROXY} {release[0]}.{release[1]}", *gates)


def _uses(behaviour: Behaviour, case: Case) -> int:
    """Return how many kinds of hints (zone, node) a proxy uses for the Service."""
    _, value = topology_annotation(case.service, case.cluster.features)
    asked = behaviour.annotation == "unused" or value in {"Auto", "auto"}
    return (behaviour.zone_hints and asked) + behaviour.node_hints


def _cause(zone: str, known: Sequence[Object]) -> str:
    mine = [each for each in known if each.get("zone") == zone]
    if not zone:
        return "client-node-without-zone"
    if any(map(is_ready, mine)):
        return "zone-not-hinted"
    if any(condition(each, "terminating") for each in mine):
        return "zone-terminating"
    return "zone-not-ready" if mine else "zone-without-endpoint"


def _of_zones(case: Case, cause: str, zones: Sequence[str], on: tuple[str, ...], known: Sequence[Object]) -> Finding:
    """Return why nodes of these zones use the endpoints of all zones, for one reason."""
    mine = sorted({name_of(each): each for each in known if each.get("zone") in zones}.items())
    there = Counter(str(each.get("zone") or "(none)") for each in distinct(known) if is_ready(each))
    counted = ", ".join(f"{count} in zone {each}" for each, count in sorted(there.items()))
    evidence, names, remedy = (case.of_slices(f"ready endpoints: {counted}"),), [name for name, _ in mine], case.log
    match cause:
        case "client-node-without-zone":
            said = many(on, "", "has no zone label, so it uses/have no zone label, so they use")
            return found(cause, nodes=on, remedy=case.label(on), names=said)
        case "zone-without-endpoint":
            remedy = spread(case, zones)
        case "zone-terminating":
            remedy = _one_by_one(case)
        case "zone-not-ready":
            remedy = f"kubectl -n {case.namespace} describe pod {' '.join(names[:SHOWN])}"
    values = {"zones": many(zones, "zone"), "whose": "its" if len(zones) == 1 else "their", "names": listed(names)}
    values |= {"has": "has" if len(zones) == 1 else "have", "it": "it" if len(zones) == 1 else "them"}
    values |= {"count": many(len([each for _, each in mine if is_ready(each)]), "ready endpoint")}
    return found(cause, nodes=on, evidence=evidence, remedy=remedy, **values)


def _one_by_one(case: Case) -> str:
    """Return a command that makes a Deployment start new pods before old pods stop, or "" for other workloads."""
    if not case.workload.startswith("deployment/"):
        return ""
    patch = case.patch({"strategy": ONE_BY_ONE}, case.workload)
    return patch if case.is_spread else f"{patch}; and, {template(case)}"


def proxies(case: Case, by_proxies: Sequence[Route]) -> Iterator[Finding]:
    late = case.cluster.late_labels if by_proxies else {}
    deaf = {name: each for name, each in late.items() if each.restart}
    if deaf:
        yield _late("proxy, which may not use it", deaf, "; ".join(each.restart for each in [*deaf.values()][:SHOWN]))
    if told := {name: each for name, each in late.items() if name not in deaf and each.by_hand}:
        late_label = _late("proxy, which follows it", told, "nothing; --probe shows whether the proxy has it")
        yield replace(late_label, also="")


def doubts(case: Case) -> Iterator[Finding]:
    """Yield the nodes whose proxy may have no rules for the Service, so that nothing is promised for them."""
    if ill := case.cluster.in_doubt("unready"):
        remedy = "; ".join(case.cluster.look_at_proxy(each) for each in ill[:SHOWN])
        yield found("proxy-not-ready", nodes=ill, remedy=remedy, names=listed(ill))
    if bare := case.cluster.in_doubt("missing"):
        others = many(len(case.cluster.nodes) - len(bare), "node", "has/have")
        yield found("node-without-proxy", nodes=bare, names=listed(bare), others=others, first=bare[0])


def _late(proxy: str, labels: Mapping[str, LateLabel], remedy: str) -> Finding:
    evidence, names = [each.said for each in [*labels.values()][:SHOWN]], sorted(labels)
    values = {"names": listed(names), "proxy": proxy}
    return found("zone-label-changed", nodes=names, evidence=evidence, remedy=remedy, **values)
