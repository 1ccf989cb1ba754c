"""Proxies that read only part of the data: the first port, the name without the namespace, or the beginning of a
slice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.dropped_updates import ANY, SILENT
from mutants.mutant import REACHED, Mutant
from mutants.wrong_tables import ReplacesTables
from reference.client import Object, key_of
from reference.proxy import ServiceProxy
from reference.proxy.ruleset import NOTHING, PortEntries
from reference.proxy.state import State
from reference.proxy.table import Table

FEW = 100

MUTANTS: list[Mutant] = []


def _register(name: str, sentence: str, state: Callable[..., State], *, symptom: str = ANY) -> None:
    MUTANTS.append(Mutant(name, sentence, symptom=symptom, proxy=partial(ServiceProxy, state=state)))


class _ServesFirstPortOnly(State):
    def _receive_service(self, obj: Object, *, deleted: bool) -> None:
        super()._receive_service(obj, deleted=deleted)
        service = self._service(key_of(obj))
        service.ports = {
            family: [*ports[:1], *(replace(each, load_balancer_ips=(), external_ips=()) for each in ports[1:])]
            for family, ports in service.ports.items()
        }


_register(
    "first-port-alone-is-reached-from-outside",
    "The proxy serves load balancer addresses and external IPs only on the first port of a Service.",
    _ServesFirstPortOnly,
    symptom=SILENT,
)


class _ServesExternalClientsOnly(State):
    def _receive_service(self, obj: Object, *, deleted: bool) -> None:
        service = self._service(key_of(obj))
        before = service.ports
        super()._receive_service(obj, deleted=deleted)
        if obj["spec"].get("type") == "ExternalName" and not deleted:
            service.ports = {
                family: [replace(each, cluster_ips=()) for each in ports] for family, ports in before.items()
            }


_register(
    "external-name-keeps-what-is-outside",
    "The proxy still serves a Service that becomes ExternalName at its node ports and external addresses.",
    _ServesExternalClientsOnly,
    symptom=REACHED,
)


class _RemovesSharedAddresses(Table):
    def put(self, owner: Any, entries: PortEntries) -> None:
        before = self._entries.get(owner, NOTHING)
        super().put(owner, entries)
        for each in before.services.keys() - entries.services.keys():
            self._set_actions(each, NOTHING)


_register(
    "former-owner-takes-addresses-along",
    "The proxy stops serving an address that a port loses, even if another port of the Service has it now.",
    partial(ReplacesTables, table=_RemovesSharedAddresses),
    symptom=SILENT,
)


class _IgnoresNamespaces(State):
    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if "namespace" in obj["metadata"]:
            obj = {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
        super().receive(resource, obj, deleted=deleted)


_register(
    "looks-at-no-namespace",
    "The proxy identifies Services and slices by name, without their namespace.",
    _IgnoresNamespaces,
)


class _ReadsFirstHundredEndpoints(State):
    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if resource == "endpointslices":
            obj = {**obj, "endpoints": (obj.get("endpoints") or [])[:FEW]}
        super().receive(resource, obj, deleted=deleted)


_register(
    "first-hundred-of-a-slice",
    f"Only the first {FEW} endpoints of a slice are read.",
    _ReadsFirstHundredEndpoints,
    symptom=REACHED,
)
