"""Components that are wrong only after an event, or for a kind of client, that no requirement mentions.

The fault of each mutant shows only with a certain random value, which the mutant states in `draw`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.client_wrappers import Filter, Sink, proxy_hearing
from mutants.data_planes import edited
from mutants.mutant import NO_ANSWER, REACHED, REFUSED, Mutant
from mutants.proxy_hints import accepts_partial_zone_hints
from mutants.wrong_decisions import NONE, DecisionInput, proxy_deciding
from reference.client import Event, Object
from reference.proxy import ServiceProxy
from reference.proxy import expressions as nft
from reference.proxy.base_rules import Chain, Rule
from reference.proxy.decision import Decision, Endpoint, Family, ServicePort
from reference.proxy.ruleset import PortEntries, render
from reference.proxy.state import State

MUTANTS: list[Mutant] = []

_ANY = f"{REACHED}|{REFUSED}|{NO_ANSWER}"

_CT_PACKETS = 14  # NFT_CT_PKTS
_FORWARDED = 16  # packets of a connection; a power of two


def _register(
    name: str, sentence: str, provenance: str = "", *, draw: str, symptom: str = REACHED, proxy: Callable[..., Any]
) -> None:
    MUTANTS.append(Mutant(name, sentence, provenance, symptom, draw=draw, proxy=proxy))


# Kinds of clients and connections


def _trusts_partial_hints_for_udp(asked: DecisionInput) -> Decision:
    return accepts_partial_zone_hints(asked) if asked.port.protocol == "UDP" else asked.answer()


_register(
    "partial-zone-hints-count-for-udp",
    "For UDP, the proxy follows zone hints although an endpoint has none.",
    draw="protocol=udp",
    proxy=proxy_deciding(_trusts_partial_hints_for_udp),
)


def _local_without_hairpin(port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]) -> PortEntries:
    right = render(port, decision, node, addresses)
    return replace(right, hairpin=frozenset()) if port.internal_local else right


_register(
    "no-hairpin-with-local-policy",
    "With internalTrafficPolicy Local, an endpoint that connects to itself keeps its address, so it gets no reply.",
    draw="client=endpoint",
    symptom=NO_ANSWER,
    proxy=partial(ServiceProxy, state=partial(State, render=_local_without_hairpin)),
)


def _ends_long_connections(family: Family, chain: Chain) -> Chain:
    if chain.name != "prerouting-udp":  # sees each packet, unlike chains that translate addresses
        return chain
    first = nft.FIRST_REGISTER
    counted = nft.load_connection(_CT_PACKETS, first, original=True) + nft.mask(first, _FORWARDED)
    late = Rule(
        f"ct original packets & {_FORWARDED} != 0 drop",
        counted + nft.compare(first, bytes(4), equal=False) + nft.verdict(nft.Verdict.DROP),
    )
    return replace(chain, rules=(late, *chain.rules))


_register(
    "short-connections-alone",
    f"The proxy drops all packets of a connection after the first {_FORWARDED}.",
    draw="connections=long",
    symptom="server of the open connection",
    proxy=edited(_ends_long_connections),
)


# Services and Nodes


class _NeedsServiceFirst(State):
    """Reads the zone hints of a slice only if the Service is known."""

    def _receive_slice(self, obj: Object, *, deleted: bool) -> None:
        super()._receive_slice(obj, deleted=deleted)
        name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        owner = self._service_of.get(name)
        if owner is not None and not self._services[owner].ports:
            super()._receive_slice(_without_hints(obj, "forZones"), deleted=False)


_register(
    "hints-need-the-service-first",
    "The proxy does not read the zone hints of slices that are older than their Service.",
    draw="arrival=slices",
    proxy=partial(ServiceProxy, state=_NeedsServiceFirst),
)


def _keeps_lost_zone(sink: Sink) -> Sink:
    """Ignore a zone label that appears on a Node which had none before."""
    without: set[str] = set()

    def filtered(event: Event) -> None:
        if event.type != "SYNCED" and event.resource == "nodes":
            labels = event.object["metadata"].get("labels") or {}
            name = event.object["metadata"]["name"]
            if _ZONE not in labels:
                without.add(name)
            elif name in without:
                rest = {key: value for key, value in labels.items() if key != _ZONE}
                event = Event(event.type, event.resource, _with_metadata(event.object, labels=rest))
        sink(event)

    return filtered


_ZONE = "topology.kubernetes.io/zone"

_register(
    "late-zone-labels-are-missed",
    "If its Node has no zone label, the proxy never reads a zone label that the Node gets later.",
    "kubernetes#117245",
    draw="nodes=late",
    proxy=proxy_hearing(_keeps_lost_zone),
)


class _IgnoresHintsAfterNodeDeletion(State):
    """Ignores node hints after its Node has been deleted once."""

    _deleted = False

    def _receive_node(self, obj: Object, *, deleted: bool) -> None:
        super()._receive_node(obj, deleted=deleted)
        if deleted and obj["metadata"]["name"] == self._node.place.node:
            self._deleted = True

    def _decision(self, service: Any, port: ServicePort, family: Family) -> Decision:
        if not self._deleted:
            return super()._decision(service, port, family)
        before, self._decide = self._decide, _without_node_hints(self._decide)
        try:
            return super()._decision(service, port, family)
        finally:
            self._decide = before


def _without_node_hints(decide: Callable[..., Decision]) -> Callable[..., Decision]:
    def decided(port: ServicePort, endpoints: Sequence[Endpoint], *others: Any) -> Decision:
        return decide(port, [each._replace(node_hints=NONE) for each in endpoints], *others)

    return decided


_register(
    "node-hints-end-with-the-node",
    "After its Node was deleted and created again, the proxy does not follow node hints.",
    draw="nodes=remade",
    proxy=partial(ServiceProxy, state=_IgnoresHintsAfterNodeDeletion),
)


def _read_once(section: str, *fields: str) -> Filter:
    """Return a filter that keeps the first values of these fields of each Node."""

    def through(sink: Sink) -> Sink:
        first: dict[str, Any] = {}

        def filtered(event: Event) -> None:
            if event.type not in ("SYNCED", "DELETED") and event.resource == "nodes":
                part = event.object.get(section) or {}
                kept = first.setdefault(event.object["metadata"]["name"], {field: part.get(field) for field in fields})
                event = Event(event.type, event.resource, {**event.object, section: {**part, **kept}})
            sink(event)

        return filtered

    return through


_register(
    "node-addresses-are-read-once",
    "The proxy keeps the addresses that its Node has when it starts, so it may never serve node ports.",
    draw="nodes=bare",
    symptom=_ANY,
    proxy=proxy_hearing(_read_once("status", "addresses")),
)
_register(
    "pod-cidrs-are-read-once",
    "The proxy keeps the pod CIDRs that its Node has when it starts, so pods may count as external clients.",
    draw="nodes=bare",
    symptom=NO_ANSWER,
    proxy=proxy_hearing(_read_once("spec", "podCIDR", "podCIDRs")),
)


# Components


def _with_metadata(obj: Object, **changes: Any) -> Object:
    return {**obj, "metadata": {**obj["metadata"], **changes}}


def _without_hints(obj: Object, kind: str) -> Object:
    endpoints = [
        {**each, "hints": {key: value for key, value in (each.get("hints") or {}).items() if key != kind}}
        for each in obj.get("endpoints") or ()
    ]
    return {**obj, "endpoints": endpoints}


def _after_lists(lists: int, rewrite: Callable[[Object], Object], resource: str) -> Filter:
    """Return a filter that rewrites objects of a resource before the first list ends (0), or after several lists."""

    def through(sink: Sink) -> Sink:
        seen = 0

        def filtered(event: Event) -> None:
            nonlocal seen
            if event.type == "SYNCED":
                seen += 1
            elif event.resource == resource and (not seen if not lists else seen >= lists):
                event = Event(event.type, event.resource, rewrite(event.object))
            sink(event)

        return filtered

    return through


def _with_cluster_policy(service: Object) -> Object:
    return {**service, "spec": {**service["spec"], "internalTrafficPolicy": "Cluster"}}


_register(
    "local-policy-of-older-services-is-ignored",
    "The proxy ignores internalTrafficPolicy Local of Services that were created before it started.",
    draw="components=restarted",
    proxy=proxy_hearing(_after_lists(0, _with_cluster_policy, "services")),
)
_register(
    "zone-hints-end-with-the-watch",
    "After the API server has ended the proxy's watch, the proxy does not follow the zone hints of changed slices.",
    draw="components=disconnected",
    proxy=proxy_hearing(_after_lists(2, partial(_without_hints, kind="forZones"), "endpointslices")),
)
