"""Draw the map of a cluster in Mermaid, which GitHub renders as a picture in Markdown.

GitHub removes SVG and data URLs from Markdown, so Mermaid is the only way to embed a picture. Mermaid computes the
layout, in which zones and nodes are nested boxes that contain clients and pods.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from harness.report.page.cluster_map import NOWHERE, TIMES, Arrow, ClusterMap, Kind, Spot

MOST_ARROWS = 24
"""If there are more arrows, right answers are omitted to keep the picture readable."""

_LINES = {Kind.RIGHT: "-->", Kind.WRONG: "==>", Kind.MISSING: "-.->", Kind.UNKNOWN: "-.->"}
_STYLES = {
    Kind.RIGHT: "stroke:#1c7a4a",
    Kind.WRONG: "stroke:#d1242f,stroke-width:4px",
    Kind.MISSING: "stroke:#9a6700",
    Kind.UNKNOWN: "stroke:#9a6700",
}
_PLAIN = re.compile(rf"[^\w .:/(){TIMES}-]")


def draw(shown: ClusterMap, nodes: Sequence[tuple[str, str]]) -> str:
    concerned = [each for each in shown.pods if each.concerned]
    arrows = [each for each in shown.arrows if len(shown.arrows) <= MOST_ARROWS or each.kind is not Kind.RIGHT]
    clients = {each.name: f"c{number}" for number, each in enumerate(shown.clients)}
    pods = {each.name: f"p{number}" for number, each in enumerate(concerned)}
    inside: dict[str, list[str]] = defaultdict(list)
    for each in shown.clients:
        inside[each.node].append(f'{clients[each.name]}(["{_text(_label(each))}"])')
    for each in concerned:
        inside[each.node].append(f'{pods[each.name]}["{_text(each.name)}"]')
    lines = ["flowchart TB", *_boxes([*nodes, (NOWHERE, "")], inside)]
    for number, arrow in enumerate(arrows):
        lines.append(_arrow(arrow, number, clients, pods))
        lines.append(f"  linkStyle {number} {_STYLES[arrow.kind]}")
    return "\n".join(lines)


def _boxes(nodes: Sequence[tuple[str, str]], inside: dict[str, list[str]]) -> Iterator[str]:
    zones = [zone for _, zone in nodes]
    numbered = [(zones.index(zone), number, name) for number, (name, zone) in enumerate(nodes) if inside[name]]
    for zone, some in groupby(sorted(numbered), key=itemgetter(0)):
        name = nodes[zone][1]
        yield f'  subgraph z{zone}["{_text(f"zone {name}") if name else NOWHERE}"]'
        for _, number, name in some:
            yield f'    subgraph n{number}["{_text(name)}"]'
            yield from (f"      {each}" for each in inside[name])
            yield "    end"
        yield "  end"


def _arrow(arrow: Arrow, number: int, clients: dict[str, str], pods: dict[str, str]) -> str:
    what, _, times = arrow.label.rpartition("\n")
    to = pods.get(arrow.pod) or f'x{number}{{{{"{_text(what)}"}}}}'
    return f'  {clients[arrow.client]} {_LINES[arrow.kind]}|"{_text(times)}"| {to}'


def _label(client: Spot) -> str:
    return f"{client.label} {client.name.removeprefix(f'{client.label} ')}"


def _text(text: str) -> str:
    """Return a text in which all characters with a meaning in Mermaid are escaped as numbers."""
    return _PLAIN.sub(lambda found: f"#{ord(found[0])};", text)
