"""List the Services of a cluster that request topology or fail, and those that two clusters route differently.

The comparison covers the proximity of endpoints, and not their addresses, which change with each rollout.
"""

import html
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from explain.causes import listed, many
from explain.cluster import Cluster, ServiceName
from explain.diagnosis import diagnose
from explain.requested_topology import asked_in_words
from explain.text import answer, fields
from harness.model.escaping import for_json, for_line, for_markdown
from reference.proxy.objects import UNREADABLE

_HEAD = ("Service", "asks for", "nodes that do not meet it", "because", "fix", "side effects of the fix")


@dataclass(frozen=True, slots=True)
class ServiceRow:
    """A Service: its request ("" for none), the number of nodes that do not meet it, the first cause, and the fix."""

    service: str
    asks: str
    missed: int
    says: str
    cause: str = ""
    remedy: str = ""
    also: str = ""
    wanting: bool = False
    failing: bool = False

    @property
    def cells(self) -> tuple[str, ...]:
        why = f"{self.says} [{self.cause}]" if self.cause else self.says
        return self.service, self.asks or "nothing", str(self.missed), why, self.remedy, self.also


@dataclass(frozen=True, slots=True)
class Overview:
    """The Services that request topology or that fail. `silent` is the number of all other Services."""

    rows: tuple[ServiceRow, ...]
    silent: int
    nodes: int | None
    unread: tuple[str, ...]

    @property
    def wanting(self) -> int:
        """The number of Services that fail on some node, or do not get what they request."""
        return sum(each.wanting for each in self.rows)

    @property
    def failing(self) -> int:
        """The number of Services to which connections fail."""
        return sum(each.failing for each in self.rows)

    @property
    def total(self) -> str:
        asking = [each for each in self.rows if each.asks]
        unmet, failing = sum(each.wanting for each in asking), len(self.rows) - len(asking)
        fail = ", of which " + many(failing, verbs="fails/fail") if failing else ""
        of = " that EndpointSlices name (nodes were not read)"
        if self.nodes is not None:
            pairs = sum(each.missed for each in asking if each.wanting)
            of = f": {pairs} of {many(len(asking) * self.nodes, 'pair')} of a Service and a node"
        return (
            f"{unmet} of {many(len(asking), 'Service', 'that requests/that request')} topology "
            f"{'does' if unmet == 1 else 'do'} not get it on all nodes{of}; "
            f"Services without a preference: {self.silent}{fail}"
        )


def overview(cluster: Cluster, namespace: str = "") -> Overview:
    known = [each for each in cluster.objects.services if namespace in {"", each["metadata"].get("namespace")}]
    every = [_row(each, cluster) for each in known]
    rows = [each for each in every if each.asks or each.failing]
    rows.sort(key=lambda each: (not each.wanting, -each.missed, each.service))
    unread = tuple(f"{name} were not read: {why}" for name, why in sorted(cluster.objects.unread.items()))
    nodes = None if "nodes" in cluster.objects.unread else len(cluster.nodes)
    return Overview(tuple(rows), sum(not each.asks for each in every), nodes, unread)


def _row(service: Any, cluster: Cluster) -> ServiceRow:
    metadata = service["metadata"]
    name = f"{metadata.get('namespace', '')}/{metadata['name']}"
    try:
        found = diagnose(service, cluster)
        asks = asked_in_words(service, cluster.features, found.wish) if found.wish else ""
    except (*UNREADABLE, AttributeError) as error:
        says = f"its objects cannot be read: {error!r}"
        return ServiceRow(name, "?", len(cluster.nodes), says, wanting=True, failing=True)
    if not found.wanting:
        return ServiceRow(name, asks, 0, answer(found))
    first, unmet, fails = found.reason, len(found.unmet), bool(found.failing)
    assert first is not None, "each route that falls short has a finding"
    remedy = first.remedy or first.cause.remedy
    return ServiceRow(name, asks, unmet, answer(found), first.cause.id, remedy, first.also, wanting=True, failing=fails)


