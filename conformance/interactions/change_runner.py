"""Run live changes: all Services of a requirement change at the same time, while traffic flows, and change back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from conformance.features import LOSSLESS_CHANGES
from conformance.interactions import cells, change_covering, change_steps, changes
from conformance.interactions.change_source import as_text
from conformance.interactions.change_steps import Patch, Publish, SetAddresses, Step, Unpublish
from conformance.interactions.changes import Change, ServiceAddress
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
    expect_concurrent_first_answers,
    expect_concurrent_traffic,
    expect_traffic_during,
    set_addresses,
)

Servers = Mapping[str, Pod]
"""The server pods by name. `changes.name_in` defines the names."""


# A proxy that misses a change routes most connections of at least one client incorrectly.
RATES = Rates(leak=0.5)


def expect_changes(cluster: Cluster, group: str, *, hints: bool) -> None:
    """Check every change of a group. Raises `AssertionError`, whose message has a scenario for each failing change."""
    chosen = [each for each in change_covering.of_all() if change_covering.group_of(each) == (group, hints)]
    play(cluster, chosen)


def play(cluster: Cluster, chosen: Collection[Change]) -> None:
    """Check these changes concurrently. Raises `AssertionError`."""
    servers = _run(cluster, chosen)
    living = [_ServiceUnderChange(cluster, each, servers) for each in chosen]
    expect_concurrent_first_answers(cluster, [question for each in living for question in each.questions()])
    for _ in ("there", "back"):
        during = [question for each in living for question in each.during()]
        with expect_traffic_during(
            cluster,
            [question for question, lossless in during if not lossless],
            answered=[question for question, lossless in during if lossless],
        ):
            # Change Services that gain addresses first, so they cannot receive addresses that other Services release.
            for each in sorted(living, key=_ServiceUnderChange.gives_back):
                each.switch()
            _expect(cluster, living)


def write(
    cluster: Cluster, service: Service, chosen: Iterable[Step], pods: Callable[[int], Pod], *, unasked: bool = False
) -> None:
    """Apply these steps to a Service. `pods` maps a server number to its pod. `Cluster.publish` explains `unasked`."""
    for step in chosen:
        match step:
            case Patch(spec):
                cluster.patch_service(service, {"spec": spec})
            case SetAddresses(kinds):
                set_addresses(cluster, service, kinds)
            case Publish(name, family, port, written):
                endpoints = [
                    endpoint(pods(each.server), zones=each.zones, nodes=each.nodes, **each.conditions)
                    for each in written
                ]
                cluster.publish(service, endpoints, name=name, families=[family], ports=[port], unasked=unasked)
            case Unpublish(name, family):
                cluster.unpublish(service, name, families=[family])


def _expect(cluster: Cluster, living: Iterable[_ServiceUnderChange]) -> None:
    asked = [(question, each.change) for each in living for question in each.questions()]
    of = {question.name: change for question, change in asked}
    questions = [question for question, _ in asked]
    expect_concurrent_traffic(cluster, questions, rates=RATES, explain=lambda name: _explained(of[name]), timed=False)


def _explained(change: Change) -> str:
    return f"{change_covering.name_of(change)} is {change.text}. Alone:\n\n{as_text(change)}"


def _run(cluster: Cluster, chosen: Collection[Change]) -> dict[str, Pod]:
    servers = {}
    for kind in dict.fromkeys(changes.servers_of(cell) for change in chosen for cell in change.cells):
        for number, ports in enumerate(changes.container_ports(chosen, kind)):
            (servers[f"{kind}-{number}"],) = cluster.run_servers([cells.SERVERS[number]], container_ports=ports)
    return servers


class _ServiceUnderChange:
    def __init__(self, cluster: Cluster, change: Change, servers: Servers) -> None:
        self.change = change
        self._cluster = cluster
        self._lossless = cluster.claims(LOSSLESS_CHANGES)
        self._servers = servers
        self._now, self._next = change.cells
        self._asked: dict[
            ServiceAddress, Service
        ] = {}  # for each address, the last state of the Service that had the address
        self._name = change_covering.name_of(change)
        port = Port(change_steps.PORT, self._now["protocol"], change_steps.NAME, cells.target(self._now))
        self._service = cluster.create_service(self._name, ports=[port], **change_steps.created(self._now))
        self._write(change_steps.first(self._now))

    def gives_back(self) -> int:
        """Return the number of addresses that the Service loses in its next change, negative if it gains addresses."""
        had, has = (sum(changes.given(cell, front) for front in self.change.fronts) for cell in (self._now, self._next))
        return had - has

    def switch(self) -> None:
        self._now, self._next = self._next, self._now
        self._write(change_steps.between(self._next, self._now))

    def _write(self, chosen: Iterable[Step]) -> None:
        write(self._cluster, self._service, chosen, self._pod)

    def _pod(self, number: int) -> Pod:
        return self._servers[changes.name_in(self._now, str(number))]

    def questions(self) -> Iterator[ExpectedTraffic]:
        """Yield the expected answers at each current or former address of the Service."""
        for front in self.change.fronts:
            if changes.given(self._now, front):
                self._asked[front] = replace(self._service)
        for front in self._asked:
            answers = changes.answers(self.change, self._now, front)
            # A missing answer proves nothing if the Service has never answered.
            if any(answers.values()) or self._service.name in self._cluster.record.answered:
                expected: dict[ClientRef, Expected] = {
                    self._client(node): {self._servers[each] for each in names} or NO_ANSWER
                    for node, names in answers.items()
                }
                yield self._question(front, expected, kept=changes.keeps(self._now, front))

    def during(self) -> Iterator[tuple[ExpectedTraffic, bool]]:
        """Yield the endpoints that may answer at each address in the next change, and whether an answer is required."""
        for front in self._asked:
            for lossless in (False, True):
                nodes = [
                    node
                    for node in self.change.asked_from
                    if (self._lossless and changes.may_not_lose(self.change, front, node)) is lossless
                ]
                expected: dict[ClientRef, Expected] = {
                    self._client(node): {self._servers[each] for each in changes.meanwhile(self.change, front, node)}
                    for node in nodes
                }
                if expected:
                    yield self._question(front, expected), lossless

    def _question(
        self, front: ServiceAddress, expected: Mapping[ClientRef, Expected], *, kept: bool = False
    ) -> ExpectedTraffic:
        name, port = f"{self._name} at {front}", Port(change_steps.PORT, front.protocol, change_steps.NAME)
        return ExpectedTraffic(name, self._asked[front], expected, front.address, kept, front.family, port)

    def _client(self, node: str) -> Client:
        return Client(self._now["client"], node)
