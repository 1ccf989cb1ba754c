"""Proxies that fail in one edge case when they read, remember or program, while each single decision is correct."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar

from mutants.client_wrappers import ProxyOfAllNodes
from mutants.data_planes import FlushesConntrack
from mutants.load_balancing import KeepsDuplicateSlots
from mutants.mutant import NO_ANSWER, REACHED, REFUSED, Mutant
from mutants.wrong_decisions import DecisionInput, Wrong, deciding, in_each, without_hints
from mutants.wrong_plans import with_spec
from mutants.wrong_tables import keeping_flows
from reference.client import Object
from reference.objects.endpoints import is_ready
from reference.proxy import ServiceProxy
from reference.proxy.changes import Changes, HairpinElement
from reference.proxy.decision import Action, Decision, Endpoint, Family, Forward, Reject, ServicePort
from reference.proxy.nftables import KernelTable
from reference.proxy.objects import ZONE_LABEL
from reference.proxy.ruleset import NOTHING, PortEntries, render
from reference.proxy.state import State

FIRST_NODE_PORT = 30_000
SERVICE_NETWORKS = ("10.96.", "fd00:10:96:", "fd00:96:")  # of the embedded cluster, and of tests
POD_NETWORKS = ("10.244.", "fd00:10:244:")  # of the embedded cluster

MUTANTS: list[Mutant] = []


def _register(
    name: str,
    sentence: str,
    provenance: str = "",
    *,
    symptom: str = REACHED,
    proxy: Callable[..., ServiceProxy] = ServiceProxy,
    **parts: Any,
) -> None:
    MUTANTS.append(Mutant(name, sentence, provenance, symptom, proxy=partial(proxy, **parts)))


# Endpoints that are misread although all data of the Service is available

Read = Callable[[list[Endpoint], list[Endpoint]], list[Endpoint]]


class _ReplacesEndpoints(State):
    """Makes decisions with modified endpoints, computed from the slices of a service port and of the first port."""

    def __init__(self, *arguments: Any, read: Read) -> None:
        super().__init__(*arguments)
        self._read = read

    def _decision(self, service: Any, port: ServicePort, family: Family) -> Decision:
        place, labels = self._node.place, None
        if port.topology_keys and self._behaviour.topology_keys:
            place, labels = replace(place, labels=self._own_labels), self._labels.of_endpoint
        read = (list(_entries(service, each, family, labels)) for each in (port, service.ports[family][0]))
        return self._decide(port, self._read(*read), place, self._behaviour)


def _entries(service: Any, port: ServicePort, family: Family, labels: Any = None) -> Iterator[Endpoint]:
    slices = [each for each in service.slices.values() if each.family == family]
    return chain.from_iterable(each.endpoints((port.port_name, port.protocol), labels) for each in slices)


def _misread(name: str, sentence: str, provenance: str = "", *, symptom: str = REACHED) -> Callable[[Read], Read]:
    def register(read: Read) -> Read:
        _register(name, sentence, provenance, symptom=symptom, state=partial(_ReplacesEndpoints, read=read))
        return read

    return register


class _CountsDuplicatesTwice(KeepsDuplicateSlots):
    """Gives each entry of a slice a separate slot."""

    def _decision(self, service: Any, port: ServicePort, family: Family) -> Decision:
        counted = Counter(each[:2] for each in _entries(service, port, family))

        def repeated(action: Action) -> Action:
            if not isinstance(action, Forward):
                return action
            return replace(action, endpoints=tuple(each for each in action.endpoints for _ in range(counted[each[:2]])))

        return in_each(super()._decision(service, port, family), repeated)


_register(
    "counts-repeated-endpoints-twice",
    "An endpoint in two slices gets a double share of connections.",
    symptom="in .* probes",
    state=_CountsDuplicatesTwice,
)


@_misread(
    "leaves-repeated-endpoints-out",
    "The proxy does not use an endpoint that is in two slices.",
    symptom=f"{REACHED}|{REFUSED}|never reached",
)
def leaves_repeated_endpoints_out(entries: list[Endpoint], first: list[Endpoint]) -> list[Endpoint]:
    counted = Counter(each[:2] for each in entries)
    return [each for each in entries if counted[each[:2]] == 1]


@_misread(
    "hints-of-the-first-port", "The proxy uses the hints of an endpoint for the Service's first port for all ports."
)
def hints_of_the_first_port(entries: list[Endpoint], first: list[Endpoint]) -> list[Endpoint]:
    known = {each.address: each for each in first}
    hinted = [known.get(each.address, each) for each in entries]
    return [
        each._replace(zone_hints=other.zone_hints, node_hints=other.node_hints)
        for each, other in zip(entries, hinted, strict=True)
    ]


@_misread(
    "leaves-endpoints-outside-of-pod-cidrs-out",
    "The proxy does not use endpoints at addresses outside the pod CIDRs.",
    symptom=f"{REFUSED}|{NO_ANSWER}",
)
def leaves_endpoints_outside_of_pod_cidrs_out(entries: list[Endpoint], first: list[Endpoint]) -> list[Endpoint]:
    return [each for each in entries if each.address.startswith(POD_NETWORKS)]


@_misread(
    "endpoints-outside-of-pod-cidrs-are-elsewhere",
    "The proxy treats endpoints at addresses outside the pod CIDRs as not local to any node.",
    symptom=NO_ANSWER,
)
def endpoints_outside_of_pod_cidrs_are_elsewhere(entries: list[Endpoint], first: list[Endpoint]) -> list[Endpoint]:
    return [each if each.address.startswith(POD_NETWORKS) else each._replace(node="elsewhere") for each in entries]


@_misread(
    "one-endpoint-an-address",
    "If several endpoints have the same address, the proxy uses only the first, whatever their ports.",
)
def one_endpoint_an_address(entries: list[Endpoint], first: list[Endpoint]) -> list[Endpoint]:
    return list({each.address: each for each in reversed(entries)}.values())


# Very many endpoints


class _WrongForManyEndpoints(State):
    """Makes wrong decisions about a Service with more than a hundred endpoints."""

    def __init__(self, *arguments: Any, wrong: Wrong) -> None:
        super().__init__(
            *arguments, decide=deciding(lambda asked: wrong(asked) if len(asked.endpoints) > 100 else asked.answer())
        )


def _hundred_of_those_hinted(asked: DecisionInput) -> Decision:
    def few(action: Action) -> Action:
        if isinstance(action, Forward) and len(action.endpoints) < len(asked.ready):
            return replace(action, endpoints=action.endpoints[:100])
        return action

    return in_each(asked.answer(), few)


def _hints_of_a_hundred(asked: DecisionInput) -> Decision:
    found = asked.answer(endpoints=asked.endpoints[:100]).mode
    return asked.answer() if found else asked.answer(endpoints=without_hints(asked.endpoints))


_register(
    "first-hundred-of-those-hinted",
    "The proxy uses only the first 100 of the endpoints that hints select.",
    symptom=f"{REACHED}|never reached",
    state=partial(_WrongForManyEndpoints, wrong=_hundred_of_those_hinted),
)
_register(
    "hints-of-the-first-hundred",
    "The proxy checks only the hints of the first 100 endpoints for the node and its zone.",
    state=partial(_WrongForManyEndpoints, wrong=_hints_of_a_hundred),
)


# Misread objects


class _ReadyForever(State):
    """Treats an endpoint that was once ready as ready until it is removed from its slice."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._ready: dict[str, set[str]] = {}

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if resource == "endpointslices":
            obj = {**obj, "endpoints": [] if deleted else self._as_before(obj)}
        super().receive(resource, obj, deleted=deleted)

    def _as_before(self, obj: Object) -> list[Object]:
        name, endpoints = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}", obj.get("endpoints") or ()
        ready = self._ready.get(name, set()) | {each["addresses"][0] for each in endpoints if is_ready(each)}
        self._ready[name] = ready & {each["addresses"][0] for each in endpoints}
        return [{**each, "conditions": {}} if each["addresses"][0] in ready else each for each in endpoints]


