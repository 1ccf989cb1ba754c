"""Controllers with one fault each for existing hints by CPU: in thresholds, removed zones, or slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mutants.controller_edge_cases import unasked
from mutants.mutant import Mutant
from mutants.wrong_plans import Nodes, PlanMutantRegistry, Planner, Pods, rewritten, with_spec, without
from reference.client import Object
from reference.endpointslice.allocation import Threshold, allocate, rules
from reference.endpointslice.cpu_hints import CpuOutcome
from reference.endpointslice.hints import CpuHeuristic, mechanism
from reference.endpointslice.labels import node_zone
from reference.endpointslice.plan import SlicePlan, plan_service
from reference.endpointslice.zones import NoHintsReason, ZoneTable
from reference.features import Features

MUTANTS: list[Mutant] = []


def _by_cpu(plan: Planner) -> Planner:
    """Return a planner that is correct for all Services without hints by CPU."""

    def plan_any(service: Object, *others: Any, features: Features, **options: Any) -> SlicePlan:
        asked = isinstance(mechanism(service, features), CpuHeuristic)
        return (plan if asked else plan_service)(service, *others, features=features, **options)

    return plan_any


_faults = PlanMutantRegistry(MUTANTS, about=_by_cpu)


def _own_zone(service: Object) -> Object:
    """Return the Service as if it requested a hint for each endpoint's own zone."""
    return with_spec(unasked(service), trafficDistribution="PreferClose")


def _misplaces_threshold(name: str, sentence: str, percent: int, *, hinted: bool, may_be_reached: bool = False) -> None:
    """Create a mutant with a different threshold, for Services with hints (`hinted`) or for Services without hints."""

    def plan(service: Object, *others: Any, **options: Any) -> SlicePlan:
        right = plan_service(service, *others, **options)
        outcomes = [each.outcome for each in right.families.values() if isinstance(each.outcome, CpuOutcome)]
        if not outcomes or any(each.had_hints is not hinted for each in outcomes):
            return right
        wrong = Threshold(percent, may_be_reached=may_be_reached)
        refused = any(
            isinstance(allocate(options["zones"].shares, each.endpoints, wrong), NoHintsReason) for each in outcomes
        )
        if refused is any(each.refusal is not None for each in outcomes):
            return right
        return plan_service(unasked(service) if refused else _own_zone(service), *others, **options)

    _faults.misplans(name, sentence)(plan)


_misplaces_threshold(
    "adds-hints-up-to-19-percent", "The controller adds hints only below an overload of 19 %.", 19, hinted=False
)
_misplaces_threshold(
    "adds-hints-up-to-21-percent", "The controller adds hints up to an overload of 21 %.", 21, hinted=False
)
_misplaces_threshold(
    "adds-hints-at-20-percent",
    "The controller adds hints at an overload of exactly 20 %.",
    20,
    hinted=False,
    may_be_reached=True,
)
_misplaces_threshold(
    "keeps-hints-up-to-29-percent", "The controller removes hints at an overload of 29 %.", 29, hinted=True
)
_misplaces_threshold(
    "keeps-hints-up-to-31-percent", "The controller keeps hints up to an overload of 31 %.", 31, hinted=True
)


@_faults.misplans(
    "forgets-hints-when-slices-change",
    "The controller treats a slice that it writes as if the slice had no hints before.",
)
def forgets_hints_when_slices_change(service: Object, *others: Any, features: Features, **options: Any) -> SlicePlan:
    right = plan_service(service, *others, features=features, **options)
    outcomes = [each.outcome for each in right.families.values() if isinstance(each.outcome, CpuOutcome)]
    shares, to_add = options["zones"].shares, rules(features).to_add
    too_few = any(isinstance(allocate(shares, each.endpoints, to_add), NoHintsReason) for each in outcomes)
    return plan_service(unasked(service), *others, features=features, **options) if right.update and too_few else right


def _sees(see: Callable[[], Callable[[Nodes], Nodes]]) -> Callable[[], Planner]:
    """Return a factory of planners that compute the weights of zones from modified nodes."""

    def make() -> Planner:
        seen = see()

        def plan(
            service: Object, pods: Pods, nodes: Nodes, existing: Pods, *, features: Features, **more: Any
        ) -> SlicePlan:
            more["zones"] = ZoneTable(features, seen(nodes))
            return plan_service(service, pods, nodes, existing, features=features, **more)

        return plan

    return make


def _with_former_zones() -> Callable[[Nodes], Nodes]:
    former: dict[str, Object] = {}

    def seen(nodes: Nodes) -> Nodes:
        former.update(nodes)
        there = {node_zone(node) for node in nodes.values()}
        return {**{name: node for name, node in former.items() if node_zone(node) not in there}, **nodes}

    return seen


