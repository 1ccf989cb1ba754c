"""Proxies that keep serving emptied or deleted Services, and proxies that delete flows when they restart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.data_planes import FlushesConntrack
from mutants.mutant import REACHED, Mutant
from mutants.wrong_tables import KeepsStaleFlows, ReplacesTables, keeping_flows
from reference.client import Object, key_of
from reference.proxy import ServiceProxy
from reference.proxy.changes import Changes, EndpointElement
from reference.proxy.conntrack import Conntrack
from reference.proxy.decision import Decision, Endpoint, Family, Forward, ServicePort, decide
from reference.proxy.nftables import KernelTable
from reference.proxy.ruleset import Endpoint as Destination
from reference.proxy.ruleset import Ruleset, ServiceAddress
from reference.proxy.state import FAMILIES, State

MUTANTS: list[Mutant] = []

_FLOW, _CUT = "server of the flow", "the open connection of"


def _register(name: str, sentence: str, provenance: str = "", *, symptom: str = REACHED, **parts: Any) -> None:
    MUTANTS.append(Mutant(name, sentence, provenance, symptom, proxy=partial(ServiceProxy, **parts)))


# UDP flows

_register(
    "leaves-udp-flows-of-deleted-services",
    "The UDP flows of a deleted Service are not deleted.",
    "kube-proxy before 1.38",
    symptom=_FLOW,
    state=keeping_flows(lambda table, stale: table.endpoints(stale.service) is None),
)
_register(
    "leaves-udp-flows-of-emptied-services",
    "The UDP flows of a Service that has lost its last endpoint are not deleted.",
    "kubernetes#139628",
    symptom=_FLOW,
    state=keeping_flows(lambda table, stale: table.endpoints(stale.service) == frozenset()),
)


class _KeepsFlowsToInitialEndpoints(KeepsStaleFlows):
    def __init__(self, family: Family) -> None:
        super().__init__(family, keeps=lambda _, stale: (stale.service, stale.endpoint) in self._found)
        self._found: set[tuple[ServiceAddress, Destination]] = set()

    def ruleset(self, pods: tuple[str, ...], own: tuple[str, ...]) -> Ruleset:
        self._found = {(service, each) for service in self.services() for each in self.endpoints(service) or ()}
        return super().ruleset(pods, own)


_register(
    "leaves-udp-flows-from-before-its-start",
    "UDP flows to endpoints that existed when the proxy started are not deleted when the endpoints are removed.",
    symptom=_FLOW,
    state=partial(ReplacesTables, table=_KeepsFlowsToInitialEndpoints),
)


# New connections

Stays = Callable[[ServicePort], bool]


class _KeepsLastDecision(State):
    """Keeps the decision of some ports while they have no endpoint."""

    def __init__(self, *arguments: Any, stays: Stays) -> None:
        before: dict[tuple[str, ...], Decision] = {}

        def remembering(port: ServicePort, *others: Any) -> Decision:
            decision, key = decide(port, *others), (str(port), *port.cluster_ips)
            if isinstance(decision.cluster_ip, Forward):
                before[key] = decision
            return before.get(key, decision) if stays(port) else decision

        super().__init__(*arguments, decide=remembering)


_register(
    "keeps-the-last-endpoints",
    "A Service that loses its last endpoint keeps the endpoints that it had.",
    state=partial(_KeepsLastDecision, stays=lambda port: True),
)
_register(
    "keeps-the-last-endpoints-over-udp",
    "A UDP port that loses its last endpoint keeps the endpoints that it had.",
    state=partial(_KeepsLastDecision, stays=lambda port: port.protocol == "UDP"),
)


class _KeepsLastExternalDecision(_KeepsLastDecision):
    """Keeps only the decisions for traffic to external addresses."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, stays=lambda port: True)
        remembering = self._decide

        def outside(port: ServicePort, endpoints: Iterable[Endpoint], *others: Any) -> Decision:
            known = list(endpoints)
            return replace(remembering(port, known, *others), cluster_ip=decide(port, known, *others).cluster_ip)

        self._decide = outside


_register(
    "never-empties-node-ports",
    "At node ports and external addresses, a Service that loses its last endpoint keeps the endpoints that it had.",
    state=_KeepsLastExternalDecision,
)


class _KeepsDeletedPorts(State):
    """Keeps some ports of deleted Services."""

    def __init__(self, *arguments: Any, kept: Callable[[ServicePort], ServicePort | None]) -> None:
        super().__init__(*arguments)
        self._kept = kept

    def _receive_service(self, obj: Object, *, deleted: bool) -> None:
        before = self._service(key_of(obj)).ports
        super()._receive_service(obj, deleted=deleted)
        if deleted:
            service = self._service(key_of(obj))
            found = {family: [self._kept(each) for each in ports] for family, ports in before.items()}
            service.ports = {family: [each for each in ports if each] for family, ports in found.items()}


_register(
    "keeps-node-ports-of-deleted-services",
    "A deleted Service is still served at its node ports.",
    state=partial(_KeepsDeletedPorts, kept=lambda port: replace(port, cluster_ips=()) if port.node_port else None),
)
_register(
    "keeps-deleted-services-over-udp",
    "A deleted Service is still served over UDP.",
    state=partial(_KeepsDeletedPorts, kept=lambda port: port if port.protocol == "UDP" else None),
)


# Open connections


class _FlushesConntrackWithLastEndpoint(FlushesConntrack):
    def apply(self, changes: Changes) -> None:
        KernelTable.apply(self, changes)
        added, deleted = (
            any(isinstance(each, EndpointElement) for each in elements)
            for elements in (changes.first_add, [*changes.first_delete, *changes.later_delete])
        )
        if deleted and not added:
            self.flush()


_register(
    "cuts-connections-with-the-last-endpoint",
    "A change to the rules that only removes endpoints cuts all connections.",
    symptom=_CUT,
    kernel_table=_FlushesConntrackWithLastEndpoint,
)


class _FlushesConntrackAtStart(FlushesConntrack):
    def apply(self, changes: Changes) -> None:
        KernelTable.apply(self, changes)

    def load(self, ruleset: Ruleset) -> None:
        super().load(ruleset)
        self.flush()


class _DeletesUdpFlowsAtStart(KernelTable):
    def load(self, ruleset: Ruleset) -> None:
        super().load(ruleset)
        conntrack = Conntrack()
        try:
            for family, flow in list(conntrack.flows(FAMILIES)):
                conntrack._delete(family, flow)
        finally:
            conntrack.close()


_register(
    "forgets-connections-at-start",
    "A proxy that starts cuts all connections.",
    symptom=_CUT,
    kernel_table=_FlushesConntrackAtStart,
)
_register(
    "forgets-udp-flows-at-start",
    "A proxy that starts deletes all UDP flows.",
    "kubernetes#122740",
    symptom=_CUT,
    kernel_table=_DeletesUdpFlowsAtStart,
)
