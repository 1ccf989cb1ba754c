"""EndpointSlice controllers with one fault each: in the plan, or in the objects that it is made from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from harness.model.manifests import has_condition
from mutants.mutant import NO_ANSWER, WRITTEN, Mutant
from reference.apiserver import ApiServer
from reference.client import Client, Event, Object, Subscription
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.hints import NoHints
from reference.endpointslice.labels import (
    CONTROLLER,
    MANAGED_BY,
    TOPOLOGY_AWARE_HINTS,
    TOPOLOGY_MODE,
    node_zone,
)
from reference.endpointslice.plan import Plan, plan_service, selects_pods

MUTANTS: list[Mutant] = []

Pods = Iterable[Object]
Nodes = Mapping[str, Object]
Planner = Callable[..., Plan]
"""A function called as `plan_service`."""

Write = Callable[[Object, Object], Object]
"""Returns the endpoint to write instead, given the Service and the endpoint that is about to be written."""


def _register(
    name: str,
    sentence: str,
    provenance: str,
    controller: Callable[..., EndpointSliceController],
    symptom: str = WRITTEN,
) -> None:
    MUTANTS.append(Mutant(name, sentence, provenance, symptom, controller=controller))


def _misplans(name: str, sentence: str, provenance: str = "", symptom: str = WRITTEN) -> Callable[[Planner], Planner]:
    def register(plan: Planner) -> Planner:
        _register(name, sentence, provenance, partial(EndpointSliceController, plan=plan), symptom)
        return plan

    return register


def _remembers(
    name: str, sentence: str, provenance: str = ""
) -> Callable[[Callable[[], Planner]], Callable[[], Planner]]:
    """Make a mutant of a function that makes a planner with a memory of its own for each controller."""

    def register(make: Callable[[], Planner]) -> Callable[[], Planner]:
        def controller(client: Client, **options: Any) -> EndpointSliceController:
            return EndpointSliceController(client, plan=make(), **options)

        _register(name, sentence, provenance, controller)
        return make

    return register


def _miswrites(name: str, sentence: str, provenance: str = "") -> Callable[[Write], Write]:
    def register(write: Write) -> Write:
        def plan(service: Object, pods: Pods, nodes: Nodes, existing: Iterable[Object], **options: Any) -> Plan:
            right = plan_service(service, pods, nodes, existing, **options)

            def rewritten(each: Object) -> Object:
                return {**each, "endpoints": [write({**service, "slice": each}, one) for one in each["endpoints"]]}

            return replace(
                right, create=tuple(map(rewritten, right.create)), update=tuple(map(rewritten, right.update))
            )

        _register(name, sentence, provenance, partial(EndpointSliceController, plan=plan))
        return write

    return register


def _with(service: Object, **spec: Any) -> Object:
    """Return the Service with other fields of its spec; `None` takes one away."""
    changed = {name: value for name, value in {**service["spec"], **spec}.items() if value is not None}
    return {**service, "spec": changed}


def _value(service: Object) -> str:
    return str(service["spec"].get("trafficDistribution") or "")


def _without(obj: Object, *names: str) -> Object:
    return {name: value for name, value in obj.items() if name not in names}


# Hints


@_miswrites("writes-no-hints", "No endpoint gets hints, and nobody is told why.", "kubernetes#103888")
def writes_no_hints(service: Object, endpoint: Object) -> Object:
    return _without(endpoint, "hints")


@_misplans("hints-need-three-endpoints", "Fewer than three endpoints get no hints.", "kubernetes#122437")
def hints_need_three_endpoints(service: Object, pods: Pods, *others: Any, **options: Any) -> Plan:
    pods = list(pods)
    return plan_service(
        service if len(pods) >= 3 else _with(service, trafficDistribution=None), pods, *others, **options
    )


@_misplans("hints-unasked", "Services that ask for nothing get hints as well.")
def hints_unasked(service: Object, *others: Any, **options: Any) -> Plan:
    return plan_service(_with(service, trafficDistribution=_value(service) or "PreferClose"), *others, **options)


@_remembers("hints-outlive-the-field", "Hints stay when the field is removed.")
def hints_outlive_the_field() -> Planner:
    values: dict[str, str] = {}

    def plan(service: Object, *others: Any, **options: Any) -> Plan:
        uid = service["metadata"]["uid"]
        values[uid] = _value(service) or values.get(uid, "")
        return plan_service(_with(service, trafficDistribution=values[uid] or None), *others, **options)

    return plan


@_remembers("first-value-for-ever", "The first value of the field counts for ever.")
def first_value_for_ever() -> Planner:
    values: dict[str, str] = {}

    def plan(service: Object, *others: Any, **options: Any) -> Plan:
        value = values.setdefault(service["metadata"]["uid"], _value(service))
        return plan_service(_with(service, trafficDistribution=value or None), *others, **options)

    return plan


@_miswrites("hints-unready-endpoints", "Endpoints that are not ready get hints too.")
def hints_unready_endpoints(service: Object, endpoint: Object) -> Object:
    if not _value(service) or "zone" not in endpoint:
        return endpoint
    nodes = {"forNodes": [{"name": endpoint["nodeName"]}]} if _value(service) == "PreferSameNode" else {}
    return {**endpoint, "hints": {"forZones": [{"name": endpoint["zone"]}], **nodes}}


@_misplans(
    "one-unlabelled-node-ends-hints",
    "One node without zone label ends the hints of all endpoints.",
    "kubernetes#123401",
)
def one_unlabelled_node_ends_hints(
    service: Object, pods: Pods, nodes: Nodes, existing: Iterable[Object], **options: Any
) -> Plan:
    value = _value(service) if all(node_zone(node) for node in nodes.values()) else ""
    return plan_service(_with(service, trafficDistribution=value or None), pods, nodes, existing, **options)


@_miswrites("hints-every-zone", "Every endpoint is hinted for all zones.")
def hints_every_zone(service: Object, endpoint: Object) -> Object:
    return _hinted(endpoint, forZones=[{"name": zone} for zone in "abc"])


@_miswrites("node-hints-for-every-value", "Hints for nodes are written whatever the value.")
def node_hints_for_every_value(service: Object, endpoint: Object) -> Object:
    return _hinted(endpoint, forNodes=[{"name": endpoint["nodeName"]}])


def _hinted(endpoint: Object, **lists: Any) -> Object:
    return {**endpoint, "hints": {**endpoint["hints"], **lists}} if "hints" in endpoint else endpoint


@_miswrites("same-node-without-node-hints", "PreferSameNode gives no hints for nodes.")
def same_node_without_node_hints(service: Object, endpoint: Object) -> Object:
    return {**endpoint, "hints": _without(endpoint["hints"], "forNodes")} if "hints" in endpoint else endpoint


@_miswrites(
    "same-node-without-zone-hints", "PreferSameNode gives no hints for zones, and older proxies are left without any."
)
def same_node_without_zone_hints(service: Object, endpoint: Object) -> Object:
    bare = "hints" in endpoint and _value(service) == "PreferSameNode"
    return {**endpoint, "hints": _without(endpoint["hints"], "forZones")} if bare else endpoint


@_miswrites("same-node-needs-a-zone", "PreferSameNode gives no hint to an endpoint without zone.")
def same_node_needs_a_zone(service: Object, endpoint: Object) -> Object:
    return endpoint if "zone" in endpoint else _without(endpoint, "hints")


@_misplans(
    "knows-only-prefer-close", "PreferSameZone and PreferSameNode mean nothing.", "kube-controller-manager before 1.34"
)
def knows_only_prefer_close(service: Object, *others: Any, **options: Any) -> Plan:
    value = _value(service) if _value(service) == "PreferClose" else None
    return plan_service(_with(service, trafficDistribution=value), *others, **options)


@_misplans(
    "local-policy-ends-hints",
    "A Service with a traffic policy Local gets no hints.",
    "KEP-2433's table, taken at its word",
)
def local_policy_ends_hints(service: Object, *others: Any, **options: Any) -> Plan:
    policies = (service["spec"].get("internalTrafficPolicy"), service["spec"].get("externalTrafficPolicy"))
    value = None if "Local" in policies else _value(service) or None
    return plan_service(_with(service, trafficDistribution=value), *others, **options)


@_misplans("annotation-as-the-field", "A value of the field is understood in the annotation as well.")
def annotation_as_the_field(service: Object, *others: Any, **options: Any) -> Plan:
    value = _value(service) or _annotation(service)
    known = value if value in ("PreferClose", "PreferSameZone", "PreferSameNode") else None
    return plan_service(_with(service, trafficDistribution=known), *others, **options)


@_misplans("any-annotation-hides-the-field", "The annotation hides the field whatever its value is.")
def any_annotation_hides_the_field(service: Object, *others: Any, **options: Any) -> Plan:
    value = None if _annotation(service) else _value(service) or None
    return plan_service(_with(service, trafficDistribution=value), *others, **options)


def _annotation(service: Object) -> str:
    annotations = service["metadata"].get("annotations") or {}
    return str(annotations.get(TOPOLOGY_AWARE_HINTS, annotations.get(TOPOLOGY_MODE)) or "")


@_remembers("hints-one-slice-only", "Of several slices only the first one has hints.")
def hints_one_slice_only() -> Planner:
    first: dict[str, Any] = {}

    def plan(service: Object, *others: Any, **options: Any) -> Plan:
        right = plan_service(service, *others, **options)
        for each in (*right.create, *right.update):
            if each["endpoints"]:
                first.setdefault(service["metadata"]["uid"], each["ports"])

        def kept(each: Object) -> Object:
            bare = [_without(one, "hints") for one in each["endpoints"]]
            return each if each["ports"] == first.get(service["metadata"]["uid"]) else {**each, "endpoints": bare}

        return replace(right, create=tuple(map(kept, right.create)), update=tuple(map(kept, right.update)))

    return plan


@_remembers("node-hints-outlive-the-field", "Hints for nodes stay when the field is removed.")
def node_hints_outlive_the_field() -> Planner:
    local: set[str] = set()

    def plan(service: Object, *others: Any, **options: Any) -> Plan:
        uid = service["metadata"]["uid"]
        if _value(service) == "PreferSameNode":
            local.add(uid)
        right = plan_service(service, *others, **options)
        if uid not in local or _value(service):
            return right

        def hinted(each: Object) -> Object:
            own = [{**one, "hints": {"forNodes": [{"name": one["nodeName"]}]}} for one in each["endpoints"]]
            return {**each, "endpoints": own}

        return replace(right, update=tuple(map(hinted, right.update)))

    return plan


@_miswrites("hints-in-one-family", "Slices of the second IP family have no hints.")
def hints_in_one_family(service: Object, endpoint: Object) -> Object:
    return _without(endpoint, "hints") if service["slice"]["addressType"] == "IPv6" else endpoint


@_remembers("node-zone-read-once", "The zone of a node is read once.", "kubernetes#117245")
def node_zone_read_once() -> Planner:
    known: dict[str, Object] = {}

    def plan(service: Object, pods: Pods, nodes: Nodes, *others: Any, **options: Any) -> Plan:
        for name, node in nodes.items():
            known.setdefault(name, node)
        return plan_service(service, pods, known, *others, **options)

    return plan


# Endpoints


@_miswrites("endpoints-without-zone", "Endpoints do not say in which zone they are.", "passbolt#117")
def endpoints_without_zone(service: Object, endpoint: Object) -> Object:
    return _without(endpoint, "zone")


@_miswrites("terminating-means-ready", "Endpoints that terminate are ready as long as they serve.")
def terminating_means_ready(service: Object, endpoint: Object) -> Object:
    conditions = endpoint["conditions"]
    return {**endpoint, "conditions": {**conditions, "ready": conditions["serving"]}}


@_misplans("ignores-publish-not-ready", "publishNotReadyAddresses is not looked at.")
def ignores_publish_not_ready(service: Object, *others: Any, **options: Any) -> Plan:
    return plan_service(_with(service, publishNotReadyAddresses=None), *others, **options)


@_miswrites("published-means-serving", "publishNotReadyAddresses makes endpoints serve that do not.", "istio#60422")
def published_means_serving(service: Object, endpoint: Object) -> Object:
    conditions = endpoint["conditions"]
    published = bool(service["spec"].get("publishNotReadyAddresses"))
    return {**endpoint, "conditions": {**conditions, "serving": conditions["serving"] or published}}


@_misplans("keeps-ended-pods", "Pods that have ended stay endpoints.")
def keeps_ended_pods(service: Object, pods: Pods, *others: Any, **options: Any) -> Plan:
    running = [{**pod, "status": {**pod["status"], "phase": "Running"}} for pod in pods]
    return plan_service(service, running, *others, **options)


@_remembers("keeps-former-pods", "Pods that match no more, or are gone, stay endpoints.")
def keeps_former_pods() -> Planner:
    known: dict[str, dict[str, Object]] = {}

    def plan(service: Object, pods: Pods, *others: Any, **options: Any) -> Plan:
        kept = known.setdefault(service["metadata"]["uid"], {})
        kept.update({pod["metadata"]["name"]: pod for pod in pods})
        return plan_service(service, kept.values(), *others, **options)

    return plan


_register(
    "slices-of-a-thousand",
    "A slice takes up to 1000 endpoints.",
    "",
    partial(EndpointSliceController, max_endpoints_per_slice=1000),
)


@_misplans("named-ports-resolve-once", "The first pod says for all what number a named port has.")
def named_ports_resolve_once(service: Object, pods: Pods, *others: Any, **options: Any) -> Plan:
    pods = sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))
    names = {port["name"]: port["containerPort"] for pod in pods[:1] for port in pod["spec"]["containers"][0]["ports"]}
    ports = [
        {**port, "targetPort": names.get(port["targetPort"], port["targetPort"])} for port in service["spec"]["ports"]
    ]
    return plan_service(_with(service, ports=ports), pods, *others, **options)


@_misplans("one-family-only", "The second IP family gets no slices.")
def one_family_only(service: Object, *others: Any, **options: Any) -> Plan:
    families = service["spec"].get("ipFamilies") or ["IPv4"]
    return plan_service(_with(service, ipFamilies=families[:1]), *others, **options)


@_remembers("writes-without-need", "Every look at a Service rewrites its slices.")
def writes_without_need() -> Planner:
    return _rewriting(lambda _: True)


@_remembers("rewrites-node-hints", "Every look at a Service rewrites slices that have hints for nodes.")
def rewrites_node_hints() -> Planner:
    return _rewriting(lambda each: any("forNodes" in one.get("hints", {}) for one in each["endpoints"]))


@_remembers(
    "rewrites-slices-without-ports", "Every look at a Service rewrites slices that have no ports.", "kubernetes#133474"
)
def rewrites_slices_without_ports() -> Planner:
    return _rewriting(lambda each: not each.get("ports"))


def _rewriting(some: Callable[[Object], bool]) -> Planner:
    """Return a planner that also writes these slices of the Service, without a change that matters."""
    numbers = itertools.count(1)

    def plan(service: Object, pods: Pods, nodes: Nodes, existing: Iterable[Object], **options: Any) -> Plan:
        existing = list(existing)
        right = plan_service(service, pods, nodes, existing, **options)
        changed = {each["metadata"]["name"] for each in (*right.update, *right.delete)}
        untouched = [each for each in existing if each["metadata"]["name"] not in changed and some(each)]
        return replace(right, update=(*right.update, *(_annotated(each, next(numbers)) for each in untouched)))

    return plan


def _annotated(obj: Object, number: int) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "annotations": {"example.org/look": str(number)}}}


# Objects that belong to others


class _Rewriting:
    """A client whose events are changed."""

    def __init__(self, client: ApiServer, rewrite: Callable[[Event], Event]) -> None:
        self._client = client
        self._rewrite = rewrite

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def subscribe(self, resources: Collection[str], sink: Callable[[Event], None]) -> Subscription:
        return self._client.subscribe(resources, lambda event: sink(self._rewrite(event)))


def _labelled(obj: Object, labels: Mapping[str, str]) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "labels": {**(obj["metadata"].get("labels") or {}), **labels}}}


def _everything_matches(event: Event) -> Event:
    everyone = {"example.org/pod": "any"}
    match event:
        case Event(kind, "pods", pod):
            return Event(kind, "pods", _labelled(pod, everyone))
        case Event(kind, "services", service) if not service["spec"].get("selector"):
            return Event(kind, "services", _with(service, selector=everyone))
    return event


_register(
    "no-selector-means-every-pod",
    "A Service without selector gets every pod of its namespace.",
    "",
    lambda client, **options: EndpointSliceController(_Rewriting(client, _everything_matches), **options),
)


def _all_are_ours(event: Event) -> Event:
    if event.resource != "endpointslices":
        return event
    return Event(event.type, event.resource, _labelled(event.object, {MANAGED_BY: CONTROLLER}))


def _clears_hints(service: Object, pods: Pods, nodes: Nodes, existing: Iterable[Object], **options: Any) -> Plan:
    if selects_pods(service):
        return plan_service(service, pods, nodes, existing, **options)
    hinted = [each for each in existing if any("hints" in endpoint for endpoint in each["endpoints"])]
    cleared = [{**each, "endpoints": [_without(one, "hints") for one in each["endpoints"]]} for each in hinted]
    return Plan((), tuple(cleared), (), (), NoHints("these are all mine"))


_register(
    "takes-slices-of-others",
    "Slices that somebody else manages are taken over, and lose their hints.",
    "",
    lambda client, **options: EndpointSliceController(_Rewriting(client, _all_are_ours), plan=_clears_hints, **options),
)


@_misplans(
    "ready-by-containers", "A pod counts as ready while its containers do, whatever its node says.", symptom=NO_ANSWER
)
def ready_by_containers(service: Object, pods: Pods, *others: Any, **options: Any) -> Plan:
    def judged(pod: Object) -> Object:
        ready = "True" if has_condition(pod, "ContainersReady") else "False"
        conditions = [{**each, "status": ready} for each in pod.get("status", {}).get("conditions") or ()]
        return {**pod, "status": {**pod.get("status", {}), "conditions": conditions}}

    return plan_service(service, [judged(each) for each in pods], *others, **options)
