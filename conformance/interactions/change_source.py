"""Generate a Python scenario from a live change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conformance.interactions import cells, change_steps, changes, scenario_source
from conformance.interactions.change_steps import Patch, Publish, SetAddresses, Step, Unpublish
from conformance.interactions.changes import Change, ServiceAddress
from conformance.interactions.dimensions import Cell


def as_text(change: Change, name: str = "change") -> str:
    """Return the source of a scenario for one change, which imports only from `trafficdist` and `dataclasses`."""
    before, after = change.cells
    text = _TestSource(change)
    port = scenario_source.port(before["protocol"], cells.target(before))
    created = scenario_source.call("three_zones.create_service", f"ports=[{port}]", **change_steps.created(before))
    lines = [
        *text.servers(),
        f"service = {created}",
        *text.written(change_steps.first(before), before),
        *text.expected(before),
        *text.written(change_steps.between(before, after), after),
        *text.expected(after),
        *text.written(change_steps.between(after, before), before),
        *text.expected(before),
    ]
    return scenario_source.test(name, lines)


class _TestSource:
    def __init__(self, change: Change) -> None:
        self._change = change
        self._asked: dict[
            ServiceAddress, str
        ] = {}  # address -> name of the variable with the last state of the Service that had the address
        self._spoken = False

    def servers(self) -> Iterator[str]:
        """For each kind of server, yield a line of Python source that runs the servers."""
        for kind in dict.fromkeys(map(changes.servers_of, self._change.cells)):
            ports = changes.container_ports([self._change], kind)
            count = max(each["endpoints"] for each in self._change.cells)
            every = [*zip(cells.SERVERS, ports, strict=True)][:count]
            fields = [(node, {"container_ports": each} if each else {}) for node, each in every]
            runs = (
                "*" + scenario_source.call("three_zones.run_servers", repr([node]), **each) for node, each in fields
            )
            yield f"{kind} = [{', '.join(runs)}]"

    def written(self, chosen: Iterable[Step], cell: Cell) -> Iterator[str]:
        """Yield a line of Python source for each step."""
        for step in chosen:
            match step:
                case Patch(spec):
                    yield f"three_zones.patch_service(service, { ({'spec': spec})!r})"
                case SetAddresses(kinds):
                    yield f"set_addresses(three_zones, service, {list(kinds)!r})"
                case Publish(name, family, port, endpoints):
                    names = (f"{changes.servers_of(cell)}[{each.server}]" for each in endpoints)
                    every = map(scenario_source.endpoint, names, endpoints)
                    yield scenario_source.call(
                        "three_zones.publish",
                        "service",
                        f"[{', '.join(every)}]",
                        f"ports=[{scenario_source.port(port.protocol, port.target)}]",
                        name=name,
                        families=[family],
                    )
                case Unpublish(name, family):
                    yield f"three_zones.unpublish(service, {name!r}, families={[family]!r})"

    def expected(self, cell: Cell) -> Iterator[str]:
        """Yield lines of source for the expected answers at each current or former address of the Service."""
        for number, front in enumerate(self._change.fronts):
            if changes.given(cell, front):
                self._asked[front] = f"at_{number}"
                yield f"at_{number} = replace(service)"
        asked = sorted(self._asked, key=lambda front: not any(changes.answers(self._change, cell, front).values()))
        for front in asked:
            told = changes.answers(self._change, cell, front)
            self._spoken |= any(told.values())
            names = {node: [_place(each) for each in sorted(pods)] for node, pods in told.items()}
            if self._spoken:
                port = scenario_source.port(front.protocol, "web")
                yield from (
                    f"{line[:-1]}, port={port})"
                    for line in scenario_source.expectation(
                        self._asked[front],
                        cell["client"],
                        names,
                        kept=changes.keeps(cell, front),
                        to=front.address,
                        family=front.family,
                    )
                )


def _place(server: str) -> str:
    kind, number = server.rsplit("-", 1)
    return f"{kind}[{number}]"
