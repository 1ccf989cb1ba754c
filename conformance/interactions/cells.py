"""A cell of the grid as a scenario: a Service, its slices, its clients, and what the oracle expects of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from conformance import oracle
from conformance.interactions.dimensions import Cell

SERVERS = ("a1", "b1", "a2", "b2", "a1", "b1", "a2", "b2", "a1", "b1", "a1", "b1")
"""The nodes of the twelve servers: none is in zone c."""

ASKED_FROM = ("a1", "b2", "c1")
"""The nodes of the clients."""

NUMBER = 8080
FIRST_PORT = 9000
PORTS = 3  # that up to twelve pods differ in

OF_SLICES = ("endpoints", "hints", "conditions", "distribution", "target")
"""The dimensions that slices follow from."""

_JUDGED = (*OF_SLICES, "address", "client", "internal", "external")

NOT_READY = {"ready": False, "serving": False, "terminating": False}
LEAVING = {"ready": False, "serving": True, "terminating": True}
GONE = {"ready": False, "serving": False, "terminating": True}


@dataclass(frozen=True, slots=True)
class Written:
    """An endpoint of a cell: a server, by its index in `SERVERS`, with hints and conditions."""

    server: int
    zones: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    conditions: Mapping[str, bool | None] = field(default_factory=dict)


def name_of(cell: Cell) -> str:
    """Return a cell's name: its values."""
    kept = ", kept" if cell["affinity"] == "ClientIP" else ""
    return (
        f"{cell['client']} at {cell['address']} over {cell['family']} {cell['protocol']}{kept}: {cell['endpoints']} by "
        f"{cell['target']}, {cell['conditions']}, hints {cell['hints']}, {cell['distribution']}, internal "
        f"{cell['internal']}, external {cell['external']}"
    )


def service_fields(cell: Cell) -> dict[str, Any]:
    """Return the arguments of `Cluster.create_service`, but its port."""
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
    """Return the IP families of a cell's Service, its own first."""
    others = ["IPv6" if cell["family"] == "IPv4" else "IPv4"] if cell.get("stack") == "dual" else []
    return [cell["family"], *others]


def target(cell: Cell) -> int | str:
    """Return the target port of a cell's Service."""
    return ports_of(cell)[0] if cell["target"] == "number" else "web"


def ports_of(cell: Cell) -> list[int]:
    """Return the ports that its pods listen on; more than twelve endpoints are twelve pods with many ports."""
    count = max(PORTS, cell["endpoints"] // len(SERVERS))
    return [cell.get("number", NUMBER)] if cell["target"] == "number" else list(range(FIRST_PORT, FIRST_PORT + count))


def listening(cell: Cell, server: int) -> list[tuple[str, int, str]]:
    """Return the container ports of a server; with up to twelve endpoints, each server has one."""
    ports = ports_of(cell)
    own = ports if cell["endpoints"] > len(SERVERS) else [ports[server % len(ports)]]
    return [(f"{protocol[0].lower()}{port}", port, protocol) for port in own for protocol in ("TCP", "UDP")]


def slices(cell: Cell) -> dict[int, list[Written]]:
    """Return the endpoints of each slice, by its port. With partial hints, the last slice or endpoint has none."""
    ports, count = ports_of(cell), cell["endpoints"]
    written: dict[int, list[Written]] = {}
    for number in range(count):
        server = number % len(SERVERS)
        port = ports[number // len(SERVERS)] if count > len(SERVERS) else ports[number % len(ports)]
        written.setdefault(port, []).append(_hinted(cell, Written(server, conditions=_conditions(cell, number))))
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


def _hinted(cell: Cell, written: Written) -> Written:
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
        case "foreign":  # names of other nodes and zones, existing or not
            zone, other = ("c", "c1") if node[0] == "a" else ("elsewhere", "elsewhere")
            return replace(written, zones=(zone,), nodes=(other,) if by_node else ())
    return written


def outcome(
    cell: Cell,
    node: str,
    *,
    beside: Sequence[oracle.Endpoint] = (),
    reading: oracle.Reading = "kep",
    node_hints: bool = True,
) -> oracle.Outcome:
    """Return what the documents expect of the cell's client on (or via) a node; pods are places in `SERVERS`.

    `beside` are endpoints that it has for a while. Without `node_hints` it is what a proxy does that knows none.
    """
    return _outcome(tuple([(name, cell[name]) for name in _JUDGED]), node, tuple(beside), reading, node_hints)


@cache  # the covering repeats this for thousands of cells
def _outcome(
    values: tuple[tuple[str, Any], ...],
    node: str,
    beside: tuple[oracle.Endpoint, ...],
    reading: oracle.Reading,
    node_hints: bool,
) -> oracle.Outcome:
    cell = dict(values)
    client = oracle.Client(cell["client"], node, node[0])
    policies = oracle.Policies(cell["internal"], cell["external"])
    endpoints = [*_judged(values[: len(OF_SLICES)]), *beside]
    if not node_hints:
        endpoints = [replace(each, nodes=frozenset()) for each in endpoints]
    return oracle.outcome(endpoints, client, to=cell["address"], policies=policies, reading=reading)


def told(cell: Cell, node: str, *, beside: Sequence[oracle.Endpoint] = ()) -> frozenset[str]:
    """Return the endpoints that may answer, by the same names; none if the Service must be silent."""
    found = outcome(cell, node, beside=beside)
    return found.pods if isinstance(found, oracle.Answers) else frozenset()


def judged(cell: Cell) -> tuple[oracle.Endpoint, ...]:
    """Return the oracle's endpoints over all slices; pods are indexes in `SERVERS`."""
    return _judged(tuple([(name, cell[name]) for name in OF_SLICES]))


@cache
def _judged(values: tuple[tuple[str, Any], ...]) -> tuple[oracle.Endpoint, ...]:
    return tuple(as_judged(each, SERVERS[each.server]) for written in slices(dict(values)).values() for each in written)


def as_judged(written: Written, node: str) -> oracle.Endpoint:
    """Return the oracle's endpoint on this node."""
    return oracle.Endpoint(
        str(written.server),
        node,
        frozenset(written.zones),
        frozenset(written.nodes),
        **{"ready": True, **written.conditions},
    )


def follows_hints(cell: Cell) -> bool:
    """Return whether hints decide for some client."""
    by = {each.by for node in ASKED_FROM if isinstance(each := outcome(cell, node), oracle.Answers)}
    return bool(by & {"zone hints", "node hints"})
