"""Proxies that read a new slice correctly, but miss or misread its later changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.client_wrappers import Sink, rewriting
from mutants.dropped_updates import ANY, proxy_hears, proxy_receives
from mutants.mutant import NO_ANSWER, REACHED, Mutant
from reference.client import Event, Key, Object, key_of
from reference.proxy import ServiceProxy
from reference.proxy.changes import Changes, Element, EndpointElement
from reference.proxy.nftables import KernelTable
from reference.proxy.ruleset import LOCAL_LIST

SERVICE_LABEL = "kubernetes.io/service-name"
MANAGER_LABEL = "endpointslice.kubernetes.io/managed-by"

MUTANTS: list[Mutant] = []

_hears = partial(proxy_hears, MUTANTS)
_of_slices = partial(proxy_receives, MUTANTS, "endpointslices")


def service_of(obj: Object) -> str:
    """Return the name of the Service that owns a slice, or "" if the slice has no owner."""
    return str(obj["metadata"]["labels"].get(SERVICE_LABEL, ""))


def _of_addresses(obj: Object) -> dict[str, Object]:
    return {each["addresses"][0]: each for each in obj.get("endpoints") or ()}


@_of_slices("slice-port-names-are-frozen", "The proxy ignores changes to a slice's port names.")
def slice_port_names_are_frozen(obj: Object, before: Object) -> Object:
    names = [each.get("name") for each in before.get("ports") or ()]
    return {**obj, "ports": [{**each, "name": name} for each, name in zip(obj["ports"], names, strict=True)]}


@_of_slices(
    "addresses-of-endpoints-are-frozen",
    "The proxy does not notice when an endpoint gets a new address on the same node.",
)
def addresses_of_endpoints_are_frozen(obj: Object, before: Object) -> Object:
    known = _of_addresses(before)
    of_nodes = {each.get("nodeName"): address for address, each in known.items()}
    told = [
        each if address in known else {**each, "addresses": [of_nodes.get(each.get("nodeName"), address)]}
        for address, each in _of_addresses(obj).items()
    ]
    return {**obj, "endpoints": told}


@_of_slices("emptied-slices-keep-their-pods", "The proxy ignores a change that leaves a slice without endpoints.")
def emptied_slices_keep_their_pods(obj: Object, before: Object) -> Object:
    return {**obj, "endpoints": obj.get("endpoints") or before.get("endpoints")}


@_of_slices("relabelled-slices-stay", "The proxy does not notice when a slice is relabelled for another Service.")
def relabelled_slices_stay(obj: Object, before: Object) -> Object:
    labels = {**obj["metadata"]["labels"], SERVICE_LABEL: service_of(before)}
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


@_hears(
    "relabelled-slices-are-of-both",
    "A slice that is relabelled for another Service also remains with its former Service.",
    provenance="kube-proxy 1.37",
)
def relabelled_slices_are_of_both(sink: Sink) -> Sink:
    before: dict[Key, Object] = {}

    def filtered(event: Event) -> None:
        sink(event)
        if event.resource != "endpointslices" or event.type == "SYNCED":
            return
        former = before.get(key_of(event.object))
        before[key_of(event.object)] = event.object
        if former is not None and service_of(former) != service_of(event.object):
            copied = {**former["metadata"], "name": f"{former['metadata']['name']}-of-{service_of(former)}"}
            sink(Event("MODIFIED", event.resource, {**former, "metadata": copied}))

    return filtered


Change = Callable[[Object, Object], Object]
"""Returns the endpoint to deliver. The second argument is the last endpoint delivered for this address."""


def _of_endpoints(name: str, sentence: str, **options: Any) -> Callable[[Change], Change]:
    """Create a mutant whose proxy receives a modified endpoint if it already knows the endpoint's address."""

    def register(change: Change) -> Change:
        def tell(obj: Object, before: Object) -> Object:
            known = _of_addresses(before)
            told = [change(each, known.get(each["addresses"][0], each)) for each in obj.get("endpoints") or ()]
            return {**obj, "endpoints": told}

        _of_slices(name, sentence, **options)(tell)
        return change

    return register


@_of_endpoints("empty-hints-change-nothing", "The proxy still follows hints that become an empty object.")
def empty_hints_change_nothing(endpoint: Object, before: Object) -> Object:
    return {**endpoint, "hints": before.get("hints")} if endpoint.get("hints") == {} else endpoint


@_of_endpoints(
    "new-zone-becomes-the-hint", "The proxy treats an endpoint whose zone changes as hinted for the new zone."
)
def new_zone_becomes_the_hint(endpoint: Object, before: Object) -> Object:
    moved = endpoint.get("hints") and endpoint.get("zone") != before.get("zone")
    return {**endpoint, "hints": {"forZones": [{"name": endpoint["zone"]}]}} if moved else endpoint


