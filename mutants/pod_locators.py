"""PodLocator controllers with one fault each (KEP-536)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from mutants.client_wrappers import ClientWrapper
from mutants.mutant import WRITTEN, Mutant
from reference.client import Client, Event, Key, Object, key_of
from reference.pod_locator import PodLocatorController
from reference.pod_locator.controller import PodLocatorIndex
from reference.pod_locator.location import says

KNOWN = ("kubernetes.io/hostname", "topology.kubernetes.io/region", "topology.kubernetes.io/zone")

MUTANTS: list[Mutant] = []

Wanted = Callable[[Object, Object | None], Object]


class _WrongLocations(PodLocatorIndex):
    """Computes wrong fields of a locator. The arguments of `want` are the correct fields and the current fields."""

    def __init__(self, want: Wanted) -> None:
        super().__init__()
        self._want = want

    def wanted(self, key: Key) -> Object | None:
        right, locator = super().wanted(key), self.locator(key)
        return right if right is None else self._want(right, None if locator is None else says(locator))


def _fault(name: str, sentence: str) -> Callable[[Wanted], Wanted]:
    def register(want: Wanted) -> Wanted:
        def controller(client: Client) -> PodLocatorController:
            return PodLocatorController(client, locations=_WrongLocations(want))

        MUTANTS.append(Mutant(name, sentence, symptom=WRITTEN, pod_locators=controller))
        return want

    return register


@_fault("locator-has-one-address", "A PodLocator has only the first address of its pod.")
def _locator_has_one_address(right: Object, _: Object | None) -> Object:
    return {**right, "ips": right["ips"][:1]}


@_fault("locator-has-known-labels-only", "PodLocators have only the well-known Kubernetes labels.")
def _locator_has_known_labels_only(right: Object, _: Object | None) -> Object:
    labels: Mapping[str, str] = right["nodeLabels"]
    return {**right, "nodeLabels": {key: labels[key] for key in KNOWN if key in labels}}


@_fault("locator-misses-a-second-address", "A PodLocator never gets an address that its pod gets after the first.")
def _locator_misses_a_second_address(right: Object, there: Object | None) -> Object:
    later = there is not None and there["ips"] and {*there["ips"]} < {*right["ips"]}
    return {**right, "ips": there["ips"]} if there is not None and later else right


@_fault("locator-is-written-once", "A PodLocator never changes after its creation.")
def _locator_is_written_once(right: Object, there: Object | None) -> Object:
    return right if there is None else there


@_fault(
    "locator-keeps-the-first-labels", "A PodLocator always has the labels that the node had when the pod was scheduled."
)
def _locator_keeps_the_first_labels(right: Object, there: Object | None) -> Object:
    stays = there is not None and there["nodeName"] and there["nodeName"] == right["nodeName"]
    return {**right, "nodeLabels": there["nodeLabels"]} if there is not None and stays else right


@_fault("locator-loses-no-label", "A label that is removed from a node remains in PodLocators.")
def _locator_loses_no_label(right: Object, there: Object | None) -> Object:
    if there is None or there["nodeName"] != right["nodeName"]:
        return right
    return {**right, "nodeLabels": {**there["nodeLabels"], **right["nodeLabels"]}}


@_fault("locator-keeps-a-deleted-node", "PodLocators still contain the name of a deleted node.")
def _locator_keeps_a_deleted_node(right: Object, there: Object | None) -> Object:
    if there is None or right["nodeName"]:
        return right
    return {**right, "nodeName": there["nodeName"], "nodeLabels": there["nodeLabels"]}


@_fault("locator-misses-the-binding", "The PodLocator of a pod that is scheduled later never gets a node name.")
def _locator_misses_the_binding(right: Object, there: Object | None) -> Object:
    unbound = there is not None and not there["nodeName"]
    return {**right, "nodeName": "", "nodeLabels": {}} if unbound else right


@_fault("locator-believes-what-it-says", "The controller does not correct a PodLocator with a wrong node name.")
def _locator_believes_what_it_says(right: Object, there: Object | None) -> Object:
    elsewhere = there is not None and there["nodeName"] and there["nodeName"] != right["nodeName"]
    return there if there is not None and elsewhere and right["nodeName"] else right


class _WritesOnEveryEvent(_WrongLocations):
    """Treats every event of a pod as a change, and reverses the addresses if they are unchanged."""

    def __init__(self) -> None:
        super().__init__(_turned)

    def apply(self, event: Event) -> Collection[Key]:
        keys = super().apply(event)
        return (key_of(event.object),) if event.resource == "pods" else keys


def _turned(right: Object, there: Object | None) -> Object:
    turned = {**right, "ips": right["ips"][::-1]}
    return turned if there == right else right


class _NeverDeletesLocators(PodLocatorController):
    def _delete(self, key: Key, existing: Object) -> None:
        self._locations.deleted(existing)


class _IgnoresExistingPods(PodLocatorController):
    def _take_in(self, event: Event) -> None:
        if event.type != "SYNCED":
            super()._take_in(event)


class _RenamingClient(ClientWrapper):
    """A client that renames objects on write."""

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        name = obj["metadata"]["name"]
        made = self._client.create(resource, namespace, {**obj, "metadata": {"name": f"pod-{name}"}})
        return {**made, "metadata": {**made["metadata"], "name": name}}


MUTANTS += [
    Mutant(
        "locator-is-written-for-every-event",
        "The controller writes a PodLocator for every event of its pod.",
        symptom=WRITTEN,
        pod_locators=lambda client: PodLocatorController(client, locations=_WritesOnEveryEvent()),
    ),
    Mutant(
        "locator-is-never-deleted",
        "The PodLocators of deleted pods remain.",
        symptom=WRITTEN,
        pod_locators=_NeverDeletesLocators,
    ),
    Mutant(
        "locator-has-another-name",
        "PodLocators have other names than their pods.",
        symptom=WRITTEN,
        pod_locators=lambda client: PodLocatorController(_RenamingClient(client)),
    ),
    Mutant(
        "locator-of-new-pods-alone",
        "On start, the PodLocator controller ignores existing pods, and existing PodLocators whose pod is deleted.",
        symptom=WRITTEN,
        pod_locators=_IgnoresExistingPods,
    ),
]
