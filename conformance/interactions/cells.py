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

NOT_READY = {"ready": False, "serving": False, "terminating": False}
LEAVING = {"ready": False, "serving": True, "terminating": True}
GONE = {"ready": False, "serving": False, "terminating": True}


@dataclass(frozen=True, slots=True)
class Written:
    """An endpoint of a cell: a server, by its place in `SERVERS`, with hints and conditions."""

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
        "ipFamilies": [cell["family"]],
        "sessionAffinity": cell["affinity"],
    }
    return {name: value for name, value in fields.items() if value is not None}


def ports_of(cell: Cell) -> list[int]:
    """Return the ports that its pods listen on; more than twelve endpoints are twelve pods with many ports."""
    count = max(PORTS, cell["endpoints"] // len(SERVERS))
    return [NUMBER] if cell["target"] == "number" else list(range(FIRST_PORT, FIRST_PORT + count))


def listening(cell: Cell, server: int) -> list[tuple[str, int, str]]:
    """Return the container ports of a server: of up to twelve, each has one alone."""
    ports = ports_of(cell)
    own = ports if cell["endpoints"] > len(SERVERS) else [ports[server % len(ports)]]
    return [(f"{protocol[0].lower()}{port}", port, protocol) for port in own for protocol in ("TCP", "UDP")]


def slices(cell: Cell) -> dict[int, list[Written]]:
    """Return the endpoints of each slice, by its port. The last slice, or endpoint, is without a partial hint."""
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
        case "foreign":  # of places that are not its own, which there are or are not
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
    client = oracle.Client(cell["client"], node, node[0])
    policies = oracle.Policies(cell["internal"], cell["external"])
    endpoints = [*_judged(frozenset(cell.items())), *beside]
    if not node_hints:
        endpoints = [replace(each, nodes=frozenset()) for each in endpoints]
    return oracle.outcome(endpoints, client, to=cell["address"], policies=policies, reading=reading)


def told(cell: Cell, node: str, *, beside: Sequence[oracle.Endpoint] = ()) -> frozenset[str]:
    """Return who may answer, by the same names; nobody if it is to be silent."""
    found = outcome(cell, node, beside=beside)
    return found.pods if isinstance(found, oracle.Answers) else frozenset()


@cache
def _judged(values: frozenset[tuple[str, Any]]) -> tuple[oracle.Endpoint, ...]:
    return tuple(
        oracle.Endpoint(
            str(each.server),
            SERVERS[each.server],
            frozenset(each.zones),
            frozenset(each.nodes),
            **{"ready": True, **each.conditions},
        )
        for written in slices(dict(values)).values()
        for each in written
    )


def follows_hints(cell: Cell) -> bool:
    """Return whether hints decide for some client."""
    by = {each.by for node in ASKED_FROM if isinstance(each := outcome(cell, node), oracle.Answers)}
    return bool(by & {"zone hints", "node hints"})


def as_text(cell: Cell) -> str:
    """Return the cell as a scenario of its own, in Python; it imports all of it from `harness`."""
    servers = ", ".join(
        f"*three_zones.run_servers([{node!r}]{_listening(cell, i)})"
        for i, node in enumerate(SERVERS[: cell["endpoints"]])
    )
    target = NUMBER if cell["target"] == "number" else "web"
    fields = "".join(f", {name}={value!r}" for name, value in service_fields(cell).items())
    rows = ", ".join(f"{cell['client']}_client({node!r}): {_row(told(cell, node))}" for node in ASKED_FROM)
    lines = [
        f"servers = [{servers}]",
        f"service = three_zones.create_service(ports=[Port(80, {cell['protocol']!r}, 'web', {target!r})]{fields})",
        *(_published(cell, numbers, written) for numbers, written in _alike(slices(cell))),
        f"expect_traffic(three_zones, service, {{{rows}}}, to={cell['address']!r})",
    ]
    return "\n".join(["def test_cell(three_zones):", *(f"    {line}" for line in lines)]) + "\n"


def _listening(cell: Cell, server: int) -> str:
    return f", container_ports={listening(cell, server)!r}" if cell["target"] == "name" else ""


def _row(who: frozenset[str]) -> str:
    return "{" + ", ".join(f"servers[{number}]" for number in sorted(who, key=int)) + "}" if who else "NO_ANSWER"


def _alike(written: Mapping[int, Sequence[Written]]) -> list[tuple[list[int], Sequence[Written]]]:
    """Group ports whose slices have equal endpoints."""
    groups: list[tuple[list[int], Sequence[Written]]] = []
    for port, endpoints in written.items():
        same = next((ports for ports, others in groups if others == endpoints), None)
        if same is None:
            groups.append(([port], endpoints))
        else:
            same.append(port)
    return groups


def _published(cell: Cell, ports: Sequence[int], written: Sequence[Written]) -> str:
    endpoints = ", ".join(_endpoint(each) for each in written)
    port = f"Port(80, {cell['protocol']!r}, 'web', port)"
    return f"for port in {list(ports)!r}: three_zones.publish(service, [{endpoints}], name=str(port), ports=[{port}])"


def _endpoint(written: Written) -> str:
    hints = {"zones": list(written.zones), "nodes": list(written.nodes)}
    fields = {**{name: value for name, value in hints.items() if value}, **written.conditions}
    return f"endpoint(servers[{written.server}]{''.join(f', {name}={value!r}' for name, value in fields.items())})"