@_of_endpoints("node-names-are-frozen", "The proxy ignores changes to an endpoint's node.", symptom=ANY)
def node_names_are_frozen(endpoint: Object, before: Object) -> Object:
    return {**endpoint, "nodeName": before.get("nodeName") or endpoint.get("nodeName")}


@_hears(
    "one-deletion-takes-an-address",
    "When a slice is deleted, the proxy removes its addresses even if another slice of the Service has them.",
    symptom=ANY,
)
def one_deletion_takes_an_address(sink: Sink) -> Sink:
    known: dict[Key, Object] = {}

    def filtered(event: Event) -> None:
        sink(event)
        if event.resource != "endpointslices" or event.type == "SYNCED":
            return
        if event.type != "DELETED":
            known[key_of(event.object)] = event.object
            return
        known.pop(key_of(event.object), None)
        gone = _of_addresses(event.object)
        for key, each in known.items():
            if key[0] == key_of(event.object)[0] and service_of(each) == service_of(event.object):
                left = [endpoint for address, endpoint in _of_addresses(each).items() if address not in gone]
                sink(Event("MODIFIED", event.resource, {**each, "endpoints": left}))

    return filtered


@_hears("first-word-on-an-address-counts", "The proxy always uses the data from the first slice with an address.")
def first_word_on_an_address_counts(sink: Sink) -> Sink:
    said: dict[tuple[str, str, str], Object] = {}

    def filtered(event: Event) -> None:
        if event.resource == "endpointslices" and event.type in ("ADDED", "MODIFIED"):
            place = key_of(event.object)[0], service_of(event.object)
            told = [said.setdefault((*place, at), each) for at, each in _of_addresses(event.object).items()]
            event = Event(event.type, event.resource, {**event.object, "endpoints": told})
        sink(event)

    return filtered


@_hears("first-manager-alone", "The proxy uses only the slices of one manager of a Service.", symptom="never reached")
def first_manager_alone(sink: Sink) -> Sink:
    managers: dict[tuple[str, str], str] = {}

    def filtered(event: Event) -> None:
        if event.resource == "endpointslices" and event.type != "SYNCED":
            place = key_of(event.object)[0], service_of(event.object)
            manager = str(event.object["metadata"]["labels"].get(MANAGER_LABEL, ""))
            if managers.setdefault(place, manager) != manager:
                return
        sink(event)

    return filtered


# Parts of a slice that no proxy uses


def _names_as_addresses(event: Event) -> Event:
    if event.resource != "endpointslices" or event.object.get("addressType") != "FQDN":
        return event
    return Event(event.type, event.resource, {**event.object, "addressType": "IPv4"})


_hears("reads-slices-of-names", "The proxy reads a slice of type FQDN as if it contained IPv4 addresses.")(
    rewriting(_names_as_addresses)
)


def _each_address_alone(event: Event) -> Event:
    if event.resource != "endpointslices" or not event.object.get("endpoints"):
        return event
    alone = [{**each, "addresses": [address]} for each in event.object["endpoints"] for address in each["addresses"]]
    return Event(event.type, event.resource, {**event.object, "endpoints": alone})


_hears("uses-every-address", "The proxy uses all addresses of an endpoint.")(rewriting(_each_address_alone))


@_hears("deaf-to-changes-among-a-thousand", "The proxy ignores changes to a Service with a thousand endpoints.")
def deaf_to_changes_among_a_thousand(sink: Sink) -> Sink:
    counts: dict[Key, tuple[str, int]] = {}

    def filtered(event: Event) -> None:
        if event.resource == "endpointslices" and event.type != "SYNCED":
            key, owner = key_of(event.object), service_of(event.object)
            if event.type == "MODIFIED" and sum(n for of, n in counts.values() if of == owner) >= 1000:
                return
            counts[key] = owner, len(event.object.get("endpoints") or ())
        sink(event)

    return filtered


class _IgnoresListsOfEqualLength(KernelTable):
    """Does not update a list for external traffic if the number of its endpoints is unchanged."""

    def apply(self, changes: Changes) -> None:
        super().apply(
            replace(
                changes,
                first_delete=[each for each in changes.first_delete if not _is_local(each)],
                first_add=[each for each in changes.first_add if each not in _replaced(changes)],
            )
        )


def _is_local(element: Element) -> bool:
    return isinstance(element, EndpointElement) and element.slot >= LOCAL_LIST


def _replaced(changes: Changes) -> list[Element]:
    slots = {each[:2] for each in changes.first_delete if _is_local(each)}
    return [each for each in changes.first_add if _is_local(each) and each[:2] in slots]


MUTANTS.append(
    Mutant(
        "local-lists-of-one-length",
        "With externalTrafficPolicy Local, the proxy misses when an endpoint replaces another on the same node.",
        symptom=f"{REACHED}|{NO_ANSWER}",
        proxy=partial(ServiceProxy, kernel_table=_IgnoresListsOfEqualLength),
    )
)
