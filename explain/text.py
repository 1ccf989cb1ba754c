"""Format a diagnosis as text: the headline, the causes and how to fix them, then the facts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Column, Table

from explain.causes import AS_ASKED, Finding, listed, many
from explain.cluster import Cluster
from explain.diagnosis import Causes, Diagnosis
from explain.load import ZoneLoad
from explain.programs import ProxyProgram
from explain.routes import Route, described, nodes_of
from reference.features import GATES


def answer(diagnosis: Diagnosis) -> str:
    """Return the headline: where connections go according to the routes, with reasons from the causes."""
    if diagnosis.unrouted and diagnosis.reason:
        return diagnosis.reason.says
    if diagnosis.predicted and diagnosis.routes:
        return f"if the EndpointSlices are as the controller writes them: {_says(diagnosis)}"
    if diagnosis.predicted and not diagnosis.findings:
        return "it is not known where connections go: the EndpointSlices of the Service were not read"
    return _says(diagnosis)


def _says(diagnosis: Diagnosis) -> str:
    crossing, missing = diagnosis.crossing, nodes_of(diagnosis.routes, lambda each: each.short == "misses")
    asked = next((each for each in diagnosis.findings if each.cause.weight is AS_ASKED), None)
    if diagnosis.failing:
        return _fails(diagnosis)
    away = [each for each in diagnosis.inside if each.crossing or each.short]
    which = _connections(diagnosis) + _inside(away, diagnosis) + _to_ports(away, diagnosis.routes)
    leave = f"leave their zone from {_of(crossing, diagnosis)}" if crossing else ""
    miss = f"do not prefer their own node, from {_of(missing, diagnosis)}" if missing else ""
    if diagnosis.unmet or (crossing and not asked):
        why = _why(diagnosis, diagnosis.shortfalls[0][1], described(away, diagnosis.routes))
        return f"{which} {', and '.join(filter(None, [leave, miss]))}{why}"
    if asked and diagnosis.wish != "local":
        return f"{which} {leave}: {asked.says}" if crossing else asked.says
    if diagnosis.routes:
        return _well(diagnosis)
    unread = "nodes were not read, and EndpointSlices name none"
    none = unread if diagnosis.named else "no node has rules for the Service"
    return f"{none}: {diagnosis.findings[0].says}" if diagnosis.findings else none


def _fails(diagnosis: Diagnosis) -> str:
    if diagnosis.seen_failing:
        return f"connections fail on {_of(diagnosis.failing, diagnosis)}{_why(diagnosis, [])}"
    parts = list[str]()
    for failing, causes in diagnosis.shortfalls:
        inside = [one for one in failing if one.clients == "internal"]
        every = [one for one in diagnosis.routes if one.clients == ("internal" if inside else "external")]
        clients = _inside(failing, diagnosis) if inside else " from outside the cluster"
        to = _to_ports(inside or failing, every) or " to all ports" * bool(parts)
        why = _why(diagnosis, causes, described(inside or failing, every))
        parts.append(f"{clients}{to}{'' if parts else ' fail'} on {_of(nodes_of(failing), diagnosis)}{why}")
    more = f"; {many(len(parts) - _PARTS, 'other failure')} in the table" if len(parts) > _PARTS else ""
    return f"connections{'; and those'.join(parts[:_PARTS])}{more}"


_PARTS = 2
"""The maximum number of failures, or of causes, in a headline."""


def _why(diagnosis: Diagnosis, causes: Causes, ports: str = "") -> str:
    if diagnosis.seen_failing or diagnosis.seen_crossing:
        causes = [(diagnosis.findings[0], ())]
    said = [f"{one.says.removeprefix(f'{ports}: ')}{f' ({listed(names)})' if names else ''}" for one, names in causes]
    more = [many(len(said) - _PARTS, "more cause")] if len(said) > _PARTS else []
    return f": {'; '.join([*said[:_PARTS], *more])}" if said else ""


def _well(diagnosis: Diagnosis) -> str:
    nodes, open_ = nodes_of(diagnosis.routes), {*diagnosis.uncertain}
    doubts = [each for each in diagnosis.findings if each.cause.id in _DOUBTS and open_ & {*each.nodes}]
    why = "; ".join(each.says for each in doubts)
    known = [each for each in nodes if each not in open_] if why else nodes
    place = "on the node" if diagnosis.wish == "local" else "in the zone"
    taken = next((each.says for each in diagnosis.findings if each.cause.id == "service-behind-a-proxy"), "")
    if not known or taken:
        return f"it is not known whether connections stay {place}: {taken or why}"
    said = f"{_connections(diagnosis)} stay {place} of the client, from {_of(known, diagnosis)}"
    if any(each.clients == "external" and each.tier != "local" and not each.fails for each in diagnosis.routes):
        said += "; those from outside the cluster may leave it"
    if diagnosis.unseen:
        return f"{said}, if kube-proxy serves {'them' if len(nodes) > 1 else 'it'}"
    return f"{said}; of {many(len(open_), 'node')} this is not known: {why}" if why else said


def _connections(diagnosis: Diagnosis) -> str:
    taken = any(each.cause.id in _TAKEN for each in diagnosis.findings)
    return "connections that service proxies route" if taken else "connections"


_TAKEN = {
    "clients-choose-endpoints", "namespace-in-an-ambient-mesh", "namespace-injects-sidecars", "service-behind-a-proxy"
}  # fmt: skip
_DOUBTS = {"not-kube-proxy", "proxy-not-ready", "node-without-proxy"}
"""The causes that make the routes of a node uncertain."""


def _to_ports(some: Sequence[Route], routes: Sequence[Route]) -> str:
    named = described(some, routes)
    return f" {'to' if named.startswith('port') else 'over'} {named}" if named else ""


def _inside(some: Sequence[Route], diagnosis: Diagnosis) -> str:
    """Return a phrase about the clients if these routes have external counterparts that are not among them."""
    apart = {each.label for each in diagnosis.routes} - {each.label for each in some}
    return " from inside the cluster" * any(f"{each.label} external" in apart for each in some)


def _of(nodes: Sequence[str], diagnosis: Diagnosis) -> str:
    if diagnosis.named:
        part = f"{len(nodes)} of " if len(nodes) < diagnosis.nodes else ""
        known = f"{diagnosis.nodes} nodes" if diagnosis.nodes > 1 else "one node"
        return f"{part}the {known} that EndpointSlices name (nodes were not read)"
    if len(nodes) == diagnosis.nodes:
        return f"all {many(diagnosis.nodes, 'node')}" if diagnosis.nodes > 1 else "the one node"
    return f"{len(nodes)} of {many(diagnosis.nodes, 'node')}"


def parts(diagnosis: Diagnosis, cluster: Cluster) -> Iterator[Any]:
    metadata, spec = diagnosis.service["metadata"], diagnosis.service["spec"]
    yield f"Service {metadata['namespace']}/{metadata['name']}: {answer(diagnosis)}"
    for each in diagnosis.findings:
        yield from _finding(each)
    yield ""
    addresses = ", ".join(spec.get("clusterIPs") or [])
    yield _line("Service", f"{spec.get('type', 'ClusterIP')} {addresses}".rstrip())
    controller = cluster.controller_image or cluster.known_at_least
    version, nodes = cluster.objects.version or "version not read", many(diagnosis.nodes, "node")
    known = filter(None, ["nodes not read" if diagnosis.named else nodes, controller and f"controller {controller}"])
    yield _line("cluster", f"Kubernetes {version}, {', '.join(known)}")
    yield from (_line("served by", f"{how}: {listed(names)}") for (how, _), names in served_by(cluster).items())
    yield _line("decides", diagnosis.asks)
    yield from (_line("hints", f"{'predicted: ' if diagnosis.predicted else ''}{each}") for each in diagnosis.hints)
    yield from (_line("gates", f"{name}: {_gates(seen)}") for name, seen in cluster.objects.gates.items())
    yield from (_line("not read", f"{name}: {why}") for name, why in sorted(cluster.objects.unread.items()))
    if diagnosis.routes:
        yield ""
        yield _table(diagnosis)


def served_by(cluster: Cluster) -> Mapping[tuple[str, ProxyProgram], Sequence[str]]:
    """Return the nodes by service proxy. The key includes a text about the proxy and the source of this information."""
    found: dict[tuple[str, ProxyProgram], list[str]] = {}
    for each in cluster.nodes.values():
        found.setdefault((each.served_by, each.program), []).append(each.name)
    return found


def programs_as_json(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """Yield the service proxies with their nodes. Unknown values are null."""
    for (says, each), nodes in served_by(cluster).items():
        known = {"program": each.name or None, "version": each.version or None, "image": each.image or None}
        yield {**known, "says": says, "nodes": nodes}


def _gates(seen: Mapping[str, bool]) -> str:
    return ", ".join(f"{name} {'on' if seen[name] else 'off'}" for name in GATES if name in seen) or "permanent"


def _finding(finding: Finding) -> Iterator[str]:
    yield ""
    yield _line(finding.severity, f"{finding.says} [{finding.cause.id}]")
    if finding.nodes:
        yield _line("nodes", listed(finding.nodes))
    yield from (_line("seen", each) for each in finding.seen)
    yield from (_line("predicted", each) for each in finding.predicted)
    yield _line("do", finding.remedy or finding.cause.remedy)
    if finding.also:
        yield _line("also", finding.also)
    yield _line("source", finding.cause.source)


def _line(word: str, text: str) -> str:
    return f"  {word:<10}{text}"


def _table(diagnosis: Diagnosis) -> Table:
    head = ("nodes", "zone", "port", "uses", "endpoints", "elsewhere", "because")
    table = Table(*(Column(each, overflow="fold") for each in head), box=None, pad_edge=False, header_style="bold")
    for each in diagnosis.routes:
        names, zone = listed(each.nodes), each.zone or "(none)"
        table.add_row(names, zone, each.label, each.tier, str(len(each.targets)), str(each.crossing), each.because)
    return table


def supposition(
    assumed: Sequence[str], clients: str, before: Diagnosis, then: Diagnosis, bears: Sequence[ZoneLoad]
) -> Iterator[Any]:
    metadata = before.service["metadata"]
    yield f"Service {metadata['namespace']}/{metadata['name']}: {answer(before)}"
    yield f"If {', '.join(assumed)}: {answer(then)}"
    for finding in then.findings:
        yield from _finding(finding)
    yield ""
    yield _line("assumes", ASSUMES)
    where = {"nodes": "equally many on each node", "cpu": "in proportion to the CPU of nodes"}
    yield _line("clients", where.get(clients, clients))
    if then.routes:
        yield ""
        yield _table(then)
    if bears:
        yield ""
        head = ("zone", "endpoints", "each bears", "of an even share")
        table = Table(*head, box=None, pad_edge=False, header_style="bold")
        for each in bears:
            table.add_row(each.zone or "(none)", str(each.endpoints), f"{each.share:.1%}", f"{each.load:.0%}")
        yield table


ASSUMES = "pods are ready, and spread evenly over the zones and then over their nodes; all have the same release"


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    metadata = diagnosis.service["metadata"]
    whole = {"namespace": metadata["namespace"], "service": metadata["name"], "answer": answer(diagnosis)}
    causes = [
        {"id": each.cause.id, "weight": each.cause.weight.word}
        | fields(each, "severity says nodes ports predicted also")
        | {"evidence": each.seen}
        | {"remedy": each.remedy or each.cause.remedy, "source": each.cause.source}
        for each in diagnosis.findings
    ]
    routes = [
        fields(each, "nodes zone port family clients endpoints because short")
        | {"uses": each.tier, "elsewhere": each.crossing}
        for each in diagnosis.routes
    ]
    own = fields(diagnosis, "asks wish wanting unmet nodes crossing failing uncertain hints predicted")
    return {**whole, **own, **({"nodes": None} if diagnosis.named else {}), "causes": causes, "routes": routes}


def fields(value: object, names: str) -> dict[str, Any]:
    found = {name: getattr(value, name) for name in names.split()}
    return {name: list(each) if isinstance(each, tuple) else each for name, each in found.items()}
