"""EndpointSlice controllers with one fault each, in endpoints, in slices, or in the objects that they read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from harness.model.manifests import has_condition
from mutants.client_wrappers import controller_hearing, rewriting
from mutants.mutant import NO_ANSWER, Mutant
from mutants.wrong_plans import Nodes, PlanMutantRegistry, Planner, Pods, rewritten, with_spec, without
from reference.client import Event, Key, Object, key_of
from reference.endpointslice.hints import NoHints
from reference.endpointslice.labels import CONTROLLER, MANAGED_BY
from reference.endpointslice.plan import SlicePlan, plan_service, selects_pods

MUTANTS: list[Mutant] = []

_faults = PlanMutantRegistry(MUTANTS)


# Endpoints


@_faults.miswrites("endpoints-without-zone", "The controller writes no zones for endpoints.", "passbolt#117")
def endpoints_without_zone(service: Object, endpoint: Object) -> Object:
    return without(endpoint, "zone")


@_faults.miswrites("references-without-namespace", "The controller writes no namespace in targetRef.")
def references_without_namespace(service: Object, endpoint: Object) -> Object:
    return {**endpoint, "targetRef": without(endpoint["targetRef"], "namespace")}


@_faults.miswrites("terminating-means-ready", "The controller marks terminating endpoints that are serving as ready.")
def terminating_means_ready(service: Object, endpoint: Object) -> Object:
    conditions = endpoint["conditions"]
    serves = conditions["terminating"] and conditions["serving"]
    return {**endpoint, "conditions": {**conditions, "ready": True}} if serves else endpoint


@_faults.misplans("ignores-publish-not-ready", "The controller ignores publishNotReadyAddresses.")
def ignores_publish_not_ready(service: Object, *others: Any, **options: Any) -> SlicePlan:
    return plan_service(with_spec(service, publishNotReadyAddresses=None), *others, **options)


@_faults.miswrites(
    "published-means-serving",
    "The controller marks unready endpoints as serving if publishNotReadyAddresses is set.",
    "istio#60422",
)
def published_means_serving(service: Object, endpoint: Object) -> Object:
    conditions = endpoint["conditions"]
    published = bool(service["spec"].get("publishNotReadyAddresses"))
    return {**endpoint, "conditions": {**conditions, "serving": conditions["serving"] or published}}


@_faults.misplans("keeps-ended-pods", "Pods that have ended remain endpoints.")
def keeps_ended_pods(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
    running = [{**pod, "status": {**pod["status"], "phase": "Running"}} for pod in pods]
    return plan_service(service, running, *others, **options)


@_faults.remembers("keeps-former-pods", "Pods that no longer match or are deleted remain endpoints.")
def keeps_former_pods() -> Planner:
    known: dict[str, dict[str, Object]] = {}

    def plan(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
        present = {pod["metadata"]["name"]: pod for pod in pods}
        kept = known[service["metadata"]["uid"]] = present | {
            name: pod for name, pod in known.get(service["metadata"]["uid"], {}).items() if name not in present
        }
        return plan_service(service, kept.values(), *others, **options)

    return plan


@_faults.misplans("leaves-out-what-does-not-fit", "The controller leaves out endpoints that do not fit into one slice.")
def leaves_out_what_does_not_fit(
    service: Object, pods: Pods, nodes: Nodes, existing: Iterable[Object], **options: Any
) -> SlicePlan:
    existing = list(existing)
    right = plan_service(service, pods, nodes, existing, **options)
    there, create = [_kind(each) for each in (*existing, *right.update)], []
    for each in right.create:
        if _kind(each) not in there:
            there.append(_kind(each))
            create.append(each)
    return replace(right, create=tuple(create))


def _kind(each: Object) -> tuple[str, object]:
    """Return the group of slices that a pod may move between."""
    return each["addressType"], each["ports"]


@_faults.misplans("overlapping-slices", "One endpoint of the largest slice is also in all other slices.")
def overlapping_slices(
    service: Object, pods: Pods, nodes: Nodes, existing: Iterable[Object], **options: Any
) -> SlicePlan:
    existing = list(existing)
    nothing: Object = {"metadata": {}, "endpoints": []}
    largest = max(existing, key=lambda each: len(each["endpoints"]), default=nothing)
    again = largest["endpoints"][:1]

    def changed(each: Object, *more: Object) -> Object:
        if each["metadata"].get("name") == largest["metadata"].get("name", ""):
            return each
        return {**each, "endpoints": [*(one for one in each["endpoints"] if one not in again), *more]}

    right = plan_service(service, pods, nodes, list(map(changed, existing)), **options)
    return rewritten(right, lambda each: changed(each, *again))


@_faults.misplans("named-ports-resolve-once", "The first pod determines the number of a named port for all pods.")
def named_ports_resolve_once(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
    pods = list(pods)
    first = sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))[:1]
    names = {port["name"]: port["containerPort"] for pod in first for port in pod["spec"]["containers"][0]["ports"]}
    ports = [
        {**port, "targetPort": names.get(port["targetPort"], port["targetPort"])} for port in service["spec"]["ports"]
    ]
    return plan_service(with_spec(service, ports=ports), pods, *others, **options)


@_faults.misplans(
    "pods-without-the-named-port-fail-the-sync", "The sync of a Service fails while a pod lacks a named target port."
)
def pods_without_the_named_port_fail_the_sync(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
    pods = list(pods)
    named = {port["targetPort"] for port in service["spec"].get("ports") or () if isinstance(port["targetPort"], str)}
    for pod in pods:
        containers = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]
        missing = named - {port.get("name") for each in containers for port in each.get("ports") or ()}
        if missing:
            raise ValueError(f"no port {missing}")
    return plan_service(service, pods, *others, **options)


@_faults.remembers(
    "addresses-of-pods-are-frozen", "The controller misses a change to a pod's addresses while the first address stays."
)
def addresses_of_pods_are_frozen() -> Planner:
    known: dict[tuple[str, str], object] = {}

    def plan(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
        frozen = []
        for pod in pods:
            ips = pod["status"].get("podIPs")
            if ips:
                ips = known.setdefault((pod["metadata"]["name"], ips[0]["ip"]), ips)
                pod = {**pod, "status": {**pod["status"], "podIPs": ips}}  # noqa: PLW2901
            frozen.append(pod)
        return plan_service(service, frozen, *others, **options)

    return plan


@_faults.misplans("one-family-only", "The controller writes no slices for the second IP family.")
def one_family_only(service: Object, *others: Any, **options: Any) -> SlicePlan:
    families = service["spec"].get("ipFamilies") or ["IPv4"]
    return plan_service(with_spec(service, ipFamilies=families[:1]), *others, **options)


@_faults.misplans(
    "one-family-unless-two-are-required",
    "The controller writes no slices for the second IP family if ipFamilyPolicy is PreferDualStack.",
)
def one_family_unless_two_are_required(service: Object, *others: Any, **options: Any) -> SlicePlan:
    prefers = service["spec"].get("ipFamilyPolicy") == "PreferDualStack"
    return (one_family_only if prefers else plan_service)(service, *others, **options)


@_faults.remembers("writes-without-need", "Every sync of a Service rewrites its slices.")
def writes_without_need() -> Planner:
    return _rewriting(lambda _: True)


@_faults.remembers("rewrites-node-hints", "Every sync of a Service rewrites slices that have node hints.")
def rewrites_node_hints() -> Planner:
    return _rewriting(lambda each: any("forNodes" in one.get("hints", {}) for one in each["endpoints"]))


@_faults.remembers(
    "rewrites-slices-without-ports", "Every sync of a Service rewrites slices that have no ports.", "kubernetes#133474"
)
def rewrites_slices_without_ports() -> Planner:
    return _rewriting(lambda each: not each.get("ports"))


def _rewriting(some: Callable[[Object], bool]) -> Planner:
    """Return a planner that also rewrites unchanged slices of the Service that match `some`."""
    numbers = itertools.count(1)

    def plan(service: Object, pods: Pods, nodes: Nodes, existing: Iterable[Object], **options: Any) -> SlicePlan:
        existing = list(existing)
        right = plan_service(service, pods, nodes, existing, **options)
        changed = {each["metadata"]["name"] for each in (*right.update, *right.delete)}
        untouched = [each for each in existing if each["metadata"]["name"] not in changed and some(each)]
        return replace(right, update=(*right.update, *(_annotated(each, next(numbers)) for each in untouched)))

    return plan


def _annotated(obj: Object, number: int) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "annotations": {"example.org/look": str(number)}}}


# Objects that belong to other controllers or users


def _labelled(obj: Object, labels: Mapping[str, str]) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "labels": {**(obj["metadata"].get("labels") or {}), **labels}}}


def _everything_matches(event: Event) -> Event:
    everyone = {"example.org/pod": "any"}
    match event:
        case Event(kind, "pods", pod):
            return Event(kind, "pods", _labelled(pod, everyone))
        case Event(kind, "services", service) if not service["spec"].get("selector"):
            return Event(kind, "services", with_spec(service, selector=everyone))
    return event


_faults.of_controller(
    "no-selector-means-every-pod",
    "The controller adds every pod in the namespace as an endpoint to a Service without a selector.",
    "",
    controller_hearing(rewriting(_everything_matches)),
)


def _aliases_are_headless(event: Event) -> Event:
    match event:
        case Event(kind, "services", service) if service["spec"].get("type") == "ExternalName":
            return Event(kind, "services", with_spec(service, type="ClusterIP", clusterIP="None"))
    return event


_faults.of_controller(
    "endpoints-of-any-type",
    "The controller writes endpoints for a Service of type ExternalName that has a selector.",
    "",
    controller_hearing(rewriting(_aliases_are_headless)),
)


def all_are_ours(event: Event) -> Event:
    """Return the event as if the controller managed every slice."""
    if event.resource != "endpointslices":
        return event
    return Event(event.type, event.resource, _labelled(event.object, {MANAGED_BY: CONTROLLER}))


def _clears_hints(service: Object, pods: Pods, nodes: Nodes, existing: Iterable[Object], **options: Any) -> SlicePlan:
    if selects_pods(service):
        return plan_service(service, pods, nodes, existing, **options)
    hinted = [each for each in existing if any("hints" in endpoint for endpoint in each["endpoints"])]
    cleared = [{**each, "endpoints": [without(one, "hints") for one in each["endpoints"]]} for each in hinted]
    return SlicePlan((), tuple(cleared), (), (), NoHints("these are all mine"))


_faults.of_controller(
    "takes-slices-of-others",
    "The controller takes over slices of other managers and removes their hints.",
    "",
    controller_hearing(rewriting(all_are_ours), plan=_clears_hints),
)


@_faults.misplans(
    "ready-by-containers",
    "The controller treats a pod as ready while its containers are ready, whatever the state of its node.",
    symptom=NO_ANSWER,
)
def ready_by_containers(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
    def judged(pod: Object) -> Object:
        ready = "True" if has_condition(pod, "ContainersReady") else "False"
        conditions = [{**each, "status": ready} for each in pod.get("status", {}).get("conditions") or ()]
        return {**pod, "status": {**pod.get("status", {}), "conditions": conditions}}

    return plan_service(service, [judged(each) for each in pods], *others, **options)


# Pods that a selector does not match


def _by_first_label(event: Event) -> Event:
    selector = event.object.get("spec", {}).get("selector") if event.resource == "services" else None
    if not selector:
        return event
    first = dict(sorted(selector.items())[:1])
    return Event(event.type, event.resource, with_spec(event.object, selector=first))


_faults.of_controller(
    "first-label-alone-selects",
    "A pod that matches only the first label of a selector becomes an endpoint.",
    "",
    controller_hearing(rewriting(_by_first_label)),
)


@_faults.remembers("selects-in-every-namespace", "A selector also matches pods in other namespaces.")
def selects_in_every_namespace() -> Planner:
    known: dict[Key, Object] = {}

    def plan(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
        own, selector = list(pods), service["spec"].get("selector") or {}
        known.update({key_of(pod): pod for pod in own})
        own += [
            pod
            for (namespace, _), pod in known.items()
            if namespace != service["metadata"]["namespace"]
            and selector.items() <= (pod["metadata"].get("labels") or {}).items()
        ]
        return plan_service(service, own, *others, **options)

    return plan
