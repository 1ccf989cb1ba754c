"""Live changes: a Service changes from one cell of the grid to a cell that differs in one dimension, and back.

A proxy can handle a new Service correctly and still miss later changes. Therefore each ordered pair of values of each
dimension is a change: a Service starts with the first value, switches to the second, and switches back to the first.
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
"""The values of each dimension that can change. A change of `address` changes the Service type and external IPs.

Cells do not have the dimensions `ingress` and `stack`. `ingress` is "given" once the load balancer has assigned
addresses, and `stack` is "single" or "dual" (one or two IP families).
"""

ALIKE = (
    ("conditions", {"ready", "unwritten"}),
    ("hints", {"none", "partial"}),
    ("distribution", {"PreferClose", "PreferSameZone"}),
)
"""Equivalent values. A change between equivalent values does not affect traffic."""

OWN_HINTS = {None: "none", "PreferClose": "zone", "PreferSameZone": "zone", "PreferSameNode": "both"}
"""The hints that a controller writes for each trafficDistribution. A change writes both the field and the hints,
because a proxy may read either.
"""

MANY = 120
OTHER_NUMBER = cells.FIRST_PORT + cells.PORTS
"""The target port number in changes between a number and a name. Servers of a named port listen on other numbers."""


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """A kind of Service address, with the IP family and protocol that clients use."""

    address: oracle.AddressKind
    family: str
    protocol: str

    def __str__(self) -> str:
        return f"{self.address} over {self.family} {self.protocol}"


@dataclass(frozen=True)
class Change:
    """A change of one dimension and its reversal. All other dimensions of the cell keep their values."""

    dimension: str
    before: Any
    after: Any
    rest: tuple[tuple[str, Any], ...]  # the values of the other dimensions

    @property
    def cells(self) -> tuple[Cell, Cell]:
        return self._cell(self.before), self._cell(self.after)

    def _cell(self, value: Any) -> Cell:
        return cell_of(self.dimension, value, dict(self.rest), many=self.has_many)

    @property
    def has_many(self) -> bool:
        """True if the change involves so many endpoints that each pod needs many ports."""
        return MANY in {self.before, self.after, dict(self.rest).get("endpoints")}

    @property
    def name(self) -> str:
        return f"{self.dimension} {self.before} to {self.after} and back"

    @property
    def text(self) -> str:
        return f"{self.name}; first {cells.name_of(self.cells[0])}"

    @property
    def asked_from(self) -> tuple[str, ...]:
        """The nodes of all clients that can observe the change, and of one client that cannot."""
        tells = [node for node in cells.ASKED_FROM if any(_differs(self, front, node) for front in self.fronts)]
        others = [node for node in cells.ASKED_FROM if node not in tells]
        return (*tells, *others[:1]) if tells else cells.ASKED_FROM

    @property
    def fronts(self) -> tuple[ServiceAddress, ...]:
        """The addresses to probe: those that clients use in either cell."""
        return tuple(dict.fromkeys(front for cell in self.cells for front in _fronts(cell)))


def cell_of(dimension: str, value: Any, rest: Cell, *, many: bool = False) -> Cell:
    """Return the (possibly partial) cell in which `dimension` has `value` and `rest` gives the other values."""
    cell = {**rest, dimension: value, "many": many}
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


def _fronts(cell: Cell) -> Iterator[ServiceAddress]:
    return (ServiceAddress(cell["address"], family, cell["protocol"]) for family in cells.families(cell))


def given(cell: Cell, front: ServiceAddress) -> bool:
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
    """Return the kind of servers that a cell needs: `by_number`, `by_name`, or `many` for servers with many ports."""
    return "many" if cell["many"] else f"by_{cell['target']}"


def container_ports(chosen: Iterable[Change], kind: str) -> list[list[tuple[str, int, str]]]:
    """Return the container ports that each of the twelve servers of a kind needs for these changes."""
    mine = [cell for change in chosen for cell in change.cells if servers_of(cell) == kind]
    named = [cell for cell in mine if cells.ports_of(cell) != [cells.NUMBER]]
    return [
        sorted({port for cell in named for port in cells.listening(cell, each)}) for each in range(len(cells.SERVERS))
    ]


def answers(change: Change, cell: Cell, front: ServiceAddress) -> dict[str, set[str]]:
    """For each client node, return the servers that may answer at an address. `name_in` defines the server names."""
    return {node: {name_in(cell, pod) for pod in told(cell, front, node)} for node in change.asked_from}


def told(cell: Cell, front: ServiceAddress, node: str) -> frozenset[str]:
    """Return the endpoints that may answer a client on (or via) a node at an address: indexes in `cells.SERVERS`."""
    return cells.told({**cell, "address": front.address}, node) if given(cell, front) else frozenset()


def keeps(cell: Cell, front: ServiceAddress) -> bool:
    """Return whether the Service has this address and session affinity (ClientIP)."""
    return cell["affinity"] == "ClientIP" and given(cell, front)


def meanwhile(change: Change, front: ServiceAddress, node: str) -> frozenset[str]:
    """Return the endpoints that may answer during a change. `name_in` defines their names.

    The endpoints allowed before or after the change may answer. If the change writes several slices, every usable
    endpoint may answer: per KEP-4444, proxies ignore hints while some endpoint has none (Changes within kube-proxy).
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


def _usable(cell: Cell, front: ServiceAddress, node: str) -> Iterator[str]:
    policies = oracle.Policies(cell["internal"], cell["external"])
    local = oracle.governing(oracle.Client(cell["client"], node, node[0]), front.address, policies) == "Local"
    for each in cells.judged(cell):
        if oracle.is_usable(each) and not (local and each.node != node):
            yield each.pod


def may_not_lose(change: Change, front: ServiceAddress, node: str) -> bool:
    """Return whether a change must not lose connections: True if only hints change and an endpoint stays allowed.

    A proxy ignores hints while some endpoint has none, for "safer transitions" (KEP-4444, Changes within kube-proxy).
    The KEP does not say whether connections may be lost during other changes.
    """
    first, second = (told(each, front, node) for each in change.cells)
    return change.dimension in {"hints", "distribution"} and bool(first & second)


def name_in(cell: Cell, pod: str) -> str:
    """Return the name of a server. Equal names in the two cells of a change mean the same server."""
    return f"{servers_of(cell)}-{pod}"


def shows(change: Change) -> bool:
    """Return whether any client can observe the change."""
    return any(_differs(change, front, node) for front in change.fronts for node in cells.ASKED_FROM)


def _differs(change: Change, front: ServiceAddress, node: str) -> bool:
    first, second = change.cells
    one, other = (frozenset(name_in(each, pod) for pod in told(each, front, node)) for each in (first, second))
    return one != other or (len(one) > 1 and keeps(first, front) != keeps(second, front))
