"""Benign EndpointSlice controllers, with unusual splitting, order, allocation, writes or messages.

Neither the API nor a KEP forbids their behaviour. If a variant does not meet a goal of a KEP, that goal is a SHOULD,
and the variant lists the requirement in `unmet`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.client_wrappers import ClientWrapper, Sink, controller_hearing, controller_through
from mutants.mutant import Mutant
from mutants.service_conditions import writing_events
from mutants.wrong_plans import Nodes, rewritten, without
from reference.client import Client, Event, Key, Object, Subscription, key_of
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.allocation import Allocation, allocate, rules
from reference.endpointslice.cpu_hints import CpuOutcome
from reference.endpointslice.labels import node_zone
from reference.endpointslice.plan import FamilyPlan, SlicePlan, plan_service

# Splitting endpoints into slices


def _one_slice_a_port(
    service: Object, pods: Iterable[Object], nodes: Nodes, existing: Iterable[Object], **options: Any
) -> SlicePlan:
    ports = service["spec"].get("ports") or []
    if len(ports) < 2:
        return plan_service(service, pods, nodes, existing, **options)
    pods, existing = list(pods), list(existing)
    names = [port.get("name", "") for port in ports]
    plans = [
        plan_service(
            {**service, "spec": {**service["spec"], "ports": [port]}},
            pods,
            nodes,
            [each for each in existing if _port_name(each, names) == name],
            **{**options, "memo": None},
        )
        for port, name in zip(ports, names, strict=True)
    ]
    return replace(
        plans[0],
        create=tuple(each for plan in plans for each in plan.create),
        update=tuple(each for plan in plans for each in plan.update),
        delete=tuple(each for plan in plans for each in plan.delete),
    )


def _port_name(endpoint_slice: Object, names: list[str]) -> str:
    """Return the port name of a slice, or the first of `names` if the slice has no port or if its port was removed."""
    found = [port.get("name") or "" for port in endpoint_slice.get("ports") or ()]
    return found[0] if found and found[0] in names else names[0]


def _merging(
    service: Object, pods: Iterable[Object], nodes: Nodes, existing: Iterable[Object], **options: Any
) -> SlicePlan:
    """Plan slices of two endpoints. If fewer slices would be enough, merge the smallest slice into the others."""
    pods, existing = list(pods), list(existing)
    options["max_endpoints"] = 2
    right = plan_service(service, pods, nodes, existing, **options)
    if len(right.families) != 1 or not existing:
        return right
    (family,) = right.families.values()
    if len(family.slices) <= family.ideal_slices:
        return right
    smallest = min(existing, key=lambda each: len(each.get("endpoints") or ()))
    others = [each for each in existing if each is not smallest]
    merged = plan_service(service, pods, nodes, others, **options)
    return replace(merged, delete=(*merged.delete, smallest))


def _shuffling() -> Callable[..., SlicePlan]:
    """Return a planner that writes endpoints in random order. The order differs between runs."""
    chance = random.Random()  # noqa: S311  an order, no secret

    def shuffled(each: Object) -> Object:
        return {**each, "endpoints": chance.sample(each["endpoints"], len(each["endpoints"]))}

    return lambda *arguments, **options: rewritten(plan_service(*arguments, **options), shuffled)


# Endpoints


def _keeps_lost_pods(
    service: Object, pods: Iterable[Object], nodes: Nodes, existing: Iterable[Object], **options: Any
) -> SlicePlan:
    """Plan an endpoint without a zone for a pod whose Node does not exist."""
    pods = list(pods)
    missing = {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")} - nodes.keys()
    bare = {name: {"metadata": {"name": name, "labels": {}}} for name in missing}
    return plan_service(service, pods, {**nodes, **bare}, existing, **options)


def _filled_in(endpoint_slice: Object) -> Object:
    def filled(endpoint: Object) -> Object:
        conditions = endpoint.get("conditions") or {}
        ready = conditions.get("ready", True)
        return {**endpoint, "conditions": {"ready": ready, "serving": ready, "terminating": False, **conditions}}

    return {**endpoint_slice, "endpoints": [filled(each) for each in endpoint_slice.get("endpoints") or ()]}


def _left_out(endpoint_slice: Object) -> Object:
    """Return the slice without conditions that have their default (ready, not terminating, serving equal to ready)."""

    def left(endpoint: Object) -> Object:
        found = endpoint["conditions"]
        defaults = {"ready": True, "serving": found["ready"], "terminating": False}
        return {
            **endpoint,
            "conditions": {name: value for name, value in found.items() if value != defaults[name]},
        }

    return {**endpoint_slice, "endpoints": [left(each) for each in endpoint_slice["endpoints"]]}


class _OmitsConditions(ClientWrapper):
    def subscribe(self, resources: Collection[str], sink: Callable[[Event], None]) -> Subscription:
        return self._client.subscribe(resources, lambda event: sink(_filled_in_news(event)))

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        if resource != "endpointslices":
            return self._client.create(resource, namespace, obj)
        return _filled_in(self._client.create(resource, namespace, _left_out(obj)))

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        if resource != "endpointslices":
            return self._client.update(resource, namespace, obj)
        return _filled_in(self._client.update(resource, namespace, _left_out(obj)))


def _filled_in_news(event: Event) -> Event:
    of_slice = event.resource == "endpointslices" and event.type != "SYNCED"
    return replace(event, object=_filled_in(event.object)) if of_slice else event


# Hints


class _HintsInSecondWrite(ClientWrapper):
    """Writes each changed slice first without hints."""

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        stored = self._client.create(resource, namespace, _unhinted(obj))
        return self._hinted(resource, namespace, obj, stored)

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        stored = self._client.update(resource, namespace, _unhinted(obj))
        return self._hinted(resource, namespace, obj, stored)

    def _hinted(self, resource: str, namespace: str, obj: Object, stored: Object) -> Object:
        if not any("hints" in each for each in obj.get("endpoints") or ()):
            return stored
        return self._client.update(resource, namespace, {**stored, "endpoints": obj["endpoints"]})


def _unhinted(obj: Object) -> Object:
    if "endpoints" not in obj:
        return obj
    return {**obj, "endpoints": [without(each, "hints") for each in obj["endpoints"]]}


def _moves_few(*arguments: Any, **options: Any) -> SlicePlan:
    """Hint every endpoint for its own zone, except the endpoints that other zones need."""
    right = plan_service(*arguments, **options)
    shared = [
        (family, family.outcome)
        for family in right.families.values()
        if isinstance(family.outcome, CpuOutcome) and family.outcome.refusal is None
    ]
    for family, outcome in shared:
        right = rewritten(right, partial(_hinted_anew, hints=_few_moves(family, outcome, right, options)))
    return right


def _few_moves(family: FamilyPlan, outcome: CpuOutcome, plan: SlicePlan, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the zone for which each endpoint of the slices to be written is hinted, by address."""
    written = {each["addresses"][0] for one in (*plan.create, *plan.update) for each in one["endpoints"]}
    hinted = [each for one in family.slices for each in one if "hints" in each]
    zones = {
        each["addresses"][0]: each["zone"] if each["addresses"][0] in written else each["hints"]["forZones"][0]["name"]
        for each in hinted
    }
    known = rules(options["features"])
    found = allocate(options["zones"].shares, len(hinted), known.to_keep if outcome.had_hints else known.to_add)
    assert isinstance(found, Allocation)
    counts = Counter(zones.values())
    least = {zone: found.portions[zone].minimum if zone in found.portions else 0 for zone in {*counts, *found.portions}}
    for needy in sorted(found.portions):
        for address in sorted(written & zones.keys()):
            giver = zones[address]
            if counts[needy] < least[needy] and counts[giver] > least[giver]:
                zones[address] = needy
                counts.update({needy: 1, giver: -1})
    return {address: zone for address, zone in zones.items() if address in written}