_register(
    "once-ready-always-ready",
    "The proxy treats an endpoint that was once ready as ready until it is removed from its slice.",
    state=_ReadyForever,
)


class _KeepsLastLocalEndpoints(State):
    """With a `Local` policy, ignores the removal of a service port's last endpoints."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, decide=deciding(self._wrongly))
        self._last: dict[tuple[str, ...], Sequence[Endpoint]] = {}

    def _wrongly(self, asked: DecisionInput) -> Decision:
        key = (str(asked.port), *asked.port.cluster_ips)
        if not asked.ready and (asked.port.internal_local or asked.port.external_local):
            return asked.answer(endpoints=self._last.get(key, asked.endpoints))
        self._last[key] = asked.endpoints
        return asked.answer()


_register(
    "local-keeps-its-last-endpoints",
    "With a Local policy, the last endpoints of a Service are still used after they are removed or become unready.",
    state=_KeepsLastLocalEndpoints,
)


class _MisreadsAtStart(State):
    """Reads the objects of one resource differently while it starts."""

    _resource: ClassVar[str]
    _begun = False

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if resource == self._resource and not self._begun:
            obj = self._at_first(obj)
        super().receive(resource, obj, deleted=deleted)

    def compute(self) -> bool:
        self._begun = True
        return super().compute()

    def _at_first(self, obj: Object) -> Object:
        raise NotImplementedError


class _StartsWithoutInternalPolicies(_MisreadsAtStart):
    """Reads internalTrafficPolicy only for Services that are created after the proxy has started."""

    _resource = "services"

    def _at_first(self, obj: Object) -> Object:
        return with_spec(obj, internalTrafficPolicy=None)


_register(
    "starts-without-internal-policies",
    "On start, a proxy ignores the internalTrafficPolicy of existing Services.",
    state=_StartsWithoutInternalPolicies,
)


class _MisreadsTerminatingAtStart(_MisreadsAtStart):
    """Misreads the conditions of terminating endpoints in slices that exist when it starts."""

    _resource = "endpointslices"
    _conditions: ClassVar[Mapping[str, bool]]

    def _at_first(self, obj: Object) -> Object:
        return {**obj, "endpoints": [self._read(each) for each in obj.get("endpoints") or ()]}

    def _read(self, endpoint: Object) -> Object:
        terminates = (endpoint.get("conditions") or {}).get("terminating") is True
        return {**endpoint, "conditions": self._conditions} if terminates else endpoint


class _TreatsTerminatingAsReady(_MisreadsTerminatingAtStart):
    _conditions: ClassVar = {"ready": True}


class _TreatsTerminatingAsRemoved(_MisreadsTerminatingAtStart):
    _conditions: ClassVar = {"ready": False, "serving": False}


_register(
    "restarted-takes-terminating-for-ready",
    "On start, a proxy treats terminating endpoints as ready.",
    state=_TreatsTerminatingAsReady,
)
_register(
    "restarted-keeps-who-terminates-out",
    "On start, a proxy does not use a terminating endpoint, even if no other endpoint serves.",
    "kubernetes#92019",
    symptom=f"{REFUSED}|{NO_ANSWER}",
    state=_TreatsTerminatingAsRemoved,
)


class _NeedsZoneAtStart(State):
    """Follows changes to its node's zone only if the node has a zone when the proxy starts."""

    _without = False

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if resource == "nodes" and obj["metadata"]["name"] == self._node.place.node:
            labels = dict(obj["metadata"].get("labels") or {})
            self._without = self._without or (not self._node.addresses and ZONE_LABEL not in labels)
            if self._without:
                labels.pop(ZONE_LABEL, None)
                obj = {**obj, "metadata": {**obj["metadata"], "labels": labels}}
        super().receive(resource, obj, deleted=deleted)


