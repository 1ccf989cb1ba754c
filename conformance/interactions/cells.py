"""Convert a cell of the grid to a Service, slices and clients, and compute the expected outcome for each client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from conformance import oracle
from conformance.interactions.dimensions import Cell

SERVERS = ("a1", "b1", "a2", "b2", "a1", "b1", "a2", "b2", "a1", "b1", "a1", "b1")
"""The node of each of the twelve servers, by server number. Zone c has no server."""

ASKED_FROM = ("a1", "b2", "c1")
"""The nodes of the clients."""

NUMBER = 8080
FIRST_PORT = 9000
PORTS = 3  # number of different target ports in cells with at most twelve endpoints

OF_SLICES = ("endpoints", "hints", "conditions", "distribution", "target")
"""The dimensions that determine the slices of a cell."""

_JUDGED = (*OF_SLICES, "address", "client", "internal", "external")

NOT_READY = {"ready": False, "serving": False, "terminating": False}
LEAVING = {"ready": False, "serving": True, "terminating": True}
GONE = {"ready": False, "serving": False, "terminating": True}


@dataclass(frozen=True, slots=True)
class CellEndpoint:
    """An endpoint of a cell: a server, by its index in `SERVERS`, with hints and conditions."""

    server: int
    zones: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    conditions: Mapping[str, bool | None] = field(default_factory=dict)


def name_of(cell: Cell) -> str:
    """Return the name of a cell, which lists the values of all dimensions."""
    kept = ", kept" if cell["affinity"] == "ClientIP" else ""
    return (
        f"{cell['client']} at {cell['address']} over {cell['family']} {cell['protocol']}{kept}: {cell['endpoints']} by "
        f"{cell['target']}, {cell['conditions']}, hints {cell['hints']}, {cell['distribution']}, internal "
        f"{cell['internal']}, external {cell['external']}"
    )


def service_fields(cell: Cell) -> dict[str, Any]:
    """Return the arguments of `Cluster.create_service` for a cell, except the ports."""
    types = {"load-balancer": "LoadBalancer", "node-port": "NodePort"}
    outward = cell["address"] == "external-ip" or cell["external"] == "Local"
    fields = {
        "type": types.get(cell["address"], "NodePort" if outward else None),
        "external_ips": True if cell["address"] == "external-ip" else None,
        "traffic_distribution": cell["distribution"],
        "internal_traffic_policy": cell["internal"],
        "external_traffic_policy": cell["external"] if outward else None,
        "ipFamilies": families(cell),
        "dual_stack": True if len(families(cell)) > 1 else None,
        "sessionAffinity": cell["affinity"],
    }
    return {name: value for name, value in fields.items() if value is not None}


def families(cell: Cell) -> list[str]:
    """Return the IP families of a cell's Service, beginning with the family that clients use."""
    others = ["IPv6" if cell["family"] == "IPv4" else "IPv4"] if cell.get("stack") == "dual" else []
    return [cell["family"], *others]


def target(cell: Cell) -> int | str:
    return ports_of(cell)[0] if cell["target"] == "number" else "web"


