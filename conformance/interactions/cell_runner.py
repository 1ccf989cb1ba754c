"""Run cells of the grid. All Services of a requirement exist at the same time and share twelve servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance import oracle
from conformance.interactions import cells, covering
from conformance.interactions.cell_source import as_text
from conformance.interactions.dimensions import Cell
from trafficdist import (
    NO_ANSWER,
    Client,
    ClientRef,
    Cluster,
    Expected,
    ExpectedTraffic,
    Pod,
    Port,
    Rates,
    Service,
    endpoint,
    expect_concurrent_traffic,
    manifests,
)

MANY = 120

# A proxy handles a cell either correctly or completely wrongly, so the probes need to detect only large faults.
RATES = Rates(leak=0.25)


def group_of(cell: Cell) -> tuple[str, bool]:
    """Return a cell's group: a name for the extended features that it needs, and whether hints determine an outcome."""
    if cell["endpoints"] >= MANY:
        name = "many endpoints"
    elif cell["affinity"] == "ClientIP":
        name = "affinity"
    else:
        name = cell["address"] if cell["family"] == "IPv4" else "IPv6"
    return name, cells.follows_hints(cell)


def expect_cells(cluster: Cluster, group: str, *, hints: bool) -> None:
    """Check every cell of a group. Raises `AssertionError`, whose message has a scenario for each failing cell."""
    chosen = {cells.name_of(each): each for each in covering.cells() if group_of(each) == (group, hints)}
    servers = _run(cluster, list(chosen.values()))
    for cell in chosen.values():  # create slices before Services: a proxy then reads many slices at once
        _write_slices(cluster, cell, servers)
    services = {name: _create(cluster, cell) for name, cell in chosen.items()}
    _let_speak(cluster, services, chosen)
    questions = [_question(name, services[name], each, _expected(each, servers)) for name, each in chosen.items()]
    expect_concurrent_traffic(
        cluster, questions, rates=RATES, explain=lambda name: f"Alone:\n\n{as_text(chosen[name])}", timed=False
    )


def _run(cluster: Cluster, chosen: Sequence[Cell]) -> list[Pod]:
    named = [cell for cell in chosen if cell["target"] == "name"]
    servers = []
    for number, node in enumerate(cells.SERVERS):
        ports = {port for cell in named for port in cells.listening(cell, number)}
        servers += cluster.run_servers([node], container_ports=sorted(ports))
    return servers


def _is_silent(cell: Cell) -> bool:
    return not any(cells.told(cell, node) for node in cells.ASKED_FROM)


def _service_name(cell: Cell) -> str:
    return f"cell-{covering.cells().index(cell)}"


def _create(cluster: Cluster, cell: Cell) -> Service:
    """Create the Service of a cell. Clients use the second port, to detect proxies that handle only the first port."""
    ports = [Port(79, cell["protocol"], "first"), _port(cell, cells.target(cell))]
    return cluster.create_service(_service_name(cell), ports=ports, **cells.service_fields(cell))


def _port(cell: Cell, target: int | str) -> Port:
    return Port(80, cell["protocol"], "web", target)


def _let_speak(cluster: Cluster, services: Mapping[str, Service], chosen: Mapping[str, Cell]) -> None:
    """Publish temporary servers, to prove that each Service that must not answer later in the test can answer."""
    silent = {name: cell for name, cell in chosen.items() if _is_silent(cell)}
    if not silent:
        return
    speakers = cluster.run_servers(cells.ASKED_FROM)
    here = [oracle.Endpoint(each.name, each.node) for each in speakers]
    questions = []
    for name, cell in silent.items():
        ports = [_port(cell, cells.NUMBER)]
        cluster.publish(services[name], [endpoint(each) for each in speakers], name="speech", ports=ports)
        told = {node: cells.told(cell, node, extra=here) for node in cells.ASKED_FROM}
        expected = {node: {each for each in speakers if each.name in pods} for node, pods in told.items()}
        questions.append(_question(name, services[name], cell, expected))
    expect_concurrent_traffic(cluster, questions, rates=RATES, timed=False)
    for name in silent:
        cluster.unpublish(services[name], "speech")


def _write_slices(cluster: Cluster, cell: Cell, servers: Sequence[Pod]) -> None:
    for number, written in cells.slices(cell).items():
        endpoints = [
            endpoint(servers[each.server], zones=each.zones, nodes=each.nodes, **each.conditions) for each in written
        ]
        name, ports = _service_name(cell), [_port(cell, number)]
        wanted = manifests.endpoint_slice(f"{name}-{number}", name, endpoints, family=cell["family"], ports=ports)
        if cell["endpoints"] < MANY:
            cluster.publish_slice(wanted)
        else:  # a hundred slices, which `publish_slice` would split into a thousand
            cluster.api.create("endpointslices", cluster.namespace, wanted)


def _expected(cell: Cell, servers: Sequence[Pod]) -> dict[str, Expected]:
    told = {node: cells.told(cell, node) for node in cells.ASKED_FROM}
    return {node: {servers[int(pod)] for pod in who} if who else NO_ANSWER for node, who in told.items()}


def _question(name: str, service: Service, cell: Cell, expected: Mapping[str, Expected]) -> ExpectedTraffic:
    by_client: dict[ClientRef, Expected] = {Client(cell["client"], node): each for node, each in expected.items()}
    kept = cell["affinity"] == "ClientIP"
    return ExpectedTraffic(name, service, by_client, to=cell["address"], kept=kept, port=service.ports[1])
