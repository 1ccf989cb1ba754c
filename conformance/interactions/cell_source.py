"""Generate a Python scenario from a cell of the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance import oracle
from conformance.interactions import cells, scenario_source
from conformance.interactions.cells import ASKED_FROM, SERVERS, CellEndpoint
from conformance.interactions.dimensions import Cell
from trafficdist import Port


def as_text(cell: Cell, name: str = "cell") -> str:
    """Return the source of a scenario with this name for one cell. It needs only imports from `trafficdist`."""
    servers = ", ".join(
        f"*three_zones.run_servers([{node!r}]{_listening(cell, number)})"
        for number, node in enumerate(SERVERS[: cell["endpoints"]])
    )
    ports = [f"Port(79, {cell['protocol']!r}, 'first')", scenario_source.port(cell["protocol"], cells.target(cell))]
    told = {node: [f"servers[{pod}]" for pod in sorted(cells.told(cell, node), key=int)] for node in ASKED_FROM}
    lines = [
        f"servers = [{servers}]",
        "service = "
        + scenario_source.call(
            "three_zones.create_service", f"ports=[{', '.join(ports)}]", **cells.service_fields(cell)
        ),
        *(_published(cell, numbers, written) for numbers, written in _alike(cells.slices(cell))),
        *([] if any(told.values()) else _proof_of_answers(cell)),
        *scenario_source.expectation("service", cell["client"], told, **_asked(cell)),
    ]
    return scenario_source.test(name, lines)


def _proof_of_answers(cell: Cell) -> list[str]:
    extra = [oracle.Endpoint(f"speakers[{number}]", node) for number, node in enumerate(ASKED_FROM)]
    told = {node: sorted(cells.told(cell, node, extra=extra)) for node in ASKED_FROM}
    return scenario_source.proof_of_answers("service", cell["client"], cell["protocol"], told, **_asked(cell))


def _asked(cell: Cell) -> dict[str, Any]:
    kept = cell["affinity"] == "ClientIP"
    return {"kept": kept, "to": cell["address"], "port": Port(80, cell["protocol"], "web")}


def _listening(cell: Cell, server: int) -> str:
    return f", container_ports={cells.listening(cell, server)!r}" if cell["target"] == "name" else ""


def _alike(written: Mapping[int, Sequence[CellEndpoint]]) -> list[tuple[list[int], Sequence[CellEndpoint]]]:
    """Group ports whose slices have equal endpoints."""
    groups: list[tuple[list[int], Sequence[CellEndpoint]]] = []
    for port, endpoints in written.items():
        same = next((ports for ports, others in groups if others == endpoints), None)
        if same is None:
            groups.append(([port], endpoints))
        else:
            same.append(port)
    return groups


def _published(cell: Cell, ports: Sequence[int], written: Sequence[CellEndpoint]) -> str:
    endpoints = ", ".join(scenario_source.endpoint(f"servers[{each.server}]", each) for each in written)
    port = f"Port(80, {cell['protocol']!r}, 'web', port)"
    return f"for port in {list(ports)!r}: three_zones.publish(service, [{endpoints}], name=str(port), ports=[{port}])"
