"""The API writes of a live change, which convert a Service from one cell to another cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance import oracle
from conformance.interactions import cells
from conformance.interactions.cells import CellEndpoint
from conformance.interactions.dimensions import Cell
from trafficdist import Port

PORT = 80
NAME = "web"  # name of the Service port and of its container ports


@dataclass(frozen=True, slots=True)
class Patch:
    """A step that sets fields in the spec of the Service. The value None removes a field."""

    spec: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SetAddresses:
    """A step that sets which kinds of external addresses a Service has. The cluster does not allocate them."""

    kinds: tuple[oracle.AddressKind, ...]


@dataclass(frozen=True, slots=True)
class Publish:
    name: str
    family: str
    port: Port
    endpoints: Sequence[CellEndpoint]


@dataclass(frozen=True, slots=True)
class Unpublish:
    name: str
    family: str


Step = Patch | SetAddresses | Publish | Unpublish


def created(cell: Cell) -> dict[str, Any]:
    """Return the arguments of `Cluster.create_service`, without ports, for a Service with the values of this cell."""
    fields = cells.service_fields(cell)
    return {**fields, "type": "NodePort"} if _pends(cell) else fields


def first(cell: Cell) -> Iterator[Step]:
    """Yield the steps that bring a new Service to its first cell."""
    if _pends(cell):  # a Service created with type LoadBalancer would receive addresses at once
        yield Patch({"type": "LoadBalancer", "trafficDistribution": cell["distribution"]})
    yield from slices(cell)


def between(before: Cell, after: Cell) -> Iterator[Step]:
    """Yield the steps from `before` to `after`: changes to the Service, its external addresses, and its slices."""
    yield from service_steps(_spec(before), _spec(after))
    if given_by_others(before) != given_by_others(after):
        yield SetAddresses(given_by_others(after))
    yield from slice_steps(slices(before), slices(after))


def service_steps(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Patch]:
    """Yield a patch if the two specs differ. The patch always includes trafficDistribution."""
    changed = {name: value for name, value in after.items() if value != before[name]}
    if changed:
        yield Patch({"trafficDistribution": after["trafficDistribution"], **changed})


def slice_steps(before: Iterable[Publish], after: Iterable[Publish]) -> Iterator[Publish | Unpublish]:
    """Yield the steps from one set of slices to another: changed slices are written, and removed slices are deleted."""
    old, new = ({(each.name, each.family): each for each in some} for some in (before, after))
    yield from (each for name, each in new.items() if each != old.get(name))
    yield from (Unpublish(*name) for name in old.keys() - new.keys())


def given_by_others(cell: Cell) -> tuple[oracle.AddressKind, ...]:
    """Return the kinds of addresses of a cell's Service that the cluster does not allocate."""
    outward: tuple[oracle.AddressKind, ...] = ("load-balancer", "external-ip")
    return tuple(kind for kind in outward if kind == cell["address"] and not _pends(cell))


def _of_slices(cell: Cell) -> list[tuple[int, list[CellEndpoint]]]:
    """Return the port and the endpoints of each slice. Without endpoints, return one empty slice."""
    return list(cells.slices(cell).items()) or [(cells.ports_of(cell)[0], [])]


def _pends(cell: Cell) -> bool:
    return cell.get("ingress") == "pending"


def slices(cell: Cell) -> Iterator[Publish]:
    for family in cells.families(cell):
        for number, (port, endpoints) in enumerate(_of_slices(cell)):
            yield Publish(str(number), family, Port(PORT, cell["protocol"], NAME, port), endpoints)


def _spec(cell: Cell) -> dict[str, Any]:
    fields = cells.service_fields(cell)
    port = {"name": NAME, "port": PORT, "protocol": cell["protocol"], "targetPort": cells.target(cell)}
    return {
        "type": fields.get("type", "ClusterIP"),
        "trafficDistribution": fields.get("traffic_distribution"),
        "internalTrafficPolicy": fields["internal_traffic_policy"],
        "externalTrafficPolicy": fields.get("external_traffic_policy"),
        "sessionAffinity": fields["sessionAffinity"],
        "ipFamilies": fields["ipFamilies"],
        "ipFamilyPolicy": "RequireDualStack" if "dual_stack" in fields else "SingleStack",
        "ports": [port],
    }