_register(
    "zone-known-at-the-start-or-never",
    "A proxy that starts on a node without a zone ignores later zone labels.",
    "kubernetes#90521",
    state=_NeedsZoneAtStart,
)


class _SkipsEndpointsOfNodes(State):
    """Does not use endpoints on a node for which `skips` is true, given the Node and whether it was deleted."""

    def __init__(self, *arguments: Any, skips: Callable[[Object, bool], bool]) -> None:
        super().__init__(*arguments, decide=deciding(self._wrongly))
        self._skips = skips
        self._skipped: set[str] = set()

    def _wrongly(self, asked: DecisionInput) -> Decision:
        return asked.answer(endpoints=[each for each in asked.endpoints if each.node not in self._skipped])

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if resource == "nodes":
            name = obj["metadata"]["name"]
            if self._skips(obj, deleted) != (name in self._skipped):
                self._skipped ^= {name}
                self._changed.update(dict.fromkeys(self._services))
        super().receive(resource, obj, deleted=deleted)


def _is_unready(node: Object, _deleted: bool) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] != "True" for each in conditions)


_register(
    "skips-endpoints-of-unready-nodes",
    "The proxy does not use endpoints on unready nodes.",
    proxy=ProxyOfAllNodes,
    state=partial(_SkipsEndpointsOfNodes, skips=_is_unready),
)
_register(
    "skips-endpoints-of-lost-nodes",
    "The proxy does not use endpoints on a node whose Node is deleted.",
    proxy=ProxyOfAllNodes,
    state=partial(_SkipsEndpointsOfNodes, skips=lambda _, deleted: deleted),
)


