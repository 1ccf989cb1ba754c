"""Proxies that keep the state of an object after it is deleted, or remove state that another object still needs.

A proxy holds UDP flows, masquerading rules, health check node ports and endpoints for each object. Each of them may be
shared by two owners, and may be deleted with one owner, with both, or while the proxy is down.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mutants.client_wrappers import Sink
from mutants.dropped_updates import ANY, proxy_hears, proxy_receives
from mutants.mutant import NO_ANSWER, REACHED, WRITTEN, Mutant
from mutants.slice_updates import SERVICE_LABEL, service_of
from mutants.wrong_decisions import DecisionInput, proxy_deciding
from mutants.wrong_plans import without
from mutants.wrong_tables import ReplacesTables, keeping_flows
from reference.client import Event, Object, key_of
from reference.endpointslice.labels import HEADLESS
from reference.proxy import ServiceProxy
from reference.proxy.changes import Changes
from reference.proxy.decision import Decision
from reference.proxy.ruleset import ServiceAddress, StaleUdp, endpoints_of
from reference.proxy.state import Name, State
from reference.proxy.table import Table

MUTANTS: list[Mutant] = []

_hears = partial(proxy_hears, MUTANTS)
_of_slices = partial(proxy_receives, MUTANTS, "endpointslices")


def _register(name: str, sentence: str, provenance: str = "", *, symptom: str, **parts: Any) -> None:
    MUTANTS.append(Mutant(name, sentence, provenance, symptom, proxy=partial(ServiceProxy, **parts)))


# UDP flows

_FLOW = "server of the flow"


def _has_a_known_address(table: Table, stale: StaleUdp) -> bool:
    addresses = {address for address, _ in table.endpoints(stale.service) or ()}
    return not stale.untranslated and stale.endpoint[0] in addresses


class _KeepsExternalFlows(Table):
    """Does not delete flows to an endpoint that only external clients could use."""

    def _compare(self, changes: Changes, service: ServiceAddress) -> None:
        inside = {*endpoints_of(self._touched.get(("services", service)))}
        super()._compare(changes, service)
        changes.stale[:] = [
            each for each in changes.stale if each.service != service or each.untranslated or each.endpoint in inside
        ]


_register(
    "leaves-udp-flows-to-former-ports",
    "The proxy does not delete UDP flows to the former target port of an endpoint.",
    symptom=_FLOW,
    state=keeping_flows(_has_a_known_address),
)
_register(
    "leaves-udp-flows-of-local-endpoints",
    "With externalTrafficPolicy Local, the proxy does not delete UDP flows of external clients to a removed "
    "endpoint that hints keep from in-cluster clients.",
    symptom=_FLOW,
    state=partial(ReplacesTables, table=_KeepsExternalFlows),
)


# Rules and ports


class _DropsSharedHairpinRule(Table):
    """Removes the rule for connections of a pod to itself when the first of the pod's Service ports is removed."""

    def _count(self, addresses: frozenset[str], step: int) -> None:
        for address in addresses:
            self._touched_hairpin.setdefault(address, self._hairpin[address] > 0)
            if step > 0:
                self._hairpin[address] = 1
            else:
                self._hairpin.pop(address, None)


_register(
    "hairpin-goes-with-its-first-service",
    "A pod can no longer connect to itself once one of several Services or ports with this pod is gone.",
    symptom=NO_ANSWER,
    state=partial(ReplacesTables, table=_DropsSharedHairpinRule),
)


class _KeepsHealthPorts(State):
    """Closes no health check node port."""

    def _was_taken_over(self, health_port: int, name: Name) -> bool:
        return True


_register(
    "health-port-is-never-closed",
    "A health check node port that no Service has any more still reports the last number of endpoints.",
    symptom=WRITTEN,
    state=_KeepsHealthPorts,
)


# Endpoints of a slice


@_of_slices("slices-without-service-stay", "A slice that loses its service-name label stays with its Service.")
def slices_without_service_stay(obj: Object, before: Object) -> Object:
    labels = {SERVICE_LABEL: service_of(before), **obj["metadata"]["labels"]}
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


@_of_slices("headless-slices-stay", "The proxy does not notice when a slice gets the label for headless Services.")
def headless_slices_stay(obj: Object, before: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "labels": without(obj["metadata"]["labels"], HEADLESS)}}


@_hears(
    "stops-at-slices-of-names",
    "The proxy ignores changes to a Service's slices while one of them is of type FQDN.",
    symptom=ANY,
)
def stops_at_slices_of_names(sink: Sink) -> Sink:
    stopped: set[tuple[str, str]] = set()

    def filtered(event: Event) -> None:
        if event.resource == "endpointslices" and event.type != "SYNCED":
            owner = key_of(event.object)[0], service_of(event.object)
            if event.object.get("addressType") == "FQDN":
                (stopped.discard if event.type == "DELETED" else stopped.add)(owner)
            elif owner in stopped:
                return
        sink(event)

    return filtered


def _unknown_is_local(asked: DecisionInput) -> Decision:
    return asked.answer(
        endpoints=[each if each.node else each._replace(node=asked.place.node) for each in asked.endpoints]
    )


MUTANTS.append(
    Mutant(
        "endpoints-without-node-are-local",
        "With a Local policy, an endpoint without nodeName counts as local on every node.",
        "Cilium 1.20",
        symptom=REACHED,
        proxy=proxy_deciding(_unknown_is_local),
    )
)
