"""Components that are wrong only for objects in a form that no requirement mentions: names, slices, ports, labels.

Most of these faults show only with a certain random value, which the mutant states in `draw`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.client_wrappers import proxy_hearing, rewriting
from mutants.dns_servers import authority_with_index
from mutants.mutant import NO_ANSWER, REACHED, REFUSED, WRITTEN, Mutant
from mutants.proxy_hints import accepts_partial_zone_hints
from mutants.wrong_decisions import DecisionInput, proxy_deciding
from mutants.wrong_tables import keeping_flows
from reference.client import Event, Object
from reference.dns import DnsServer
from reference.dns.authority import ZoneAuthority
from reference.dns.index import ClusterIndex
from reference.dns.records import Records, Service, find
from reference.objects.topology_keys import Labels
from reference.proxy import ServiceProxy
from reference.proxy.decision import Decision, Family, ServicePort
from reference.proxy.objects import ZONE_LABEL, Slice
from reference.proxy.ruleset import StaleUdp
from reference.proxy.state import State
from reference.proxy.table import Table

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"

MUTANTS: list[Mutant] = []

_SILENT = f"{REFUSED}|{NO_ANSWER}"
_ANY = f"{REACHED}|{_SILENT}"


def _register(
    name: str, sentence: str, provenance: str = "", *, draw: str = "", symptom: str = _ANY, **parts: Any
) -> None:
    MUTANTS.append(Mutant(name, sentence, provenance, symptom, draw=draw, **parts))


def _decides(
    name: str, sentence: str, provenance: str = "", *, draw: str = "", symptom: str = _ANY
) -> Callable[[Callable[[DecisionInput], Decision]], Callable[[DecisionInput], Decision]]:
    """Create a mutant from a function that makes wrong decisions."""

    def register(wrong: Callable[[DecisionInput], Decision]) -> Callable[[DecisionInput], Decision]:
        _register(name, sentence, provenance, draw=draw, symptom=symptom, proxy=proxy_deciding(wrong))
        return wrong

    return register


# Names


@_decides(
    "zone-names-by-prefix",
    "The proxy treats a hint for a zone whose name begins with the name of its own zone as a hint for its own zone.",
    draw="names=cloud",
)
def zone_names_by_prefix(asked: DecisionInput) -> Decision:
    mine = asked.place.zone
    alike = [any(each.startswith(mine) for each in endpoint.zone_hints) for endpoint in asked.endpoints]
    read = [
        endpoint._replace(zone_hints=endpoint.zone_hints | {mine}) if mine and same else endpoint
        for endpoint, same in zip(asked.endpoints, alike, strict=True)
    ]
    return asked.answer(endpoints=read)


@_decides(
    "node-names-by-prefix",
    "The proxy treats an endpoint as local if its node's name begins with the name of the proxy's node.",
    draw="names=cloud",
)
def node_names_by_prefix(asked: DecisionInput) -> Decision:
    mine = asked.place.node
    read = [each._replace(node=mine) if each.node.startswith(mine) else each for each in asked.endpoints]
    return asked.answer(endpoints=read)


@_decides(
    "node-names-end-at-the-first-dot",
    "The proxy reads the name of a node only up to its first dot.",
    "kubernetes#18104",
    draw="names=cloud",
)
def node_names_end_at_the_first_dot(asked: DecisionInput) -> Decision:
    read = [each._replace(node=each.node.partition(".")[0]) for each in asked.endpoints]
    place = replace(asked.place, node=asked.place.node.partition(".")[0])
    hints = [each._replace(node_hints=frozenset(name.partition(".")[0] for name in each.node_hints)) for each in read]
    return asked.answer(endpoints=hints, place=place)


@_decides(
    "node-names-of-63-characters",
    "The proxy compares only the first 63 characters of the names of nodes.",
    draw="names=cloud",
)
def node_names_of_63_characters(asked: DecisionInput) -> Decision:
    read = [
        each._replace(node=each.node[:63], node_hints=frozenset(name[:63] for name in each.node_hints))
        for each in asked.endpoints
    ]
    return asked.answer(endpoints=read, place=replace(asked.place, node=asked.place.node[:63]))


# Order, conditions and policies


@_decides(
    "first-endpoint-decides-about-hints",
    "The proxy checks only the first endpoint for a missing zone hint.",
    draw="order=reversed",
)
def first_endpoint_decides_about_hints(asked: DecisionInput) -> Decision:
    ready = asked.ready
    return accepts_partial_zone_hints(asked) if ready and ready[0].zone_hints else asked.answer()


@_decides(
    "uses-unready-endpoints",
    "The proxy uses endpoints that are not ready in the same way as ready endpoints.",
    "calico#4952",
)
def uses_unready_endpoints(asked: DecisionInput) -> Decision:
    return asked.answer(endpoints=[each._replace(ready=each.ready or not each.terminating) for each in asked.endpoints])


@_decides(
    "local-fallback-needs-a-service-without-ready-endpoints",
    "With a Local policy, terminating endpoints of the node are used only if no node has a ready endpoint.",
    "ovn-kubernetes#4170",
    symptom=_SILENT,
)
def local_fallback_needs_a_service_without_ready_endpoints(asked: DecisionInput) -> Decision:
    right, wrong = asked.answer(), asked.answer(endpoints=asked.ready or asked.endpoints)
    internal = asked.port.internal_local and asked.behaviour.internal_policy
    return replace(
        right,
        cluster_ip=wrong.cluster_ip if internal else right.cluster_ip,
        outside=wrong.outside if asked.port.external_local else right.outside,
    )


# Slices


class _ReadsSomeSlices(State):
    """Reads only some slices of a Service in each IP family. `choose` selects from the slices in order of arrival."""

    def __init__(self, *arguments: Any, choose: Callable[[list[str]], str]) -> None:
        super().__init__(*arguments)
        self._choose = choose

    def _decision(self, service: Any, port: ServicePort, family: Family) -> Decision:
        known: Mapping[str, Slice] = service.slices
        names = [name for name, each in known.items() if each.family == family]
        read = {name: known[name] for name in ([self._choose(names)] if names else ())}
        return super()._decision(replace(service, slices=read), port, family)


_register(
    "last-slice-alone",
    "The proxy uses only the last slice of a Service, as if it replaced the others.",
    "cilium#11947",
    draw="slices=each",
    proxy=partial(ServiceProxy, state=partial(_ReadsSomeSlices, choose=lambda names: names[-1])),
)
_register(
    "first-slice-alone",
    "The proxy uses only the first slice of a Service.",
    draw="slices=empty",
    proxy=partial(ServiceProxy, state=partial(_ReadsSomeSlices, choose=lambda names: names[0])),
)


def _without_unmanaged(event: Event) -> Event:
    if event.type == "SYNCED" or event.resource != "endpointslices":
        return event
    if MANAGED_BY in (event.object["metadata"].get("labels") or {}):
        return event
    return Event(event.type, event.resource, {**event.object, "endpoints": []})


_register(
    "slices-need-a-manager",
    "The proxy ignores the endpoints of slices without the label managed-by.",
    "nghttpx-ingress-lb#234",
    draw="owner=nobody",
    proxy=proxy_hearing(rewriting(_without_unmanaged)),
)


def _hinted_by_label(event: Event) -> Event:
    if event.type == "SYNCED" or event.resource != "endpointslices":
        return event
    zone = (event.object["metadata"].get("labels") or {}).get(ZONE_LABEL)
    if zone is None:
        return event
    hints = {"forZones": [{"name": zone}]}
    endpoints = [{**each, "hints": {**(each.get("hints") or {}), **hints}} for each in event.object["endpoints"] or ()]
    return Event(event.type, event.resource, {**event.object, "endpoints": endpoints})


_register(
    "zone-labels-of-slices-are-hints",
    "The proxy treats the zone label of a slice as a hint for its endpoints.",
    draw="extras=metadata",
    proxy=proxy_hearing(rewriting(_hinted_by_label)),
)


def _with_label_values(event: Event) -> Event:
    if event.type == "SYNCED" or event.resource != "nodes":
        return event
    metadata = event.object["metadata"]
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if value}
    return Event(event.type, event.resource, {**event.object, "metadata": {**metadata, "labels": labels}})


_register(
    "labels-need-a-value",
    "The proxy treats a node label whose value is empty as missing.",
    proxy=proxy_hearing(rewriting(_with_label_values)),
)


class _KeepsOldAddresses(State):
    """When a Service changes, adds its new addresses to the old ones."""

    def _receive_service(self, obj: Object, *, deleted: bool) -> None:
        service = self._service((obj["metadata"]["namespace"], obj["metadata"]["name"]))
        before = service.ports
        super()._receive_service(obj, deleted=deleted)
        if not deleted:
            service.ports = {**before, **service.ports}


_register(
    "removed-families-stay",
    "When a Service loses an IP family, its rules for this family stay.",
    proxy=partial(ServiceProxy, state=_KeepsOldAddresses),
)


class _IgnoresSlicesOfSameName(State):
    """Identifies a slice by its name, so it ignores a slice while another namespace has one of the same name."""

    def _receive_slice(self, obj: Object, *, deleted: bool) -> None:
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        if not any(known == name and other != namespace for other, known in self._service_of):
            super()._receive_slice(obj, deleted=deleted)


_register(
    "slice-names-without-namespaces",
    "The proxy ignores a slice while another namespace has a slice of the same name.",
    "kubernetes#4695",
    draw="neighbours=twin",
    proxy=partial(ServiceProxy, state=_IgnoresSlicesOfSameName),
)


# Ports


class _IgnoresProtocols(State):
    """Uses the endpoints of the last port with a number for all ports with this number, whatever their protocols."""

    def _decision(self, service: Any, port: ServicePort, family: Family) -> Decision:
        last = [each for each in service.ports[family] if each.port == port.port][-1]
        return super()._decision(service, replace(port, port_name=last.port_name, protocol=last.protocol), family)


_register(
    "ports-without-protocols",
    "The proxy does not distinguish ports of a Service that have the same number and different protocols.",
    "cilium#37164",
    draw="ports=more",
    proxy=partial(ServiceProxy, state=_IgnoresProtocols),
)


def _has_a_tcp_port(table: Table, stale: StaleUdp) -> bool:
    return any(each.address == stale.service.address and each.protocol == "TCP" for each in table.services())


_register(
    "leaves-udp-flows-beside-tcp-ports",
    "The proxy does not delete UDP flows to a removed endpoint if the Service also has a TCP port.",
    "cilium#37745",
    draw="ports=more",
    symptom="server of the flow",
    proxy=partial(ServiceProxy, state=keeping_flows(_has_a_tcp_port)),
)


# DNS


class _NeedsReadyCondition(ClusterIndex):
    def _take_slice(self, obj: Object, gone: bool) -> None:
        known = [each for each in obj.get("endpoints") or () if "ready" in (each.get("conditions") or {})]
        super()._take_slice({**obj, "endpoints": known}, gone)


_register(
    "dns-needs-a-ready-condition",
    "Answers do not contain endpoints without a ready condition.",
    "coredns#4632",
    draw="conditions=none",
    symptom=WRITTEN,
    dns=partial(DnsServer, authority=authority_with_index(_NeedsReadyCondition)),
)


class _IgnoresKeysOverTcp(ZoneAuthority):
    """Ignores topology keys over TCP."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._others = ZoneAuthority(*arguments, **options, find=_find_everywhere)

    def answer(self, packet: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        return self._others.answer(packet, client, over_tcp=True) if over_tcp else super().answer(packet, client)


def _find_everywhere(about: Any, kind: str, service: Service, _: Labels | None) -> Records | None:
    return find(about, kind, service, None)


_register(
    "dns-ignores-topology-keys-over-tcp",
    "Over TCP, clients get the endpoints of all nodes, whatever the topology keys.",
    draw="queries=tcp",
    symptom=WRITTEN,
    dns=partial(DnsServer, authority=_IgnoresKeysOverTcp),
)


class _IgnoresInitialSlices(DnsServer):
    def _apply(self, event: Event) -> None:
        if self._has_state or event.resource != "endpointslices":
            super()._apply(event)


_register(
    "dns-knows-slices-since-its-start",
    "Answers contain only endpoints of EndpointSlices that were written after the DNS server started.",
    draw="components=dns-restarted",
    symptom=WRITTEN,
    dns=_IgnoresInitialSlices,
)