# Rules and connections


def _no_node_ports_over_ipv6(port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]) -> PortEntries:
    return render(port, decision, node, [each for each in addresses if ":" not in each])


_register(
    "no-node-ports-over-ipv6",
    "Node ports answer only over IPv4.",
    symptom=f"{REFUSED}|{NO_ANSWER}",
    state=partial(State, render=_no_node_ports_over_ipv6),
)


def _nothing_to_refuse(port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]) -> PortEntries:
    unserved = port.protocol == "UDP" and isinstance(decision.cluster_ip, Reject)
    return NOTHING if unserved else render(port, decision, node, addresses)


_FLOWS = "server of the flow"
_register(
    "leaves-udp-flows-over-ipv6",
    "The proxy does not delete UDP flows to a removed endpoint over IPv6.",
    symptom=_FLOWS,
    state=keeping_flows(lambda table, stale: table.family == "IPv6"),
)
_register(
    "leaves-udp-flows-at-node-ports",
    "The proxy does not delete UDP flows to a removed endpoint at node ports.",
    symptom=_FLOWS,
    state=keeping_flows(lambda table, stale: stale.service.port >= FIRST_NODE_PORT),
)
_register(
    "leaves-udp-flows-at-external-addresses",
    "The proxy does not delete UDP flows to a removed endpoint at load balancer addresses and external IPs.",
    symptom=_FLOWS,
    state=keeping_flows(
        lambda table, stale: (
            stale.service.port < FIRST_NODE_PORT and not stale.service.address.startswith(SERVICE_NETWORKS)
        ),
    ),
)
_register(
    "forgets-no-flow-from-before",
    "A UDP flow that began while a Service had no endpoints never gets an endpoint.",
    symptom=_FLOWS,
    state=keeping_flows(
        lambda table, stale: (stale.service.address, stale.service.port) == stale.endpoint,
        render=_nothing_to_refuse,
    ),
)


def _cutting(cuts: Callable[[Changes], bool]) -> Callable[..., KernelTable]:
    """Return a table that deletes all conntrack entries after some changes."""

    class CutsConnections(FlushesConntrack):
        def apply(self, changes: Changes) -> None:
            KernelTable.apply(self, changes)
            if cuts(changes):
                self.flush()

    return CutsConnections


def _touches_node_ports(changes: Changes) -> bool:
    touched = [each for each in (*changes.first_add, *changes.first_delete) if not isinstance(each, HairpinElement)]
    return any(each.service.port >= FIRST_NODE_PORT for each in touched)


_CUT = "the open connection of"
_register(
    "cuts-connections-at-node-ports",
    "A change to a node port's rules cuts all connections.",
    "cilium#48259",
    symptom=_CUT,
    kernel_table=_cutting(_touches_node_ports),
)
_register(
    "cuts-connections-when-endpoints-join",
    "A change that adds endpoints to the rules cuts all connections.",
    symptom=_CUT,
    kernel_table=_cutting(lambda changes: len(changes.first_add) > len(changes.first_delete)),
)
