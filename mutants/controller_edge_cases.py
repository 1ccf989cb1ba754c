"""Controllers that fail in edge cases: a missing Node, an emptied slice, a write by another client, or a delay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mutants.client_wrappers import (
    ClientWrapper,
    FilteringClient,
    Sink,
    controller_hearing,
    controller_through,
    rewriting,
)
from mutants.controllers import all_are_ours
from mutants.mutant import Mutant
from mutants.wrong_plans import Nodes, PlanMutantRegistry, Planner, Pods, rewritten, with_spec, without
from reference.client import ApiError, Client, Event, Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.labels import (
    TOPOLOGY_AWARE_HINTS,
    TOPOLOGY_MODE,
    service_name,
)
from reference.endpointslice.plan import SlicePlan, plan_service

MUTANTS: list[Mutant] = []

_faults = PlanMutantRegistry(MUTANTS)

HOST_NAME = "kubernetes.io/hostname"


def unasked(service: Object) -> Object:
    """Return the Service as if it had neither the annotation nor the field."""
    named = (service["metadata"].get("annotations") or {}).items()
    annotations = {key: value for key, value in named if key not in (TOPOLOGY_MODE, TOPOLOGY_AWARE_HINTS)}
    bare = {**service, "metadata": {**service["metadata"], "annotations": annotations}}
    return with_spec(bare, trafficDistribution=None)


# Pods and their Nodes


@_faults.miswrites(
    "terminating-pod-serves-anyhow", "The controller marks terminating endpoints as serving even if they are not ready."
)
def terminating_pod_serves_anyhow(service: Object, endpoint: Object) -> Object:
    conditions = endpoint["conditions"]
    return {**endpoint, "conditions": {**conditions, "serving": conditions["serving"] or conditions["terminating"]}}


@_faults.misplans(
    "lost-pod-holds-up-its-service",
    "While the Node of one pod is missing, the controller writes nothing for its Service.",
)
def lost_pod_holds_up_its_service(*arguments: Any, **options: Any) -> SlicePlan:
    right = plan_service(*arguments, **options)
    return replace(right, create=(), update=(), delete=()) if right.missing_nodes else right


@_faults.remembers(
    "lost-pod-keeps-its-zone", "A pod whose Node is missing remains an endpoint in the former zone of the Node."
)
def lost_pod_keeps_its_zone() -> Planner:
    known: dict[str, Object] = {}

    def plan(service: Object, pods: Pods, nodes: Nodes, *others: Any, **options: Any) -> SlicePlan:
        known.update(nodes)
        return plan_service(service, pods, dict(known), *others, **options)

    return plan


@_faults.misplans(
    "leaves-out-every-lost-pod",
    "The controller leaves out a pod whose Node is missing, even with publishNotReadyAddresses.",
)
def leaves_out_every_lost_pod(service: Object, pods: Pods, nodes: Nodes, *others: Any, **options: Any) -> SlicePlan:
    if service["spec"].get("publishNotReadyAddresses"):
        pods = [each for each in pods if each["spec"].get("nodeName", "") in nodes]
    return plan_service(service, pods, nodes, *others, **options)


@_faults.misplans("lost-pod-ends-hints", "While the Node of one pod is missing, its Service gets no hints.")
def lost_pod_ends_hints(service: Object, *others: Any, **options: Any) -> SlicePlan:
    right = plan_service(service, *others, **options)
    return plan_service(unasked(service), *others, **options) if right.missing_nodes else right


@_faults.misplans("second-family-is-frozen", "The controller never changes an IPv6 slice after creating it.")
def second_family_is_frozen(
    service: Object, pods: Pods, nodes: Nodes, existing: Iterable[Object], **options: Any
) -> SlicePlan:
    existing = list(existing)
    right = plan_service(service, pods, nodes, existing, **options)
    there = any(each["addressType"] == "IPv6" and each["endpoints"] for each in existing)

    if not there:
        return right
    create, update, delete = (
        tuple(each for each in slices if each["addressType"] != "IPv6")
        for slices in (right.create, right.update, right.delete)
    )
    return replace(right, create=create, update=update, delete=delete)


@_faults.misplans(
    "never-empties-a-slice",
    "If all endpoints of one of several slices are removed, the controller does not change that slice.",
)
def never_empties_a_slice(
    service: Object, pods: Pods, nodes: Nodes, existing: Iterable[Object], **options: Any
) -> SlicePlan:
    existing = list(existing)
    right = plan_service(service, pods, nodes, existing, **options)
    return replace(right, delete=()) if len(existing) > 1 else right


# Hints


@_faults.misplans(
    "refused-annotation-falls-through",
    "If the annotation yields no hints, the controller adds hints for trafficDistribution.",
)
def refused_annotation_falls_through(service: Object, *others: Any, **options: Any) -> SlicePlan:
    right = plan_service(service, *others, **options)
    field = service["spec"].get("trafficDistribution")
    if not field or not any(each.refusal for each in right.families.values()):
        return right
    return plan_service(with_spec(unasked(service), trafficDistribution=field), *others, **options)


@_faults.misplans(
    "hints-by-host-name", "The controller writes hostnames of nodes instead of node names in hints.", "kubernetes#71851"
)
def hints_by_host_name(service: Object, pods: Pods, nodes: Nodes, *others: Any, **options: Any) -> SlicePlan:
    names = {name: (node["metadata"].get("labels") or {}).get(HOST_NAME, name) for name, node in nodes.items()}

    def named(endpoint: Object) -> Object:
        hints = endpoint.get("hints") or {}
        own = [{"name": names.get(each["name"], each["name"])} for each in hints.get("forNodes", ())]
        return {**endpoint, "hints": {**hints, "forNodes": own}} if own else endpoint

    right = plan_service(service, pods, nodes, *others, **options)
    return rewritten(right, lambda each: {**each, "endpoints": list(map(named, each["endpoints"]))})


# Slices and the clients that write them


def _looks_away(sink: Sink) -> Sink:
    """Drop events of slices that another client changes."""

    def filtered(event: Event) -> None:
        if (event.resource, event.type) != ("endpointslices", "MODIFIED"):
            sink(event)

    return filtered


_faults.of_controller(
    "looks-away-from-its-slices",
    "The controller does not undo changes that other clients make to its slices.",
    "",
    controller_hearing(_looks_away),
)
_faults.of_controller(
    "takes-over-what-names-its-service",
    "The controller deletes slices that it did not create, if their Service has a selector.",
    "",
    controller_hearing(rewriting(all_are_ours)),
)


class _WritesHintsInTwoSteps(ClientWrapper):
    """Writes each slice with hints in two steps: first without its last endpoint, and then complete."""

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        if not _is_hinted(obj):
            return self._client.create(resource, namespace, obj)
        stored = self._client.create(resource, namespace, _shortened(obj))
        return self._client.update(resource, namespace, {**stored, "endpoints": obj["endpoints"]})

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        if not _is_hinted(obj):
            return self._client.update(resource, namespace, obj)
        stored = self._client.update(resource, namespace, _shortened(obj))
        return self._client.update(resource, namespace, {**stored, "endpoints": obj["endpoints"]})


def _is_hinted(obj: Object) -> bool:
    return any("hints" in each for each in obj.get("endpoints") or ())


def _shortened(obj: Object) -> Object:
    return {**obj, "endpoints": obj["endpoints"][:-1]}


_faults.of_controller(
    "writes-hinted-slices-twice",
    "The controller first writes a slice with hints without its last endpoint, and then adds this endpoint.",
    "",
    controller_through(_WritesHintsInTwoSteps),
)


class _RewritesOnNodeEvents(EndpointSliceController):
    """Writes all slices of all Services when any Node is written."""

    def __init__(self, client: Client, **options: Any) -> None:
        super().__init__(client, plan=self._plan, **options)
        self._node_events = 0

    def _queue(self, event: Event) -> None:
        super()._queue(event)
        if event.resource == "nodes" and self._has_state:
            self._node_events += 1
            for key in self._index.services:
                self._work.add(key)

    def _plan(self, service: Object, pods: Pods, nodes: Nodes, existing: Iterable[Object], **options: Any) -> SlicePlan:
        existing = list(existing)
        right = plan_service(service, pods, nodes, existing, **options)
        if not right.is_empty or not self._node_events:
            return right
        note = {"example.org/node-events": str(self._node_events)}
        others = [each for each in existing if each["metadata"].get("annotations") != note]
        return replace(right, update=tuple(_noted(each, note) for each in others))


def _noted(each: Object, annotations: Object) -> Object:
    return {**each, "metadata": {**each["metadata"], "annotations": annotations}}


_faults.of_controller(
    "rewrites-at-any-node-event", "The controller writes all slices after every Node event.", "", _RewritesOnNodeEvents
)


# Time


LATER = 0.3  # seconds


def _wrong_after(seconds: float) -> Callable[..., EndpointSliceController]:
    """Return a controller that permanently removes hints some time after it wrote them, but reports that it is idle."""

    def make(client: Client, **options: Any) -> EndpointSliceController:
        turned: set[str] = set()  # names of Services; a test never uses a name twice

        def plan(service: Object, *others: Any, **more: Any) -> SlicePlan:
            key = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
            return plan_service(unasked(service) if key in turned else service, *others, **more)

        return EndpointSliceController(_RemovesHintsLater(client, seconds, turned), plan=plan, **options)

    return make


class _RemovesHintsLater(ClientWrapper):
    """Writes slices, and later removes the hints of their Services."""

    def __init__(self, client: Client, seconds: float, turned: set[str]) -> None:
        super().__init__(client)
        self._seconds = seconds
        self._turned = turned

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        return self._later(resource, namespace, self._client.create(resource, namespace, obj))

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        return self._later(resource, namespace, self._client.update(resource, namespace, obj))

    def _later(self, resource: str, namespace: str, stored: Object) -> Object:
        if resource == "endpointslices" and _is_hinted(stored):
            timer = threading.Timer(self._seconds, self._turn, (namespace, stored))
            timer.daemon = True
            timer.start()
        return stored

    def _turn(self, namespace: str, stored: Object) -> None:
        self._turned.add(f"{namespace}/{service_name(stored)}")
        with suppress(ApiError, OSError):  # it may have been deleted or changed
            bare = [without(each, "hints") for each in stored["endpoints"]]
            self._client.update("endpointslices", namespace, {**stored, "endpoints": bare})


_faults.of_controller(
    "right-then-wrong-later", f"Hints are removed {LATER:g} s after they were written.", "", _wrong_after(LATER)
)
_faults.of_controller(
    "right-then-wrong-soon", "The controller removes hints 60 ms after it wrote them.", "", _wrong_after(0.06)
)


class _SkipsWrites(ClientWrapper):
    """Skips a write, and assumes that the write happened."""

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        if resource != "endpointslices":
            return self._client.create(resource, namespace, obj)
        known = {
            "name": obj["metadata"]["generateName"],
            "uid": obj["metadata"]["generateName"],
            "resourceVersion": "1",
        }
        return {**obj, "metadata": {**obj["metadata"], **known}}

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        return obj if resource == "endpointslices" else self._client.update(resource, namespace, obj)


_faults.of_controller("does-nothing", "The controller never writes a slice.", "", controller_through(_SkipsWrites))


def _tires_after(changes: int, *, for_each_service: bool) -> Callable[..., EndpointSliceController]:
    """Return a controller that writes no hints after this many pod changes, counted in total or for each Service."""

    def make(client: Client, **options: Any) -> EndpointSliceController:
        services = heard = 0

        def listening(event: Event) -> Event:
            nonlocal services, heard
            match event.resource, event.type:
                case "services", "ADDED":
                    services += 1
                case "services", "DELETED":
                    services -= 1
                case "pods", "MODIFIED":
                    heard += services if for_each_service else 1
            return event

        def plan(service: Object, *others: Any, **more: Any) -> SlicePlan:
            return plan_service(unasked(service) if heard > changes else service, *others, **more)

        return EndpointSliceController(FilteringClient(client, rewriting(listening)), plan=plan, **options)

    return make


_faults.of_controller(
    "tires-after-a-hundred-changes",
    "The controller writes no hints after a hundred pod changes.",
    "",
    _tires_after(100, for_each_service=False),
)
_faults.of_controller(
    "tires-after-a-thousand-changes",
    "The controller writes no hints after a thousand pod changes, counted once for each Service.",
    "",
    _tires_after(1000, for_each_service=True),
)
