"""Controllers with correct endpoints, but wrong sizes, owners or labels of slices, or wrong slices of other
managers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from mutants.client_wrappers import Sink, controller_hearing, rewriting
from mutants.controllers import all_are_ours
from mutants.mutant import Mutant
from mutants.wrong_plans import Nodes, PlanMutantRegistry, Pods, without
from reference.client import Client, Event, Key, Object, key_of
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.endpoints import is_ready
from reference.endpointslice.index import SliceIndex
from reference.endpointslice.labels import CONTROLLER, MANAGED_BY
from reference.endpointslice.plan import MAX_ENDPOINTS_PER_SLICE, SlicePlan, plan_service

MUTANTS: list[Mutant] = []

_faults = PlanMutantRegistry(MUTANTS)


# Slices


@_faults.misplans(
    "unready-endpoints-need-no-room", "Endpoints that are not ready do not count towards the size of a slice."
)
def unready_endpoints_need_no_room(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
    pods = list(pods)
    most = options.pop("max_endpoints", MAX_ENDPOINTS_PER_SLICE) + sum(not is_ready(pod) for pod in pods)
    return plan_service(service, pods, *others, **options, max_endpoints=most)


def _managed_by(obj: Object) -> str:
    return str((obj["metadata"].get("labels") or {}).get(MANAGED_BY, ""))


@_faults.misplans("adds-to-full-slices", "A slice that is full gets one more endpoint when the controller writes it.")
def adds_to_full_slices(service: Object, pods: Pods, nodes: Nodes, existing: Pods, **options: Any) -> SlicePlan:
    existing = list(existing)
    most = options.pop("max_endpoints", MAX_ENDPOINTS_PER_SLICE)
    most += any(len(each.get("endpoints") or ()) == most for each in existing)
    return plan_service(service, pods, nodes, existing, **options, max_endpoints=most)


_faults.of_controller(
    "compares-managers-by-prefix",
    "The controller takes slices for its own if the first characters of the label managed-by are those of its name.",
    "",
    controller_hearing(
        rewriting(
            lambda event: (
                all_are_ours(event)
                if event.type != "SYNCED" and _managed_by(event.object).startswith(CONTROLLER[:13])
                else event
            )
        )
    ),
)

_faults.of_controller(
    "deletes-slices-without-a-manager",
    "The controller treats slices without the label managed-by as its own, and deletes them.",
    "",
    controller_hearing(
        rewriting(
            lambda event: (
                event
                if event.type == "SYNCED" or MANAGED_BY in (event.object["metadata"].get("labels") or {})
                else all_are_ours(event)
            )
        )
    ),
)


@_faults.misplans(
    "adopts-slices-by-name", "A recreated Service takes over the slices of the deleted Service with the same name."
)
def adopts_slices_by_name(service: Object, pods: Pods, nodes: Nodes, existing: Pods, **options: Any) -> SlicePlan:
    existing = list(existing)
    owners = {each["metadata"]["name"]: each["metadata"].get("ownerReferences") for each in existing}

    def owned(each: Object, uid: str) -> Object:
        references = [{**owner, "uid": uid} for owner in each["metadata"].get("ownerReferences") or ()]
        return {**each, "metadata": {**each["metadata"], "ownerReferences": references}}

    adopted = [owned(each, service["metadata"].get("uid", "")) for each in existing]
    right = plan_service(service, pods, nodes, adopted, **options)
    kept = tuple(
        {**each, "metadata": {**each["metadata"], "ownerReferences": owners[each["metadata"]["name"]]}}
        for each in right.update
    )
    return replace(right, update=kept)


class _IgnoresLostSlices(SliceIndex):
    def _lost(self, old: Object | None, new: Object) -> Collection[Key]:
        super()._lost(old, new)
        return ()


def _forgetful(client: Client, **options: Any) -> EndpointSliceController:
    made = EndpointSliceController(client, **options)
    made._index.slices = _IgnoresLostSlices()
    return made


_faults.of_controller(
    "deleted-slices-stay-away",
    "The controller does not replace slices that another client deletes.",
    "",
    _forgetful,
)


def _late_labels(sink: Sink) -> Sink:
    """Drop events of Services that differ only in labels."""
    known: dict[Key, Object] = {}

    def heard(event: Event) -> None:
        if event.type != "SYNCED" and event.resource == "services":
            key, before = key_of(event.object), known.get(key_of(event.object))
            known[key] = event.object
            if event.type == "MODIFIED" and before is not None and _unlabelled(before) == _unlabelled(event.object):
                return
        sink(event)

    return heard


def _unlabelled(service: Object) -> Object:
    metadata = without(service["metadata"], "labels", "resourceVersion", "managedFields")
    return {**service, "metadata": metadata}


_faults.of_controller(
    "labels-of-services-come-late",
    "Changed labels of a Service reach its slices only with another change.",
    "",
    controller_hearing(_late_labels),
)


# Pods


@_faults.miswrites(
    "terminating-pods-are-not-published", "With publishNotReadyAddresses, endpoints of terminating pods are not ready."
)
def terminating_pods_are_not_published(service: Object, endpoint: Object) -> Object:
    conditions = endpoint["conditions"]
    return {**endpoint, "conditions": {**conditions, "ready": conditions["ready"] and not conditions["terminating"]}}
