"""Live changes: a Service goes from one cell of the grid to another that differs in one dimension, and back.

A proxy can read a new Service correctly and still miss its changes. So each ordered pair of values of each dimension is
a change: a Service has the first value, then the other, and then the first one again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from conformance import oracle
from conformance.interactions import cells, change_steps
from conformance.interactions.dimensions import DIMENSIONS, Cell

VALUES: Mapping[str, tuple[Any, ...]] = {
    "endpoints": (0, 1, 3, 12, 120),
    "hints": DIMENSIONS["hints"],
    "conditions": DIMENSIONS["conditions"],
    "distribution": DIMENSIONS["distribution"],
    "address": DIMENSIONS["address"],
    "ingress": ("given", "pending"),
    "internal": DIMENSIONS["internal"],
    "external": DIMENSIONS["external"],
    "stack": ("single", "dual"),
    "protocol": DIMENSIONS["protocol"],
    "affinity": DIMENSIONS["affinity"],
    "target": DIMENSIONS["target"],
}
"""What changes, by dimension; `address` is the type of the Service and its external IPs.

Two are no dimensions of cells: `ingress`, whether the load balancer has given its addresses yet, and `stack`, whether
the Service has an address of the other family, too.
"""

ALIKE = (
    ("conditions", {"ready", "unwritten"}),
    ("hints", {"none", "partial"}),
    ("distribution", {"PreferClose", "PreferSameZone"}),
)
"""Values that mean the same: traffic goes on as it was."""

OWN_HINTS = {None: "none", "PreferClose": "zone", "PreferSameZone": "zone", "PreferSameNode": "both"}
"""The hints that a controller writes for a value of trafficDistribution. A proxy reads these, the field or both."""

MANY = 120
OTHER_NUMBER = cells.FIRST_PORT + cells.PORTS
"""The number of a target port that is about to become a name: where no other server listens."""


@dataclass(frozen=True, slots=True)
class Front:
    """An address of a Service that clients use."""

    address: oracle.AddressKind
    family: str
    protocol: str

    def __str__(self) -> str:
        return f"{self.address} over {self.family} {self.protocol}"


@dataclass(frozen=True)
class Change:
    """A change of one dimension, there and back, while all other values of a cell stay."""

    dimension: str
    before: Any
    after: Any
    beside: tuple[tuple[str, Any], ...]  # the other values

    @property
    def cells(self) -> tuple[Cell, Cell]:
        """The cell that it begins with, and the other one."""
        return self._cell(self.before), self._cell(self.after)

    def _cell(self, value: Any) -> Cell:
        return cell_of(self.dimension, value, dict(self.beside), many=self.has_many)

    @property
    def has_many(self) -> bool:
        """Whether it has so many endpoints that its pods have many ports."""
        return MANY in {self.before, self.after, dict(self.beside).get("endpoints")}

    @property
    def name(self) -> str:
        """What changes."""
        return f"{self.dimension} {self.before} to {self.after} and back"

    @property
    def text(self) -> str:
        """What it is called in full."""
        return f"{self.name}; first {cells.name_of(self.cells[0])}"

    @property
    def asked_from(self) -> tuple[str, ...]:
        """The nodes of the clients: of all who can tell its cells apart, and of one who cannot."""
        tells = [node for node in cells.ASKED_FROM if any(_differs(self, front, node) for front in self.fronts)]
        others = [node for node in cells.ASKED_FROM if node not in tells]
        return (*tells, *others[:1]) if tells else cells.ASKED_FROM

    @property
    def fronts(self) -> tuple[Front, ...]:
        """The addresses that it asks: those of its two cells."""
        return tuple(dict.fromkeys(front for cell in self.cells for front in _fronts(cell)))


def cell_of(dimension: str, value: Any, beside: Cell, *, many: bool = False) -> Cell:
    """Return the cell, or the part of one, that a Service with these values beside one that changes has."""
    cell = {**beside, dimension: value, "many": many}
    if dimension == "distribution":
        cell["hints"] = OWN_HINTS[value]
    elif dimension == "target":
        cell["number"] = OTHER_NUMBER
    elif dimension == "endpoints":
        if many:
            cell["target"] = "name"
        if value == 0:
            cell = {**cell, "hints": "none", "conditions": "ready"}
    return cell


def _fronts(cell: Cell) -> Iterator[Front]:
    return (Front(cell["address"], family, cell["protocol"]) for family in cells.families(cell))


def given(cell: Cell, front: Front) -> bool:
    """Return whether a Service of this cell has this address."""
    kind = cells.service_fields(cell).get("type", "ClusterIP")
    has = {
        "cluster-ip": True,
        "node-port": kind in {"NodePort", "LoadBalancer"},
        "load-balancer": kind == "LoadBalancer" and cell.get("ingress") != "pending",
        "external-ip": cell["address"] == "external-ip",
    }
    return has[front.address] and front.family in cells.families(cell) and front.protocol == cell["protocol"]


def servers_of(cell: Cell) -> str:
    """Return which servers a cell of a change has: those with one number, one of several, or many ports each."""
    return "many" if cell["many"] else f"by_{cell['target']}"


def container_ports(chosen: Iterable[Change], kind: str) -> list[list[tuple[str, int, str]]]:
    """Return the ports that the twelve servers of a kind have for these changes."""
    mine = [cell for change in chosen for cell in change.cells if servers_of(cell) == kind]
    named = [cell for cell in mine if cells.ports_of(cell) != [cells.NUMBER]]
    return [
        sorted({port for cell in named for port in cells.listening(cell, each)}) for each in range(len(cells.SERVERS))
    ]


def answers(change: Change, cell: Cell, front: Front) -> dict[str, set[str]]:
    """Return who may answer each client at an address, by names of `name_in`."""
    return {node: {name_in(cell, pod) for pod in told(cell, front, node)} for node in change.asked_from}


def told(cell: Cell, front: Front, node: str) -> frozenset[str]:
    """Return the endpoints that may answer a client on (or via) a node at an address: indexes in `cells.SERVERS`."""
    return cells.told({**cell, "address": front.address}, node) if given(cell, front) else frozenset()


def keeps(cell: Cell, front: Front) -> bool:
    """Return whether a client keeps one of those who may answer."""
    return cell["affinity"] == "ClientIP" and given(cell, front)


def meanwhile(change: Change, front: Front, node: str) -> frozenset[str]:
    """Return the endpoints that may answer during a change, by names of `name_in`.

    That is whoever may before or after; if several slices are written or deleted, whoever is usable, since hints are
    judged over all that are there. KEP-4444, Changes within kube-proxy: where some have none, hints are not followed.
    """
    either = frozenset(name_in(each, pod) for each in change.cells for pod in told(each, front, node))
    if not _writes_several_slices(change, front.family):
        return either
    return either | {name_in(each, pod) for each in change.cells for pod in _usable(each, front, node)}


def _writes_several_slices(change: Change, family: str) -> bool:
    first, second = change.cells
    return any(
        len(
            [
                each
                for each in way
                if isinstance(each, change_steps.Publish | change_steps.Unpublish) and each.family == family
            ]
        )
        > 1
        for way in (change_steps.between(first, second), change_steps.between(second, first))
    )


def _usable(cell: Cell, front: Front, node: str) -> Iterator[str]:
    policies = oracle.Policies(cell["internal"], cell["external"])
    local = oracle.governing(oracle.Client(cell["client"], node, node[0]), front.address, policies) == "Local"
    for each in cells.judged(cell):
        if oracle.is_usable(each) and not (local and each.node != node):
            yield each.pod


def may_not_lose(change: Change, front: Front, node: str) -> bool:
    """Return whether a client must always get an answer during a change: only hints change, and an endpoint stays.

    KEP-4444, Changes within kube-proxy: following no hints while some have none is for "safer transitions". Nothing is
    said of what other changes may lose.
    """
    first, second = (told(each, front, node) for each in change.cells)
    return change.dimension in {"hints", "distribution"} and bool(first & second)


def name_in(cell: Cell, pod: str) -> str:
    """Return the name of a server that is the same in both cells of a change, if it is the same server."""
    return f"{servers_of(cell)}-{pod}"


def shows(change: Change) -> bool:
    """Return whether some client can tell the two cells apart."""
    return any(_differs(change, front, node) for front in change.fronts for node in cells.ASKED_FROM)


def _differs(change: Change, front: Front, node: str) -> bool:
    first, second = change.cells
    one, other = (frozenset(name_in(each, pod) for pod in told(each, front, node)) for each in (first, second))
    return one != other or (len(one) > 1 and keeps(first, front) != keeps(second, front))