def _text(view: Overview) -> str:
    columns = (Column(each, overflow="fold") for each in _HEAD[:4])
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for each in view.rows:
        table.add_row(*each.cells[:4])
    written = io.StringIO()
    Console(file=written, width=200, highlight=False, markup=False, emoji=False).print(table)
    lines = [line.rstrip() for line in written.getvalue().splitlines()] if view.rows else []
    remedies = list[str]()
    for each in view.rows:  # whole lines, to paste
        remedies += ["", f"{each.service}: {each.remedy}"] if each.remedy else []
        remedies += [f"  also: {each.also}"] if each.remedy and each.also else []
    return "\n".join([*lines, *remedies, "", view.total, *view.unread])


def _json(view: Overview) -> str:
    rows = [asdict(each) for each in view.rows]
    counts = fields(view, "silent nodes wanting failing unread")
    return for_json(json.dumps({"services": rows, **counts}, indent=2, ensure_ascii=False))


def _markdown(view: Overview) -> str:
    lines = [_HEAD, ("---",) * len(_HEAD), *(each.cells for each in view.rows)]
    table = [f"| {' | '.join(map(for_markdown, cells))} |" for cells in lines]
    return "\n".join([*table, "", view.total, *(f"- {for_markdown(each)}" for each in view.unread)])


def _html(view: Overview) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(for_line(each))}</{tag}>" for each in cells) + "</tr>"

    rows = "\n".join(row("td", each.cells) for each in view.rows)
    unread = "".join(f"<p>{html.escape(for_line(each))}</p>" for each in view.unread)
    page = Path(__file__).with_suffix(".html").read_text(encoding="utf-8").rstrip()
    return page.format(head=row("th", _HEAD), rows=rows, total=html.escape(view.total), unread=unread)


FORMATS: dict[str, Callable[[Overview], str]] = {"text": _text, "json": _json, "md": _markdown, "html": _html}
"""The output formats of an overview."""


@dataclass(frozen=True, slots=True)
class RouteDifference:
    """A Service whose routes differ between two clusters. `before` and `after` are the first lines of `explain`.

    `failing` is true if connections fail in the second cluster. `example` compares the routes of one node.
    """

    service: str
    nodes: tuple[str, ...]
    before: str
    after: str
    failing: bool = False
    example: str = ""

    @property
    def lines(self) -> Iterator[str]:
        yield f"{self.service}: {listed(self.nodes) or 'all nodes'}"
        yield f"  before    {self.before}"
        yield f"  after     {self.after}"
        if self.example and self.before == self.after:
            yield f"  example   {self.example}"


def differences(before: Cluster, after: Cluster, namespace: str = "") -> list[RouteDifference]:
    """Return the Services that exist in only one cluster, or whose routes differ on a node of both clusters."""
    names = sorted(each for each in before.services.keys() | after.services.keys() if namespace in {"", each[0]})
    found = []
    for name in names:
        (was, said), (now, says) = _explained(before, name), _explained(after, name)
        nodes = tuple(node for node in sorted(was.keys() & now.keys()) if was[node] != now[node])
        if nodes or (said != says and not (was and now)):
            failing = any("fails" in each for routes in now.values() for each in routes.values())
            example = _example(nodes[0], was[nodes[0]], now[nodes[0]]) if nodes else ""
            found.append(RouteDifference("/".join(name), nodes, said, says, failing, example))
    return found


def _example(node: str, was: "Mapping[str, Place]", now: "Mapping[str, Place]") -> str:
    label = next(each for each in sorted(was.keys() | now.keys()) if was.get(each) != now.get(each))
    far = ", with endpoints of other zones"
    used = [f"{one[0]}{far * one[1]}" if one else "no such port" for one in (was.get(label), now.get(label))]
    return f"{node} {label} used {used[0]}, and uses {used[1]}"


Place = tuple[str, bool, str]
"""The tier of a route, whether it leaves the zone, and its shortfall."""

_Places = Mapping[str, Mapping[str, Place]]


def _explained(cluster: Cluster, name: ServiceName) -> tuple[_Places, str]:
    try:
        found = diagnose(cluster.services[name], cluster) if name in cluster.services else None
    except (*UNREADABLE, AttributeError) as error:
        return {}, f"its objects cannot be read: {error!r}"
    places: dict[str, dict[str, Place]] = {}
    for each in found.routes if found else ():
        for node in each.nodes:
            places.setdefault(node, {})[each.label] = (each.tier, bool(each.crossing), each.short)
    return places, answer(found) if found else "there is no such Service"
