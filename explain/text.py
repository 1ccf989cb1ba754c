"""Format a diagnosis as text: the answer, the causes and remedies, then the facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from explain.causes import AS_ASKED, CROSSES, FAILS, NOTE, Finding, listed, many
from explain.cluster import Cluster
from explain.diagnosis import Diagnosis
from explain.load import Share
from explain.routes import nodes_of
from reference.features import GATES

_MARGIN = 10


def answer(diagnosis: Diagnosis) -> str:
    first = diagnosis.findings[0] if diagnosis.findings else None
    crossing = f"connections leave their zone from {_of(diagnosis.crossing, diagnosis)}"
    if first is not None and first.cause.weight is FAILS:
        where = f"connections fail on {_of(diagnosis.failing, diagnosis)}" if first.nodes else "connections fail"
        return f"{where}: {first.says}"
    if first is not None and first.cause.weight is CROSSES:
        return f"{crossing}: {first.says}"
    if first is not None and first.cause.weight is AS_ASKED:
        return f"{crossing}: {first.says}" if diagnosis.crossing else first.says
    if diagnosis.crossing:
        return f"{crossing}, though each has hints"
    if not diagnosis.routes:
        return "no node has rules for the Service"
    nodes = nodes_of(diagnosis.routes, lambda _: True)
    return f"connections stay in the zone of the client, from {_of(nodes, diagnosis)}"


def _of(nodes: tuple[str, ...], diagnosis: Diagnosis) -> str:
    if len(nodes) == diagnosis.nodes:
        return f"all {many(diagnosis.nodes, 'node')}" if diagnosis.nodes > 1 else "the one node"
    return f"{len(nodes)} of {many(diagnosis.nodes, 'node')}"


def parts(diagnosis: Diagnosis, cluster: Cluster) -> Iterator[Any]:
    """Yield the lines and the table of routes, for a console."""
    metadata, spec = diagnosis.service["metadata"], diagnosis.service["spec"]
    yield f"Service {metadata['namespace']}/{metadata['name']}: {answer(diagnosis)}"
    for number, each in enumerate(diagnosis.findings):
        yield ""
        yield from _finding(each, first=number == 0)
    yield ""
    addresses = ", ".join(spec.get("clusterIPs") or [])
    yield _line("Service", f"{spec.get('type', 'ClusterIP')} {addresses}".rstrip())
    controller = f", controller {cluster.controller_image}" if cluster.controller_image else ""
    yield _line("cluster", f"Kubernetes {cluster.objects.version or '?'}, {many(diagnosis.nodes, 'node')}{controller}")
    yield _line("proxies", ", ".join(f"{count} as of {how}" for how, count in proxies(cluster).items()))
    yield _line("decides", diagnosis.asks)
    yield from (_line("hints", each) for each in diagnosis.hints)
    yield from (_line("gates", f"{name}: {_gates(seen)}") for name, seen in cluster.objects.gates.items())
    yield from (_line("not read", f"{name}: {why}") for name, why in sorted(cluster.objects.unread.items()))
    if diagnosis.routes:
        yield ""
        yield _table(diagnosis)


def proxies(cluster: Cluster) -> Mapping[str, int]:
    """Return the sources of the proxies' releases (images or kubelets) with their counts, the most frequent first."""
    return dict(Counter(each.proxy for each in cluster.nodes.values()).most_common())


def _gates(seen: Mapping[str, bool]) -> str:
    return ", ".join(f"{name} {'on' if seen[name] else 'off'}" for name in GATES if name in seen) or "permanent"


def _finding(finding: Finding, *, first: bool) -> Iterator[str]:
    if finding.cause.weight is NOTE:
        yield _line("note", f"{finding.says} [{finding.cause.id}]")
    else:
        yield _line("why" if first else "and", f"{finding.says} [{finding.cause.id}]")
        if finding.nodes:
            yield _line("nodes", listed(finding.nodes))
    yield from (_line("seen", each) for each in finding.evidence)
    yield _line("do", finding.remedy or finding.cause.remedy)
    yield _line("source", finding.cause.source)


def _line(word: str, text: str) -> str:
    return f"  {word:<{_MARGIN}}{text}"


def _table(diagnosis: Diagnosis) -> Table:
    head = ("nodes", "zone", "port", "uses", "endpoints", "elsewhere", "because")
    table = Table(*head, box=None, pad_edge=False, header_style="bold")
    for each in diagnosis.routes:
        names, zone = listed(each.nodes), each.zone or "(none)"
        port = f"{each.port} {each.family}"
        table.add_row(names, zone, port, each.tier, str(each.used), str(each.crossing), each.because)
    return table


def supposition(
    assumed: Sequence[str], clients: str, before: Diagnosis, then: Diagnosis, bears: Sequence[Share]
) -> Iterator[Any]:
    """Yield the effect of assumptions, for a console."""
    metadata = before.service["metadata"]
    yield f"Service {metadata['namespace']}/{metadata['name']}: {answer(before)}"
    yield f"If {', '.join(assumed)}: {answer(then)}"
    for number, each in enumerate(then.findings):
        yield ""
        yield from _finding(each, first=number == 0)
    yield ""
    yield _line("assumes", ASSUMES)
    yield _line(
        "clients",
        {"nodes": "equally many on each node", "cpu": "in proportion to the CPU of nodes"}.get(clients, clients),
    )
    if then.routes:
        yield ""
        yield _table(then)
    if bears:
        yield ""
        yield _bears(bears)


ASSUMES = (
    "pods are ready, and spread evenly over the zones and then over their nodes; each component has the same release"
)


def _bears(bears: Sequence[Share]) -> Table:
    table = Table("zone", "endpoints", "each bears", "of an even share", box=None, pad_edge=False, header_style="bold")
    for each in bears:
        table.add_row(each.zone or "(none)", str(each.endpoints), f"{each.share:.1%}", f"{each.load:.0%}")
    return table


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    metadata = diagnosis.service["metadata"]
    return {
        "namespace": metadata["namespace"],
        "service": metadata["name"],
        "answer": answer(diagnosis),
        "asks": diagnosis.asks,
        "wanting": diagnosis.wanting,
        "nodes": diagnosis.nodes,
        "crossing": list(diagnosis.crossing),
        "failing": list(diagnosis.failing),
        "hints": list(diagnosis.hints),
        "causes": [
            {
                "id": each.cause.id,
                "weight": each.cause.weight.name.lower().replace("_", "-"),
                "says": each.says,
                "nodes": list(each.nodes),
                "evidence": list(each.evidence),
                "remedy": each.remedy or each.cause.remedy,
                "source": each.cause.source,
            }
            for each in diagnosis.findings
        ],
        "routes": [
            {
                "nodes": list(each.nodes),
                "zone": each.zone,
                "port": each.port,
                "family": each.family,
                "uses": each.tier,
                "endpoints": list(each.endpoints),
                "elsewhere": each.crossing,
                "because": each.because,
            }
            for each in diagnosis.routes
        ],
    }
