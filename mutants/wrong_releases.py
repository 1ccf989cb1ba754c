"""Controllers and proxies that behave like a different release, or confuse the changes of releases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.mutant import REACHED, WRITTEN, Mutant
from reference.client import Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.hints import NoHints
from reference.endpointslice.plan import SlicePlan, plan_service
from reference.features import Features
from reference.proxy import ServiceProxy
from reference.proxy.decision import Behaviour
from reference.proxy.state import State

MUTANTS: list[Mutant] = []

Endpoint = Object
Rehint = Callable[[Endpoint, Object | None], Endpoint]
"""Returns the endpoint to write. The arguments are the planned endpoint and its current hints."""


def _controller_of(always: Features, client: Any, *, features: Features, **options: Any) -> EndpointSliceController:
    return EndpointSliceController(client, features=always, **options)


def _proxy_of(always: Features, *arguments: Any, features: Features, **options: Any) -> ServiceProxy:
    return ServiceProxy(*arguments, features=always, **options)


def _field_first(service: Object, *others: Any, **options: Any) -> SlicePlan:
    """Plan like `plan_service`, but ignore the annotations of a Service that has the field."""
    if "trafficDistribution" in service["spec"]:
        service = {**service, "metadata": {**service["metadata"], "annotations": {}}}
    return plan_service(service, *others, **options)


def _field_first_from_1_30(service: Object, *others: Any, features: Features, **options: Any) -> SlicePlan:
    """Plan like `plan_service` up to 1.29. From 1.30 on, the field takes precedence."""
    plan = _field_first if features.at_least(30) else plan_service
    return plan(service, *others, features=features, **options)


def _close_is_same_node(service: Object, *others: Any, features: Features, **options: Any) -> SlicePlan:
    """Plan like `plan_service`, but treat PreferClose as PreferSameNode in releases that support PreferSameNode."""
    spec = service["spec"]
    if spec.get("trafficDistribution") == "PreferClose" and features.enabled("PreferSameTrafficDistribution"):
        service = {**service, "spec": {**spec, "trafficDistribution": "PreferSameNode"}}
    return plan_service(service, *others, features=features, **options)


def _rehints(rehint: Rehint, *, of: Callable[[SlicePlan], bool]) -> Callable[..., EndpointSliceController]:
    """Return a controller that changes the hints of existing endpoints, in plans for which `of` is true."""

    def plan(service: Object, pods: Any, nodes: Any, existing: Iterable[Object], **options: Any) -> SlicePlan:
        existing = list(existing)
        right = plan_service(service, pods, nodes, existing, **options)
        slices = [found.get("endpoints") or () for found in existing]
        known = {each["addresses"][0]: each.get("hints") for endpoints in slices for each in endpoints}

        def rehinted(endpoint: Endpoint) -> Endpoint:
            address = endpoint["addresses"][0]
            return rehint(endpoint, known[address]) if address in known else endpoint

        update = [{**each, "endpoints": [rehinted(one) for one in each["endpoints"]]} for each in right.update]
        return replace(right, update=tuple(update)) if of(right) else right

    return partial(EndpointSliceController, plan=plan)


def _hinted(endpoint: Endpoint, hints: Object | None) -> Endpoint:
    bare = {name: value for name, value in endpoint.items() if name != "hints"}
    return {**bare, "hints": hints} if hints else bare


def _state(behave: Callable[[Behaviour], Behaviour]) -> Callable[..., ServiceProxy]:
    """Return a proxy with another state."""
    return partial(ServiceProxy, state=lambda node, behaviour: State(node, behave(behaviour)))


def _hints_need_the_gate(behaviour: Behaviour) -> Behaviour:
    return replace(behaviour, zone_hints=behaviour.zone_hints and behaviour.annotation == "unused")


def _zone_hints_need_node_hints(behaviour: Behaviour) -> Behaviour:
    return replace(behaviour, zone_hints=behaviour.zone_hints and behaviour.node_hints)


MODE, AWARE_HINTS = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"


class _ReadsDisabledAsAuto(State):
    """Reads the value Disabled of the annotation as Auto."""

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if resource == "services":
            named = (obj["metadata"].get("annotations") or {}).items()
            obj = _annotated(obj, {key: "Auto" if value == "Disabled" else value for key, value in named})
        super().receive(resource, obj, deleted=deleted)


def _annotated(service: Object, annotations: Object) -> Object:
    return {**service, "metadata": {**service["metadata"], "annotations": annotations}}


def _one_spelling(service: Object, *others: Any, **options: Any) -> SlicePlan:
    """Plan like `plan_service`, but accept only the spelling "Auto"."""
    annotations = service["metadata"].get("annotations") or {}
    known = {key: value for key, value in annotations.items() if value != "auto"}
    return plan_service(_annotated(service, known), *others, **options)


def _newer_name(service: Object, *others: Any, **options: Any) -> SlicePlan:
    """Plan like `plan_service`, but ignore the older key of the annotation."""
    annotations = service["metadata"].get("annotations") or {}
    known = {key: value for key, value in annotations.items() if key != AWARE_HINTS}
    return plan_service(_annotated(service, known), *others, **options)


def _remembering(client: Any, **options: Any) -> EndpointSliceController:
    """Return a controller for which a Service that once had the annotation always has it."""
    annotated: set[str] = set()

    def plan(service: Object, *others: Any, **more: Any) -> SlicePlan:
        annotations = service["metadata"].get("annotations") or {}
        uid = service["metadata"]["uid"]
        if annotations.get(MODE) == "Auto":
            annotated.add(uid)
        return plan_service(_annotated(service, {MODE: "Auto"} if uid in annotated else annotations), *others, **more)

    return EndpointSliceController(client, plan=plan, **options)


MUTANTS += [
    Mutant(
        "newest-controller-at-any-release",
        "The controller behaves like the newest release, whatever release and gates are configured.",
        symptom=WRITTEN,
        controller=partial(_controller_of, Features()),
    ),
    Mutant(
        "oldest-controller-at-any-release",
        "The controller behaves like 1.29, whatever release and gates are configured.",
        symptom=WRITTEN,
        controller=partial(_controller_of, Features((1, 29))),
    ),
    Mutant(
        "newest-proxy-at-any-release",
        "The proxy behaves like the newest release, whatever release and gates are configured.",
        symptom=REACHED,
        proxy=partial(_proxy_of, Features()),
    ),
    Mutant(
        "oldest-proxy-at-any-release",
        "The proxy behaves like 1.29, whatever release and gates are configured.",
        symptom=REACHED,
        proxy=partial(_proxy_of, Features((1, 29))),
    ),
    Mutant(
        "field-before-annotation",
        "If the annotation and the field are both set, the field takes precedence.",
        symptom=WRITTEN,
        controller=partial(EndpointSliceController, plan=_field_first),
    ),
    Mutant(
        "knows-one-spelling-of-auto",
        "The controller accepts the annotation value Auto, but not auto.",
        symptom=WRITTEN,
        controller=partial(EndpointSliceController, plan=_one_spelling),
    ),
    Mutant(
        "knows-the-newer-annotation-only",
        "The controller reads only the annotation key topology-mode, not topology-aware-hints.",
        symptom=WRITTEN,
        controller=partial(EndpointSliceController, plan=_newer_name),
    ),
    Mutant(
        "annotation-outlives-itself",
        "A Service that once had the annotation is treated as if it still had the annotation.",
        symptom=WRITTEN,
        controller=_remembering,
    ),
    Mutant(
        "field-before-annotation-from-1-30",
        "In releases that support the field, the field takes precedence over the annotation.",
        symptom=f"{WRITTEN}|{REACHED}",
        controller=partial(EndpointSliceController, plan=_field_first_from_1_30),
    ),
    Mutant(
        "prefer-close-becomes-same-node",
        "In releases that support PreferSameNode, PreferClose is treated as PreferSameNode.",
        symptom=f"{WRITTEN}|{REACHED}",
        controller=partial(EndpointSliceController, plan=_close_is_same_node),
    ),
    Mutant(
        "hints-outlive-their-gate",
        "When no Service requests hints any more, existing hints remain.",
        symptom=WRITTEN,
        controller=_rehints(_hinted, of=lambda plan: isinstance(plan.mechanism, NoHints)),
    ),
    Mutant(
        "hints-new-endpoints-only",
        "An endpoint that is already in a slice, without hints, never gets hints.",
        symptom=WRITTEN,
        controller=_rehints(
            lambda endpoint, hints: endpoint if hints else _hinted(endpoint, None), of=lambda plan: True
        ),
    ),
    Mutant(
        "no-hints-without-the-gate",
        "With the ServiceTrafficDistribution gate off, the proxy ignores hints, even with the annotation.",
        symptom=REACHED,
        proxy=_state(_hints_need_the_gate),
    ),
    Mutant(
        "takes-disabled-for-auto",
        "In releases that require the annotation, the value Disabled works like Auto.",
        symptom=REACHED,
        proxy=partial(ServiceProxy, state=_ReadsDisabledAsAuto),
    ),
    Mutant(
        "no-zone-hints-without-node-hints",
        "With the PreferSameTrafficDistribution gate off, the proxy ignores all hints.",
        symptom=REACHED,
        proxy=_state(_zone_hints_need_node_hints),
    ),
]
