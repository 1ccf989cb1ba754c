"""Components that are of another release than they were told to be, or that mix up what came with which."""

from __future__ import annotations

from functools import partial
from typing import Any

from harness.mutants.mutant import REACHED, WRITTEN, Mutant
from reference.client import Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.plan import Plan, plan_service
from reference.features import Features
from reference.proxy import ServiceProxy

MUTANTS: list[Mutant] = []


def _controller_of(always: Features, client: Any, *, features: Features, **options: Any) -> EndpointSliceController:
    return EndpointSliceController(client, features=always, **options)


def _proxy_of(always: Features, *arguments: Any, features: Features, **options: Any) -> ServiceProxy:
    return ServiceProxy(*arguments, features=always, **options)


def _field_first(service: Object, *others: Any, **options: Any) -> Plan:
    """As `plan_service`, without the annotations of a Service that has the field."""
    if "trafficDistribution" in service["spec"]:
        service = {**service, "metadata": {**service["metadata"], "annotations": {}}}
    return plan_service(service, *others, **options)


MODE, AWARE_HINTS = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"


def _annotated(service: Object, annotations: Object) -> Object:
    return {**service, "metadata": {**service["metadata"], "annotations": annotations}}


def _one_spelling(service: Object, *others: Any, **options: Any) -> Plan:
    """As `plan_service`, for "Auto" alone."""
    annotations = service["metadata"].get("annotations") or {}
    known = {key: value for key, value in annotations.items() if value != "auto"}
    return plan_service(_annotated(service, known), *others, **options)


def _newer_name(service: Object, *others: Any, **options: Any) -> Plan:
    """As `plan_service`, without the annotation's older name."""
    annotations = service["metadata"].get("annotations") or {}
    known = {key: value for key, value in annotations.items() if key != AWARE_HINTS}
    return plan_service(_annotated(service, known), *others, **options)


def _remembering(client: Any, **options: Any) -> EndpointSliceController:
    """A controller for which a Service that was annotated once stays so."""
    annotated: set[str] = set()

    def plan(service: Object, *others: Any, **more: Any) -> Plan:
        annotations = service["metadata"].get("annotations") or {}
        uid = service["metadata"]["uid"]
        if annotations.get(MODE) == "Auto":
            annotated.add(uid)
        return plan_service(_annotated(service, {MODE: "Auto"} if uid in annotated else annotations), *others, **more)

    return EndpointSliceController(client, plan=plan, **options)


MUTANTS += [
    Mutant(
        "newest-controller-at-any-release",
        "The controller does what the newest release does, whatever release and gates it was given.",
        symptom=WRITTEN,
        controller=partial(_controller_of, Features()),
    ),
    Mutant(
        "oldest-controller-at-any-release",
        "The controller does what 1.29 did, whatever release and gates it was given.",
        symptom=WRITTEN,
        controller=partial(_controller_of, Features((1, 29))),
    ),
    Mutant(
        "newest-proxy-at-any-release",
        "The proxy does what the newest release does, whatever release and gates it was given.",
        symptom=REACHED,
        proxy=partial(_proxy_of, Features()),
    ),
    Mutant(
        "oldest-proxy-at-any-release",
        "The proxy does what 1.29 did, whatever release and gates it was given.",
        symptom=REACHED,
        proxy=partial(_proxy_of, Features((1, 29))),
    ),
    Mutant(
        "field-before-annotation",
        "Where annotation and field are both set, the field decides.",
        symptom=WRITTEN,
        controller=partial(EndpointSliceController, plan=_field_first),
    ),
    Mutant(
        "knows-one-spelling-of-auto",
        "The annotation is known with the value Auto, and not with auto.",
        symptom=WRITTEN,
        controller=partial(EndpointSliceController, plan=_one_spelling),
    ),
    Mutant(
        "knows-the-newer-annotation-only",
        "The annotation is known by the name topology-mode, and not by topology-aware-hints.",
        symptom=WRITTEN,
        controller=partial(EndpointSliceController, plan=_newer_name),
    ),
    Mutant(
        "annotation-outlives-itself",
        "A Service that had the annotation once is treated as if it had it still.",
        symptom=WRITTEN,
        controller=_remembering,
    ),
]