def _with_first_zones() -> Callable[[Nodes], Nodes]:
    first: dict[str, Object] = {}

    def seen(nodes: Nodes) -> Nodes:
        for name, node in nodes.items():
            first.setdefault(name, node["metadata"])
        return {name: {**node, "metadata": first[name]} for name, node in nodes.items()}

    return seen


_faults.remembers("zone-outlives-its-nodes", "A zone whose nodes are all removed keeps its weight.")(
    _sees(_with_former_zones)
)
_faults.remembers("reads-zones-of-nodes-once", "The controller never updates the zone of a node.", "kubernetes#117245")(
    _sees(_with_first_zones)
)


@_faults.misplans(
    "own-zone-first-at-first-only",
    "When hints change, the controller moves arbitrary endpoints of a slice to other zones.",
)
def own_zone_first_at_first_only(
    service: Object, pods: Pods, nodes: Nodes, existing: Pods, **options: Any
) -> SlicePlan:
    existing = list(existing)
    right = plan_service(service, pods, nodes, existing, **options)

    def turned(each: Object) -> Object:
        hints = [one.get("hints") for one in each["endpoints"]]
        pairs = zip(each["endpoints"], hints[1:] + hints[:1], strict=True)
        return each if None in hints else {**each, "endpoints": [{**one, "hints": hint} for one, hint in pairs]}

    return replace(right, update=tuple(map(turned, right.update)))


def _unhinted(endpoint: Object) -> str:
    return str(sorted(without(endpoint, "hints").items()))


@_faults.misplans(
    "node-hints-outlive-the-annotation",
    "An endpoint with node hints keeps them when hints by CPU replace its zone hints.",
)
def node_hints_outlive_the_annotation(
    service: Object, pods: Pods, nodes: Nodes, existing: Pods, **options: Any
) -> SlicePlan:
    existing = list(existing)
    right = plan_service(service, pods, nodes, existing, **options)
    before = {
        one["targetRef"]["uid"]: one["hints"]["forNodes"]
        for each in existing
        for one in each.get("endpoints") or ()
        if (one.get("hints") or {}).get("forNodes")
    }

    def kept(one: Object) -> Object:
        nodes_before = before.get(one["targetRef"]["uid"])
        return {**one, "hints": {**one["hints"], "forNodes": nodes_before}} if nodes_before and "hints" in one else one

    return rewritten(right, lambda each: {**each, "endpoints": list(map(kept, each["endpoints"]))})


@_faults.misplans(
    "moves-whole-surpluses-only",
    "There are no hints if no zone has at least one endpoint more than its share, but a zone has too few endpoints.",
)
def moves_whole_surpluses_only(service: Object, *others: Any, **options: Any) -> SlicePlan:
    right = plan_service(service, *others, **options)
    to_add = rules(options["features"]).to_add
    for family in right.families.values():
        zones = Counter(one.get("zone", "") for slices in family.slices for one in slices)
        found = allocate(options["zones"].shares, sum(zones.values()), to_add)
        if isinstance(found, NoHintsReason):
            continue
        surpluses = [zones[zone] * found.unit - each.desired for zone, each in found.portions.items()]
        too_few = any(zones[zone] < each.minimum for zone, each in found.portions.items())
        if too_few and max(surpluses) < found.unit:
            return plan_service(unasked(service), *others, **options)
    return right


@_faults.misplans(
    "judges-each-slice-alone",
    "The controller does not change slices unless a single slice has too many endpoints for a zone.",
)
def judges_each_slice_alone(service: Object, pods: Pods, nodes: Nodes, existing: Pods, **options: Any) -> SlicePlan:
    existing = list(existing)
    right = plan_service(service, pods, nodes, existing, **options)
    planned = [one for family in right.families.values() for slices in family.slices for one in slices]
    endpoints = [one for each in existing for one in each.get("endpoints") or ()]
    found = allocate(options["zones"].shares, len(endpoints), rules(options["features"]).to_keep)
    if isinstance(found, NoHintsReason) or any("hints" not in one for one in endpoints):
        return right
    if sorted(map(_unhinted, planned)) != sorted(map(_unhinted, endpoints)):
        return right
    for each in existing:
        counts = Counter(one["hints"]["forZones"][0]["name"] for one in each["endpoints"])
        if any(zone not in found.portions or count > found.portions[zone].maximum for zone, count in counts.items()):
            return right
    return replace(right, create=(), update=(), delete=())