def _hinted_anew(each: Object, hints: Mapping[str, str]) -> Object:
    def hinted(endpoint: Object) -> Object:
        zone = hints.get(endpoint["addresses"][0])
        return endpoint if zone is None else {**endpoint, "hints": {"forZones": [{"name": zone}]}}

    return {**each, "endpoints": [hinted(one) for one in each["endpoints"]]}


# Nodes


def _cores_late(sink: Sink) -> Sink:
    """Report a changed CPU of Nodes only when a Node is added or removed, or changes its zone or readiness."""
    told: dict[Key, Object] = {}
    untold: dict[Key, Event] = {}

    def tell(event: Event) -> None:
        told[key_of(event.object)] = event.object
        sink(event)

    def filtered(event: Event) -> None:
        if event.resource != "nodes" or event.type == "SYNCED":
            sink(event)
            return
        key = key_of(event.object)
        if event.type == "MODIFIED" and _zone_and_readiness(event.object) == _zone_and_readiness(told[key]):
            untold[key] = event
            sink(replace(event, object={**event.object, "status": told[key].get("status")}))
            return
        untold.pop(key, None)
        for each in [*untold.values(), event]:
            tell(each)
        untold.clear()

    return filtered


def _zone_and_readiness(node: Object) -> tuple[str, list[str]]:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return node_zone(node), [each["status"] for each in conditions if each["type"] == "Ready"]


