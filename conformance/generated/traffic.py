"""Run a batch of scenarios concurrently with real packets, state by state. Their Services share servers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from conformance import oracle
from conformance.features import LOSSLESS_CHANGES
from conformance.generated.lifecycles import (
    FIRST_PORT,
    OF,
    PORTS,
    SERVERS,
    Lifecycle,
    Slice,
    State,
    is_given,
    may_not_lose,
    meanwhile,
    of_family,
    told,
)
from conformance.interactions import change_runner
from conformance.interactions.change_steps import Patch, Publish, SetAddresses, Step, service_steps, slice_steps
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
    expect_concurrent_traffic,
    expect_traffic_during,
)

Lifecycles = Mapping[str, Lifecycle]
"""Maps the name of a Service to its lifecycle."""

# An error affects most connections of at least one client, so the probes need to detect only large faults.
RATES = Rates(leak=0.5)

_NUMBERS = {"": 80, OF[1]: 81}
_NAMES = {80: "web", 81: "api"}


def run_servers(cluster: Cluster) -> list[Pod]:
    """Run the servers. Each server listens on one port number."""
    return [
        pod
        for number, node in enumerate(SERVERS)
        for pod in cluster.run_servers([node], container_ports=_container_ports(number))
    ]


def _container_ports(server: int) -> list[tuple[str, int, str]]:
    number = FIRST_PORT + server % PORTS
    return [(f"{protocol[0].lower()}{number}", number, protocol) for protocol in ("TCP", "UDP")]


def play(
    cluster: Cluster, servers: Sequence[Pod], lifecycles: Lifecycles, explain: Callable[[str], str] = lambda _: ""
) -> None:
    """Check these scenarios concurrently. `explain` returns text about a failing scenario, given its name.

    Raises `AssertionError`.
    """
    playing = [_ScenarioService(cluster, name, each, servers) for name, each in lifecycles.items()]
    of = {each.question: each.name for each in playing}
    count = max((len(each.states) for each in lifecycles.values()), default=0)
    for number in range(count):
        during = [question for each in playing for question in each.during(number)]
        with expect_traffic_during(
            cluster,
            [question for question, lossless in during if not lossless],
            answered=[question for question, lossless in during if lossless],
            explain=lambda question: explain(of[question]),
        ):
            _label(cluster, lifecycles, number)
            # Change Services that gain addresses first, so they cannot receive addresses that other Services release.
            for each in sorted(playing, key=lambda each: each.gives_back(number)):
                each.enter(number)
            asked = [question for each in playing for question in each.questions(number)]
            expect_concurrent_traffic(
                cluster, asked, rates=RATES, explain=lambda question: explain(of[question]), timed=False
            )


def _label(cluster: Cluster, lifecycles: Lifecycles, number: int) -> None:
    """Set the zone labels of the nodes for this state. All scenarios of a batch have the same labels."""
    states = [each.states[number] for each in lifecycles.values() if number < len(each.states)]
    before = dict(
        next((each.states[number - 1].zones for each in lifecycles.values() if 0 < number < len(each.states)), ())
    )
    after = dict(states[0].zones)
    for node in sorted(before.keys() | after.keys()):
        if before.get(node) != after.get(node):
            cluster.nodes.move(node, after.get(node, node[0]) or None)


class _ScenarioService:
    def __init__(self, cluster: Cluster, name: str, lifecycle: Lifecycle, servers: Sequence[Pod]) -> None:
        self.name = name
        self.question = f"{name} at its {lifecycle.address}"
        self._cluster = cluster
        self._lossless = cluster.claims(LOSSLESS_CHANGES)
        self._lifecycle = lifecycle
        self._servers = servers
        self._service: Service | None = None
        self._asked: Service | None = None  # copy of the Service from its last state that had the address

    def _states(self, number: int) -> tuple[State | None, State | None]:
        """Return the states before and after this change, or None where no such state exists."""
        states = self._lifecycle.states
        before = states[number - 1] if 0 < number <= len(states) else None
        return before, states[number] if number < len(states) else None

    def gives_back(self, number: int) -> int:
        """Return the number of addresses that the Service loses in a change, negative if it gains addresses."""
        before, after = self._states(number)
        return _addresses(before) - _addresses(after) if after else 0

    def enter(self, number: int) -> None:
        """Bring the Service to this state, by writing the differences from the previous state to the API."""
        before, after = self._states(number)
        if after is None:
            return
        if after.exists and (before is None or not before.exists):
            self._create(after)
        elif before is not None and after.exists:
            self._change(before, after)
        elif self._service is not None and before is not None and before.exists:
            self._cluster.delete_service(self._service)
        self._write(slice_steps(self._slices(before), self._slices(after)))
        if is_given(self._lifecycle, after) and self._service is not None:
            self._asked = replace(self._service)

    def _ports(self) -> list[Port]:
        return [Port(number, self._lifecycle.protocol, name, name) for number, name in _NAMES.items()]

    def _create(self, state: State) -> None:
        pends = state.type == "LoadBalancer" and not state.ingress
        self._service = self._cluster.create_service(
            self.name,
            ports=self._ports(),
            external_ips=state.external_ips,
            dual_stack=state.dual,
            type="NodePort" if pends else state.type,  # a new LoadBalancer would get addresses at once
            traffic_distribution=state.distribution,
            internal_traffic_policy=state.internal,
            external_traffic_policy=state.external if state.type != "ClusterIP" else None,
            sessionAffinity=state.affinity,
            ipFamilies=self._families(state),
        )
        if pends:
            self._write([Patch({"type": "LoadBalancer", "trafficDistribution": state.distribution})])

    def _families(self, state: State) -> list[str]:
        return [self._lifecycle.family, *([of_family(self._lifecycle)] if state.dual else [])]

    def _change(self, before: State, after: State) -> None:
        self._write(service_steps(self._spec(before), self._spec(after)))
        if _outward(before) != _outward(after):
            self._write([SetAddresses(_outward(after))])

    def _spec(self, state: State) -> dict[str, Any]:
        return {
            "type": state.type,
            "trafficDistribution": state.distribution,
            "internalTrafficPolicy": state.internal,
            "externalTrafficPolicy": state.external if state.type != "ClusterIP" else None,
            "sessionAffinity": state.affinity,
            "ipFamilies": self._families(state),
            "ipFamilyPolicy": "RequireDualStack" if state.dual else "SingleStack",
        }

    def _slices(self, state: State | None) -> Iterator[Publish]:
        for each in state.slices if state is not None else ():
            number = _NUMBERS.get(each.of, 80)
            port = Port(number, self._lifecycle.protocol, _NAMES[number], each.number)
            endpoints = [member.written for member in each.members]
            yield Publish(f"{each.name}-{OF.index(each.of)}", self._family(each), port, endpoints)

    def _write(self, chosen: Iterable[Step]) -> None:
        assert self._service is not None
        change_runner.write(self._cluster, self._service, chosen, self._servers.__getitem__, unasked=True)

    def _family(self, each: Slice) -> str:
        return of_family(self._lifecycle) if each.of == OF[2] else self._lifecycle.family

    def questions(self, number: int) -> Iterator[ExpectedTraffic]:
        """Yield the expected answers in a state, or nothing for a lost address, which another Service may have now."""
        before, after = self._states(number)
        if after is None or self._asked is None:
            return
        given = is_given(self._lifecycle, after)
        if given or (before is not None and is_given(self._lifecycle, before)):
            expected: dict[ClientRef, Expected] = {
                self._client(node): {self._servers[each] for each in told(self._lifecycle, after, node)} or NO_ANSWER
                for node in self._lifecycle.nodes
            }
            yield self._ask(expected, kept=given and after.affinity == "ClientIP")

    def during(self, number: int) -> Iterator[tuple[ExpectedTraffic, bool]]:
        """Yield the servers that may answer during a change, and whether an answer is required."""
        before, after = self._states(number)
        if before is None or after is None or not is_given(self._lifecycle, before):
            return
        for lossless in (False, True):
            expected: dict[ClientRef, Expected] = {
                self._client(node): {self._servers[each] for each in meanwhile(self._lifecycle, before, after, node)}
                for node in self._lifecycle.nodes
                if (self._lossless and may_not_lose(self._lifecycle, before, after, node)) is lossless
            }
            if expected:
                yield self._ask(expected), lossless

    def _ask(self, expected: Mapping[ClientRef, Expected], *, kept: bool = False) -> ExpectedTraffic:
        assert self._asked is not None
        port = Port(80, self._lifecycle.protocol, _NAMES[80])
        return ExpectedTraffic(
            self.question, self._asked, expected, self._lifecycle.address, kept, self._lifecycle.family, port
        )

    def _client(self, node: str) -> Client:
        return Client(self._lifecycle.client, node)


def _outward(state: State) -> tuple[oracle.AddressKind, ...]:
    """Return the kinds of addresses that the Service has and that the cluster does not allocate."""
    has: dict[oracle.AddressKind, bool] = {
        "load-balancer": state.type == "LoadBalancer" and state.ingress,
        "external-ip": state.external_ips,
    }
    return tuple(kind for kind, given in has.items() if given)


def _addresses(state: State | None) -> int:
    if state is None or not state.exists:
        return 0
    return 1 + state.dual + (state.type != "ClusterIP") + len(_outward(state))
