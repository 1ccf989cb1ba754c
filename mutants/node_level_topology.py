"""Components with one fault each in node-level topology, as described in KEP-3015 (2022)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.mutant import NO_ANSWER, REACHED, WRITTEN, Mutant
from mutants.wrong_decisions import DecisionInput, proxy_deciding
from mutants.wrong_plans import rewritten
from reference.apiserver import ApiServer
from reference.client import Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.hints import PluginHeuristic
from reference.endpointslice.node_level import ASKED, GATE, MissingNodesLimit, NodeLevel, daemon_set_of
from reference.endpointslice.plan import SlicePlan, plan_service
from reference.features import Features
from reference.proxy import ServiceProxy
from reference.proxy.decision import Decision, Drop

MUTANTS: list[Mutant] = []

ANY_OWNER = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "any", "uid": "any"}]


def _without_gate(features: Features) -> Features:
    return replace(features, gates={name: on for name, on in features.gates.items() if name != GATE})


def _controller(name: str, sentence: str, plan: Callable[..., SlicePlan]) -> None:
    controller = partial(EndpointSliceController, plan=plan)
    MUTANTS.append(Mutant(name, sentence, symptom=f"{WRITTEN}|{REACHED}", controller=controller))


def _with_gate(on: bool) -> Callable[..., SlicePlan]:
    def plan(*others: Any, features: Features, **options: Any) -> SlicePlan:
        changed = _without_gate(features)
        return plan_service(
            *others, features=replace(changed, gates={**changed.gates, GATE: True}) if on else changed, **options
        )

    return plan


def _configured(change: Callable[[NodeLevel], NodeLevel]) -> Callable[..., SlicePlan]:
    """Return a planner whose controller has another configuration."""

    def plan(*others: Any, node_level: NodeLevel, **options: Any) -> SlicePlan:
        return plan_service(*others, node_level=change(node_level), **options)

    return plan


def _approach(wrong: str, right: str) -> Callable[..., SlicePlan]:
    """Return a planner that replaces one approach with another."""
    return _configured(lambda told: replace(told, approach=right) if told.approach == wrong else told)  # type: ignore[arg-type]


def _loosely(told: NodeLevel) -> NodeLevel:
    """Allow one more node without an endpoint, or 20 percentage points more if the limit is a percentage."""
    if told.missing is None:
        return told
    return replace(told, missing=replace(told.missing, most=told.missing.most + (20 if told.missing.percent else 1)))


def _as_number(told: NodeLevel) -> NodeLevel:
    return told if told.missing is None else replace(told, missing=MissingNodesLimit(told.missing.most))


def _first_criterion(told: NodeLevel) -> NodeLevel:
    return told if told.missing is None else replace(told, daemon_set=False)


def _owned(owners: Callable[[Sequence[Object]], Sequence[bool]]) -> Callable[..., SlicePlan]:
    """Return a planner for which one DaemonSet owns these pods."""

    def plan(service: Object, pods: Iterable[Object], *others: Any, **options: Any) -> SlicePlan:
        pods = list(pods)
        seen = [
            {**pod, "metadata": {**pod["metadata"], "ownerReferences": ANY_OWNER if owned else []}}
            for pod, owned in zip(pods, owners(pods), strict=True)
        ]
        return plan_service(service, seen, *others, **options)

    return plan


def _any_one(pods: Sequence[Object]) -> list[bool]:
    return [any(daemon_set_of(pod) for pod in pods)] * len(pods)


def _each_one(pods: Sequence[Object]) -> list[bool]:
    return [bool(daemon_set_of(pod)) for pod in pods]


def _for_all(told: NodeLevel) -> NodeLevel:
    """Treat every Service as annotated."""
    return NodeLevel("automatic", missing=None, daemon_set=False) if told.approach == "manual" else told


def _remembering(client: Any, **options: Any) -> EndpointSliceController:
    """Return a controller for which a Service that once had the annotation always has it."""
    asked: set[str] = set()

    def plan(service: Object, *others: Any, **more: Any) -> SlicePlan:
        uid = service["metadata"]["uid"]
        if ASKED in (service["metadata"].get("annotations") or {}).values():
            asked.add(uid)
        if uid in asked:
            more["node_level"] = _for_all(more["node_level"])
        return plan_service(service, *others, **more)

    return EndpointSliceController(client, plan=plan, **options)


def _nodes_alone(*others: Any, **options: Any) -> SlicePlan:
    """Plan like `plan_service`, but remove the zone hints of endpoints for which the gate adds node hints."""

    def bared(each: Object) -> Object:
        endpoints = [
            {**one, "hints": {"forNodes": one["hints"]["forNodes"]}} if "forNodes" in one.get("hints", ()) else one
            for one in each["endpoints"]
        ]
        return {**each, "endpoints": endpoints}

    right = plan_service(*others, **options)
    return rewritten(right, bared) if options["features"].enabled(GATE) else right


def _counting_once(*others: Any, **options: Any) -> SlicePlan:
    right = plan_service(*others, **options)
    return replace(right, counts_nodes=isinstance(right.mechanism, PluginHeuristic))


_controller("knows-no-node-level-topology", "The controller ignores the NodeLevelTopology gate.", _with_gate(False))
_controller(
    "node-level-without-its-gate",
    "The controller writes node hints although the NodeLevelTopology gate is off.",
    _with_gate(True),
)
_controller(
    "node-level-unasked",
    "With the manual approach, the controller treats every Service as annotated.",
    _configured(_for_all),
)
_controller("node-level-replaces-other-hints", "Endpoints that get node hints lose their other hints.", _nodes_alone)
_controller(
    "one-missing-node-too-many",
    "The controller allows one more node without an endpoint than configured.",
    _configured(_loosely),
)
_controller(
    "percentage-as-number",
    "The controller treats the percentage of missing nodes as a number of nodes.",
    _configured(_as_number),
)
_controller("counts-nodes-once", "The controller does not count nodes that are added or removed later.", _counting_once)
_controller(
    "any-daemon-set-will-do", "Pods of several DaemonSets meet the criterion of one DaemonSet.", _owned(_each_one)
)
_controller(
    "one-pod-of-a-daemon-set-will-do",
    "One pod of a DaemonSet is enough to meet the criterion of one DaemonSet.",
    _owned(_any_one),
)
_controller(
    "one-criterion-suffices", "The controller checks only the first of several criteria.", _configured(_first_criterion)
)
_controller("opt-in-asks-nobody", "The controller treats opt-in as automatic.", _approach("opt-in", "automatic"))
_controller("opt-in-looks-at-no-endpoint", "The controller treats opt-in as manual.", _approach("opt-in", "manual"))
_controller("opt-out-is-ignored", "The controller treats opt-out as automatic.", _approach("opt-out", "automatic"))
MUTANTS.append(
    Mutant(
        "node-level-for-ever",
        "The controller treats a Service that was annotated once as annotated forever.",
        symptom=WRITTEN,
        controller=_remembering,
    )
)


def _hinted(asked: DecisionInput) -> bool:
    return bool(asked.ready) and all(each.node_hints for each in asked.ready)


def _softened(asked: DecisionInput) -> Decision:
    port = replace(asked.port, internal_local=False, external_local=False)
    return asked.answer(port=port) if _hinted(asked) else asked.answer()


def _narrowed(asked: DecisionInput) -> Decision:
    right, here = asked.answer(), asked.place.node
    kept = [each for each in asked.endpoints if each.node != here or here in (each.node_hints or {here})]
    wrong = asked.answer(endpoints=kept)
    return replace(
        right,
        cluster_ip=wrong.cluster_ip if asked.port.internal_local else right.cluster_ip,
        outside=wrong.outside if asked.port.external_local else right.outside,
    )


def _all_or_nothing(asked: DecisionInput) -> Decision:
    local = asked.port.internal_local or asked.port.external_local
    return asked.answer(behaviour=replace(asked.behaviour, node_hints=False)) if local else asked.answer()


def _unforgiving(asked: DecisionInput) -> Decision:
    right = asked.answer()
    known = asked.behaviour.node_hints and right.mode not in {"PreferSameNode", "TopologyKeys"}
    if not _hinted(asked) or not known:
        return right
    return asked.instead(Drop("no endpoint is hinted for this node"))


def _annotated(asked: DecisionInput) -> Decision:
    """Before 1.30, use node hints like zone hints, only on Services with the annotation."""
    needed = asked.behaviour.annotation != "unused" and not asked.port.topology_annotation
    return asked.answer(behaviour=replace(asked.behaviour, node_hints=False)) if needed else asked.answer()


def _ungated(*arguments: Any, features: Features, **options: Any) -> ServiceProxy:
    return ServiceProxy(*arguments, features=_without_gate(features), **options)


def _ungated_server(features: Features, **options: Any) -> ApiServer:
    return ApiServer(_without_gate(features), **options)


MUTANTS += [
    Mutant("knows-no-node-level-hints", "The proxy ignores the NodeLevelTopology gate.", proxy=_ungated),
    Mutant(
        "node-level-needs-the-annotation",
        "The proxy follows node hints only on annotated Services, as it does for zone hints.",
        proxy=proxy_deciding(_annotated),
    ),
    Mutant(
        "node-level-softens-local",
        "If all endpoints have node hints, a Local policy falls back like a Cluster policy.",
        proxy=proxy_deciding(_softened),
    ),
    Mutant(
        "node-level-narrows-local",
        "A Local policy excludes endpoints on the node that are hinted for another node.",
        proxy=proxy_deciding(_narrowed),
    ),
    Mutant(
        "node-level-needs-both-policies",
        "The proxy follows node hints only on Services without a Local policy.",
        proxy=proxy_deciding(_all_or_nothing),
    ),
    Mutant(
        "node-level-without-fallback",
        "If all endpoints have node hints, a node without an endpoint drops connections.",
        symptom=NO_ANSWER,
        proxy=proxy_deciding(_unforgiving),
    ),
    Mutant(
        "stores-no-node-level-hints",
        "The API server ignores the NodeLevelTopology gate.",
        symptom=WRITTEN,
        api_server=_ungated_server,
    ),
]
