"""Lay out the map of a cluster: zones with their nodes, clients above, pods below, and connections between them.

The functions are pure and convert rows of the grid to coordinates. All arrows lie between the row of clients and the
row of pods, and therefore do not cross any box.
"""

from __future__ import annotations

import enum
import functools
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.judging.grid import Cell, Mark, Row
from harness.model.workloads import Client, ClientKind

SLOT = 88.0
"""The width of a client or a pod with its label."""
GAP = 14.0
HEAD = 26.0
OUTSIDE = 64.0
"""The height of the band above the zones, which holds clients outside the cluster."""
CLIENTS = 58.0
PODS = 232.0
"""The y coordinates of the rows, relative to the top of the zones."""
FLOOR = 268.0
RADIUS = 8.0
STUB = 54.0
"""The length of an arrow that ends at no pod."""
POD = (64.0, 26.0)
NOWHERE = "elsewhere"
TIMES = "\N{MULTIPLICATION SIGN}"


class Kind(enum.StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    MISSING = "missing"
    """An expected endpoint that no connection reached."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Box:
    """A zone or a node, with its name at the top."""

    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Spot:
    """A client or a pod, with the position of its centre. `concerned` is false for pods that play no role."""

    name: str
    label: str
    node: str
    x: float
    y: float
    concerned: bool = True


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow to a pod, or into empty space if `pod` is "".

    `label` has one or two lines. `share` is the part of all requests of the client.
    """

    kind: Kind
    client: str
    pod: str
    label: str
    x1: float
    y1: float
    x2: float
    y2: float
    share: float
    text_at: tuple[float, float]


@dataclass(frozen=True, slots=True)
class ClusterMap:
    width: float
    height: float
    zones: tuple[Box, ...]
    nodes: tuple[Box, ...]
    clients: tuple[Spot, ...]
    pods: tuple[Spot, ...]
    arrows: tuple[Arrow, ...]


def frame(box: Box) -> Markup:
    text = f'x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}"'
    return Markup(text)  # noqa: S704  only numbers


def curve(arrow: Arrow) -> str:
    x1, x2, middle = arrow.x1, arrow.x2, (arrow.y1 + arrow.y2) / 2
    return f"M{x1:.1f} {arrow.y1:.1f}C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {arrow.y2 - 7:.1f}"


def head(arrow: Arrow) -> str:
    x, y = arrow.x2, arrow.y2
    return f"{x - 5:.1f},{y - 9:.1f} {x + 5:.1f},{y - 9:.1f} {x:.1f},{y:.1f}"


_KINDS = {
    Mark.RIGHT: Kind.RIGHT,
    Mark.WRONG: Kind.WRONG,
    Mark.UNEVEN: Kind.WRONG,
    Mark.UNSEEN: Kind.MISSING,
    Mark.UNSURE: Kind.MISSING,
    Mark.UNKNOWN: Kind.UNKNOWN,
}
_CLIENT_LABELS: Mapping[ClientKind, str] = {"pod": "client", "node": "node", "external": "outside"}


def place_of_client(label: str, nodes: Sequence[str], pods: Sequence[str] = ()) -> tuple[str, str]:
    """Return the node and kind of a client from its label, or `NOWHERE` if the node is unknown.

    A label is `str(Client)` or "pod NAME". The name of a query may follow after " in ".
    """
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
    """Return the node of a pod from the pod's name: NODE for the first pod on a node, then NODE-2, and so on."""
    for name in (pod, pod.partition(":")[0]):
        if name in nodes:
            return name
        stem = re.sub(r"-\d+$", "", name)
        if stem in nodes:
            return stem
    return NOWHERE


def lay_out(
    nodes: Sequence[tuple[str, str]], columns: Sequence[str], rows: Sequence[Row], *, beside: Sequence[str] = ()
) -> ClusterMap:
    """Return the map of a grid. `nodes` maps names to zones, `columns` are pods, and `beside` other running pods."""
    names = [name for name, _ in nodes]
    homes = {row.client: place_of_client(row.client, names, [*columns, *beside]) for row in rows}
    housed: dict[str, list[str]] = defaultdict(list)
    for pod in (*columns, *(each for each in beside if each not in columns)):
        housed[place_of_pod(pod, names)].append(pod)
    guests: dict[str, list[str]] = defaultdict(list)
    for client, (node, _) in homes.items():
        guests[node].append(client)
    lost = {*housed, *guests} - set(names)
    places = [*nodes, *([(NOWHERE, "")] if lost else [])]
    top = OUTSIDE if any(what == "outside" for _, what in homes.values()) else 0.0
    zones, boxes = _boxes(places, {name: max(len(housed[name]), len(guests[name]), 1) for name, _ in places}, top)
    by_name = {each.name: each for each in boxes}
    clients, pods = [], []
    for name, box in by_name.items():
        for number, client in enumerate(guests[name]):
            what = homes[client][1]
            y = top - OUTSIDE / 2 + 6 if what == "outside" else top + CLIENTS
            clients.append(Spot(client, what, name, _slot(box, number, len(guests[name])), y))
        for number, pod in enumerate(housed[name]):
            x = _slot(box, number, len(housed[name]))
            pods.append(Spot(pod, pod, name, x, top + PODS, concerned=pod in columns))
    width = max(each.x + each.width for each in zones) + 1
    return ClusterMap(
        width, top + FLOOR + 10, tuple(zones), tuple(boxes), tuple(clients), tuple(pods),
        tuple(_arrows(rows, clients, pods, top)),
    )  # fmt: skip


def _boxes(places: Sequence[tuple[str, str]], slots: Mapping[str, int], top: float) -> tuple[list[Box], list[Box]]:
    by_zone: dict[str, list[str]] = defaultdict(list)
    for name, zone in places:
        by_zone[zone].append(name)
    zones, nodes, x = [], [], 1.0
    for zone, names in by_zone.items():
        left, x = x, x + GAP / 2
        for name in names:
            width = slots[name] * SLOT + GAP
            nodes.append(Box(name, x, top + HEAD, width, FLOOR - HEAD - GAP / 2))
            x += width + GAP / 2
        zones.append(Box(zone, left, top + 1, x - left, FLOOR))
        x += GAP
    return zones, nodes


def _slot(box: Box, number: int, of: int) -> float:
    return box.x + box.width * (number + 0.5) / of


def _arrows(rows: Sequence[Row], clients: Sequence[Spot], pods: Sequence[Spot], top: float) -> list[Arrow]:
    """Return an arrow for each relevant cell of the grid. Wrong connections come last, and are drawn on top."""
    at = {each.name: each for each in clients}
    to = {each.name: each for each in pods}
    cells = [(row.client, column, cell) for row in rows for column, cell in row.cells.items() if cell.mark in _KINDS]
    told = {row.client: sum(cell.count for cell in row.cells.values()) or 1 for row in rows}
    comers = _spread([(pod, at[client].x) for client, pod, _ in cells if pod in to], POD[0] - 16)
    leavers = _spread([(client, to[pod].x) for client, pod, _ in cells if pod in to], RADIUS)
    nowhere: dict[str, int] = defaultdict(int)
    found = []
    for number, (client, column, cell) in enumerate(cells):
        share = cell.count / told[client]
        y1 = at[client].y + RADIUS
        if column in to:
            x1 = at[client].x + leavers[client, to[column].x]
            x2, y2 = to[column].x + comers[column, at[client].x], to[column].y - POD[1] / 2
            pod = column
        else:
            aside = nowhere[client] * 26.0
            nowhere[client] += 1
            x1 = x2 = at[client].x + aside
            y2, pod = max(y1, top + CLIENTS) + STUB, ""
        t = 0.34 + 0.08 * (number % 5)
        text_at = on_curve((x1, y1, x2, y2), t) if pod else (x2, y2 + 20)
        kind = _KINDS[cell.mark]
        found.append(Arrow(kind, client, pod, _label(cell, column, pod), x1, y1, x2, y2, share, text_at))
    order = (Kind.RIGHT, Kind.UNKNOWN, Kind.MISSING, Kind.WRONG)
    return sorted(found, key=lambda each: order.index(each.kind))


def _label(cell: Cell, column: str, pod: str) -> str:
    if not pod:
        return f"{column}\n{cell.count}{TIMES}"
    return f"{cell.count}{TIMES}" if cell.count else "never"


def _spread(ends: Sequence[tuple[str, float]], room: float) -> dict[tuple[str, float], float]:
    """Return the offsets at which arrows reach each spot, in the order of the arrows' origins."""
    others: dict[str, list[float]] = defaultdict(list)
    for name, other in ends:
        others[name].append(other)
    found: dict[tuple[str, float], float] = {}
    for name, places in others.items():
        ordered = sorted(set(places))
        step = min(12.0, room / max(1, len(ordered) - 1))
        found |= {(name, other): (n - (len(ordered) - 1) / 2) * step for n, other in enumerate(ordered)}
    return found


def on_curve(ends: tuple[float, float, float, float], t: float) -> tuple[float, float]:
    """Return the point at `t` (0 to 1) of a curve with vertical ends."""
    x1, y1, x2, y2 = ends
    middle = (y1 + y2) / 2
    a, b, c, d = (1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t * t, t**3
    return round((a + b) * x1 + (c + d) * x2, 1), round(a * y1 + (b + c) * middle + d * y2, 1)
