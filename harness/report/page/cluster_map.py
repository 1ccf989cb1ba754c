"""The map of a cluster: zones with their nodes, clients and pods, and the connections between them.

In Markdown the map is a Mermaid diagram, because GitHub renders Mermaid but removes SVG and data URLs.
"""

import enum
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.judging.verdict import CellMark, GridRow
from harness.model.workloads import Client, ClientKind

NOWHERE = "elsewhere"
TIMES = "\N{MULTIPLICATION SIGN}"
MOST_ARROWS = 24  # if a diagram would have more arrows, correct answers are omitted to keep it readable


class ConnectionKind(enum.StrEnum):
    """The kinds of connections, in the order of the legend of a map."""

    RIGHT = "right"
    UNKNOWN = "unknown"
    MISSING = "missing"  # expected endpoint that no connection reached
    WRONG = "wrong"


_KINDS = {
    CellMark.RIGHT: ConnectionKind.RIGHT,
    CellMark.WRONG: ConnectionKind.WRONG,
    CellMark.UNEVEN: ConnectionKind.WRONG,
    CellMark.UNSEEN: ConnectionKind.MISSING,
    CellMark.UNSURE: ConnectionKind.MISSING,
    CellMark.UNKNOWN: ConnectionKind.UNKNOWN,
}
_ARROWS = {
    ConnectionKind.RIGHT: ("-->", "stroke:#1c7a4a"),
    ConnectionKind.WRONG: ("==>", "stroke:#d1242f,stroke-width:4px"),
    ConnectionKind.MISSING: ("-.->", "stroke:#9a6700"),
    ConnectionKind.UNKNOWN: ("-.->", "stroke:#9a6700"),
}
_CLIENT_LABELS: Mapping[ClientKind, str] = {"pod": "client", "node": "node", "external": "outside"}
_PLAIN = re.compile(rf"[^\w .:/(){TIMES}-]")


@dataclass(frozen=True, slots=True)
class Connection:
    """The results of a client's connections. `to` is a pod or, if `of_pod` is false, an outcome such as "timed out"."""

    kind: ConnectionKind
    client: str
    to: str
    of_pod: bool
    times: str


@dataclass(frozen=True, slots=True)
class MapNode:
    """A node. `clients` maps client names to kinds. `unrelated` lists running pods without a role in the scenario."""

    name: str
    clients: Mapping[str, str]
    pods: Sequence[str]
    unrelated: Sequence[str]


@dataclass(frozen=True, slots=True)
class ClusterMap:
    zones: Mapping[str, Sequence[MapNode]]
    connections: Sequence[Connection]


def place_of_client(label: str, nodes: Sequence[str], pods: Sequence[str]) -> tuple[str, str]:
    """Return the node (or `NOWHERE`) and kind of the client with this label (`str(Client)` or "pod NAME")."""
    known = _clients_on(tuple(nodes))
    for name in (label, label.partition(" in ")[0]):
        pod = name.removeprefix("pod ")
        if pod != name and pod in pods:
            return place_of_pod(pod, nodes), "client"
        if name in known:
            return known[name]
    own = label.partition(" in ")[0].removeprefix("pod ")
    return place_of_pod(own, nodes), "client"


@functools.cache
def _clients_on(nodes: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    return {str(Client(kind, node)): (node, what) for kind, what in _CLIENT_LABELS.items() for node in nodes}


def place_of_pod(pod: str, nodes: Sequence[str]) -> str:
    """Return the node of a pod from its name: NODE for the first pod on a node, then NODE-2, and so on."""
    for name in (pod, pod.partition(":")[0]):
        if name in nodes:
            return name
        stem = re.sub(r"-\d+$", "", name)
        if stem in nodes:
            return stem
    return NOWHERE


def map_of(
    nodes: Sequence[tuple[str, str]], pods: Sequence[str], rows: Sequence[GridRow], *, unrelated: Sequence[str] = ()
) -> ClusterMap:
    """Return the map of a grid with columns `pods`. `nodes` lists names and zones, `unrelated` other running pods."""
    names = [name for name, _ in nodes]
    clients = {row.client: place_of_client(row.client, names, [*pods, *unrelated]) for row in rows}
    homes = {pod: place_of_pod(pod, names) for pod in (*pods, *unrelated)}
    lost = not {*homes.values(), *(node for node, _ in clients.values())} <= set(names)
    zones: dict[str, list[MapNode]] = {}
    for name, zone in [*nodes, *([(NOWHERE, "")] if lost else [])]:
        here = {client: label for client, (node, label) in clients.items() if node == name}
        mine = [pod for pod, node in homes.items() if node == name]
        node = MapNode(name, here, [each for each in mine if each in pods], [each for each in mine if each not in pods])
        zones.setdefault(zone, []).append(node)
    connections = [
        Connection(_KINDS[cell.mark], row.client, to, to in homes, _times(cell.count, of_pod=to in homes))
        for row in rows
        for to, cell in row.cells.items()
        if cell.mark in _KINDS
    ]
    return ClusterMap(zones, sorted(connections, key=lambda each: list(ConnectionKind).index(each.kind)))


def _times(count: int, *, of_pod: bool) -> str:
    return f"{count}{TIMES}" if count or not of_pod else "never"


def as_mermaid(shown: ClusterMap) -> str:
    nodes = [node for some in shown.zones.values() for node in some]
    every = shown.connections
    arrows = [each for each in every if len(every) <= MOST_ARROWS or each.kind is not ConnectionKind.RIGHT]
    clients = {name: f"c{number}" for number, name in enumerate(name for node in nodes for name in node.clients)}
    pods = {name: f"p{number}" for number, name in enumerate(name for node in nodes for name in node.pods)}
    lines = ["flowchart TB", *_boxes(shown, clients, pods)]
    for number, each in enumerate(arrows):
        to = pods.get(each.to) or f'x{number}{{{{"{_text(each.to)}"}}}}'
        line, style = _ARROWS[each.kind]
        lines += [f'  {clients[each.client]} {line}|"{_text(each.times)}"| {to}', f"  linkStyle {number} {style}"]
    return "\n".join(lines)


def _boxes(shown: ClusterMap, clients: Mapping[str, str], pods: Mapping[str, str]) -> Iterator[str]:
    number = 0
    for zone, nodes in shown.zones.items():
        first, boxes = number, []
        for node in nodes:
            labels = {name: f"{what} {name.removeprefix(f'{what} ')}" for name, what in node.clients.items()}
            inside = [f'{clients[name]}(["{_text(label)}"])' for name, label in labels.items()]
            inside += [f'{pods[name]}["{_text(name)}"]' for name in node.pods]
            if inside:
                boxes += [
                    f'    subgraph n{number}["{_text(node.name)}"]',
                    *(f"      {each}" for each in inside),
                    "    end",
                ]
            number += 1
        if boxes:
            yield from (f'  subgraph z{first}["{_text(f"zone {zone}") if zone else NOWHERE}"]', *boxes, "  end")


def _text(text: str) -> str:
    """Escape all characters that have a meaning in Mermaid: replace them with their character codes."""
    return _PLAIN.sub(lambda found: f"#{ord(found[0])};", text)