# Events

_WORDS = (
    ("fewer|Insufficient number", "TooFewReplicas", "traffic is free to leave"),
    ("overload", "CapacityShort", "the share of some place would be too small"),
    ("Node information|one zone", "ZonesUnknown", "look at the machines"),
    ("zone specified", "PlaceOfBackendUnknown", "not every zone is known"),
    ("enabled", "TrafficStaysNear", "every backend has its hints"),
    ("disabled", "TrafficSpreads", "hints are gone"),
)


def _reworded(event: Object) -> Object:
    if "TopologyAware" not in event["reason"]:
        return {**event, "reason": "SlicesStayAsTheyAre", "message": "this was refused"}
    for words, reason, said in _WORDS:
        if any(word in event["message"] for word in words.split("|")):
            return {**event, "reason": reason, "message": said}
    return event


def _planning(name: str, sentence: str, family: str, plan: Callable[..., SlicePlan], **more: Any) -> Mutant:
    return Mutant(name, sentence, family, controller=partial(EndpointSliceController, plan=plan), **more)


def _through(name: str, sentence: str, family: str, wrapped: Callable[[Client], Client], **more: Any) -> Mutant:
    return Mutant(name, sentence, family, controller=controller_through(wrapped), **more)


def _sized(name: str, sentence: str, family: str, size: int) -> Mutant:
    return Mutant(name, sentence, family, controller=partial(EndpointSliceController, max_endpoints_per_slice=size))


BENIGN: list[Mutant] = [
    _sized("slices-of-two-hundred", "A slice has up to 200 endpoints.", "--max-endpoints-per-slice", 200),
    _sized("slices-of-a-thousand", "A slice has up to 1,000 endpoints.", "EndpointSlice mirroring", 1000),
    _planning("one-slice-a-port", "Each port of a Service has its own slices.", "controllers of meshes",
              _one_slice_a_port),
    _planning("merging", "The controller merges slices that have become small.", "controllers that compact", _merging),
    Mutant("shuffles", "Slices list endpoints in random order.", "iteration over Go maps",
           controller=lambda client, **options: EndpointSliceController(client, plan=_shuffling(), **options)),
    _planning("keeps-lost-pods", "A pod whose Node is missing remains an endpoint, without a zone.",
              "controllers without a Node informer", _keeps_lost_pods),
    _through("nil-conditions", "The controller omits optional conditions of endpoints.", "controllers by hand",
             _OmitsConditions),
    _through("off-then-on", "Hints that change are removed, then written.", "controllers with two-step writes",
             _HintsInSecondWrite, lacks=frozenset({"MinimalAPICalls"}), unmet=frozenset(
                 {"KEP-2433/node-event-writes-each-slice-once", "KEP-4444/hints-need-no-write-of-their-own"}
             )),
    _planning("moves-few", "Endpoints are hinted for another zone only if that zone would otherwise be overloaded.",
              "a literal reading of KEP-2433", _moves_few,
              unmet=frozenset({"KEP-2433/endpoints-of-a-zone-without-nodes-keep-it"})),
    Mutant("cores-count-late",
           "A change to a Node's CPU takes effect only once a Node is added, removed, or changes zone or readiness.",
           "kube-controller-manager, updateNode of endpointslice_controller.go",
           controller=controller_hearing(_cores_late)),
    Mutant("events-in-other-words", "Events have different reasons and messages.", "controllers other than Kubernetes'",
           controller=writing_events(_reworded)),
]  # fmt: skip