def ports_of(cell: Cell) -> list[int]:
    """Return the ports on which the pods listen. With more than twelve endpoints, each pod has several ports."""
    count = max(PORTS, cell["endpoints"] // len(SERVERS))
    return [cell.get("number", NUMBER)] if cell["target"] == "number" else list(range(FIRST_PORT, FIRST_PORT + count))


def listening(cell: Cell, server: int) -> list[tuple[str, int, str]]:
    """Return the container ports of a server. With at most twelve endpoints, each server has one port number."""
    ports = ports_of(cell)
    own = ports if cell["endpoints"] > len(SERVERS) else [ports[server % len(ports)]]
    return [(f"{protocol[0].lower()}{port}", port, protocol) for port in own for protocol in ("TCP", "UDP")]


def slices(cell: Cell) -> dict[int, list[CellEndpoint]]:
    """Return the endpoints of each slice by port. With partial hints, the last of several slices has no hints."""
    ports, count = ports_of(cell), cell["endpoints"]
    written: dict[int, list[CellEndpoint]] = {}
    for number in range(count):
        server = number % len(SERVERS)
        port = ports[number // len(SERVERS)] if count > len(SERVERS) else ports[number % len(ports)]
        written.setdefault(port, []).append(_hinted(cell, CellEndpoint(server, conditions=_conditions(cell, number))))
    if cell["hints"] == "partial":
        last = max(written)
        bare = len(written[last]) if len(written) > 1 else 1
        written[last][-bare:] = [replace(each, zones=(), nodes=()) for each in written[last][-bare:]]
    return written


def _conditions(cell: Cell, number: int) -> Mapping[str, bool | None]:
    match cell["conditions"]:
        case "unwritten":
            return {"ready": None}
        case "one starts":
            return NOT_READY if number == 0 else {}
        case "one leaves":
            return LEAVING if number == 0 else {}
        case "all start":
            return NOT_READY
        case "all leave":
            return GONE if number % len(SERVERS) == 1 else LEAVING
    return {}


def _hinted(cell: Cell, written: CellEndpoint) -> CellEndpoint:
    node = SERVERS[written.server]
    by_node = cell["distribution"] == "PreferSameNode"
    match cell["hints"]:
        case "zone":
            return replace(written, zones=(node[0],))
        case "node":
            return replace(written, nodes=(node,))
        case "both":
            return replace(written, zones=(node[0],), nodes=(node,))
        case "partial":
            return replace(written, zones=(node[0],), nodes=(node,) if by_node else ())
        case "foreign":  # hints for other nodes and zones, some of which do not exist
            zone, other = ("c", "c1") if node[0] == "a" else ("elsewhere", "elsewhere")
            return replace(written, zones=(zone,), nodes=(other,) if by_node else ())
    return written


def outcome(
    cell: Cell,
    node: str,
    *,
    extra: Sequence[oracle.Endpoint] = (),
    reading: oracle.Reading = "kep",
    node_hints: bool = True,
) -> oracle.Outcome:
    """Return the outcome that the KEPs require for the cell's client on (or via) a node.

    The outcome names pods by their indexes in `SERVERS`. `extra` are additional, temporary endpoints.
    If `node_hints` is False, return the outcome for a proxy that does not support node hints.
    """
    return _outcome(tuple([(name, cell[name]) for name in _JUDGED]), node, tuple(extra), reading, node_hints)


@cache  # `covering` calls this function for thousands of cells
def _outcome(
    values: tuple[tuple[str, Any], ...],
    node: str,
    extra: tuple[oracle.Endpoint, ...],
    reading: oracle.Reading,
    node_hints: bool,
) -> oracle.Outcome:
    cell = dict(values)
    client = oracle.Client(cell["client"], node, node[0])
    policies = oracle.Policies(cell["internal"], cell["external"])
    endpoints = [*_judged(values[: len(OF_SLICES)]), *extra]
    if not node_hints:
        endpoints = [replace(each, nodes=frozenset()) for each in endpoints]
    return oracle.outcome(endpoints, client, to=cell["address"], policies=policies, reading=reading)


def told(cell: Cell, node: str, *, extra: Sequence[oracle.Endpoint] = ()) -> frozenset[str]:
    """Return the pods that may answer, by index in `SERVERS`, or an empty set if the Service must give no answer."""
    found = outcome(cell, node, extra=extra)
    return found.pods if isinstance(found, oracle.AllowedPods) else frozenset()


def judged(cell: Cell) -> tuple[oracle.Endpoint, ...]:
    """Return the endpoints of all slices as the oracle's `Endpoint`s. Pods are named by their indexes in `SERVERS`."""
    return _judged(tuple([(name, cell[name]) for name in OF_SLICES]))


@cache
def _judged(values: tuple[tuple[str, Any], ...]) -> tuple[oracle.Endpoint, ...]:
    return tuple(as_judged(each, SERVERS[each.server]) for written in slices(dict(values)).values() for each in written)


def as_judged(written: CellEndpoint, node: str) -> oracle.Endpoint:
    """Convert an endpoint on this node to the oracle's `Endpoint` type."""
    return oracle.Endpoint(
        str(written.server),
        node,
        frozenset(written.zones),
        frozenset(written.nodes),
        **{"ready": True, **written.conditions},
    )


def follows_hints(cell: Cell) -> bool:
    """Return whether hints determine the outcome for any client."""
    by = {each.by for node in ASKED_FROM if isinstance(each := outcome(cell, node), oracle.AllowedPods)}
    return bool(by & {"zone hints", "node hints"})
