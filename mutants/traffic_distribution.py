"""EndpointSlice controllers with one fault each in the hints for trafficDistribution."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from mutants.mutant import Mutant
from mutants.wrong_plans import Nodes, PlanMutantRegistry, Planner, Pods, distribution_of, rewritten, with_spec, without
from reference.client import Object
from reference.endpointslice.labels import TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE, ZONE, node_zone
from reference.endpointslice.plan import SlicePlan, plan_service

MUTANTS: list[Mutant] = []

_faults = PlanMutantRegistry(MUTANTS)


@_faults.miswrites("writes-no-hints", "The controller writes no hints and reports no reason.", "kubernetes#103888")
def writes_no_hints(service: Object, endpoint: Object) -> Object:
    return without(endpoint, "hints")


@_faults.misplans(
    "hints-need-three-endpoints", "The controller writes no hints for fewer than three endpoints.", "kubernetes#122437"
)
def hints_need_three_endpoints(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
    pods = list(pods)
    return plan_service(
        service if len(pods) >= 3 else with_spec(service, trafficDistribution=None), pods, *others, **options
    )


@_faults.misplans("hints-unasked", "The controller also writes hints for Services that do not request them.")
def hints_unasked(service: Object, *others: Any, **options: Any) -> SlicePlan:
    return plan_service(
        with_spec(service, trafficDistribution=distribution_of(service) or "PreferClose"), *others, **options
    )


@_faults.remembers("hints-outlive-the-field", "The hints remain when trafficDistribution is removed.")
def hints_outlive_the_field() -> Planner:
    values: dict[str, str] = {}

    def plan(service: Object, *others: Any, **options: Any) -> SlicePlan:
        uid = service["metadata"]["uid"]
        values[uid] = distribution_of(service) or values.get(uid, "")
        return plan_service(with_spec(service, trafficDistribution=values[uid] or None), *others, **options)

    return plan


@_faults.remembers("first-value-for-ever", "The controller ignores changes to trafficDistribution.")
def first_value_for_ever() -> Planner:
    values: dict[str, str] = {}

    def plan(service: Object, *others: Any, **options: Any) -> SlicePlan:
        value = values.setdefault(service["metadata"]["uid"], distribution_of(service))
        return plan_service(with_spec(service, trafficDistribution=value or None), *others, **options)

    return plan


@_faults.miswrites("hints-unready-endpoints", "The controller also writes hints for endpoints that are not ready.")
def hints_unready_endpoints(service: Object, endpoint: Object) -> Object:
    hinted = any("hints" in each for each in service["slice"]["endpoints"])
    if endpoint["conditions"]["ready"] or not hinted or "zone" not in endpoint:
        return endpoint
    nodes = {"forNodes": [{"name": endpoint["nodeName"]}]} if distribution_of(service) == "PreferSameNode" else {}
    return {**endpoint, "hints": {"forZones": [{"name": endpoint["zone"]}], **nodes}}


@_faults.misplans(
    "one-unlabelled-node-ends-hints",
    "If one node has no zone label, the controller removes the hints of all endpoints.",
    "kubernetes#123401",
)
def one_unlabelled_node_ends_hints(
    service: Object, pods: Pods, nodes: Nodes, existing: Iterable[Object], **options: Any
) -> SlicePlan:
    value = distribution_of(service) if all(node_zone(node) for node in nodes.values()) else ""
    return plan_service(with_spec(service, trafficDistribution=value or None), pods, nodes, existing, **options)


@_faults.miswrites("hints-every-zone", "The controller hints every endpoint for all zones.")
def hints_every_zone(service: Object, endpoint: Object) -> Object:
    return _hinted(endpoint, forZones=[{"name": zone} for zone in "abc"])


@_faults.miswrites(
    "node-hints-for-every-value", "The controller writes node hints for every value of trafficDistribution."
)
def node_hints_for_every_value(service: Object, endpoint: Object) -> Object:
    return _hinted(endpoint, forNodes=[{"name": endpoint["nodeName"]}])


def _hinted(endpoint: Object, **lists: Any) -> Object:
    return {**endpoint, "hints": {**endpoint["hints"], **lists}} if "hints" in endpoint else endpoint


@_faults.miswrites("same-node-without-node-hints", "The controller writes no node hints for PreferSameNode.")
def same_node_without_node_hints(service: Object, endpoint: Object) -> Object:
    return _bare(endpoint, "forNodes") if distribution_of(service) == "PreferSameNode" else endpoint


def _bare(endpoint: Object, kind: str) -> Object:
    """Return the endpoint without this kind of hints."""
    hints = without(endpoint.get("hints") or {}, kind)
    return {**endpoint, "hints": hints} if hints else without(endpoint, "hints")


@_faults.miswrites(
    "same-node-without-zone-hints",
    "The controller writes no zone hints for PreferSameNode, although older proxies need them.",
)
def same_node_without_zone_hints(service: Object, endpoint: Object) -> Object:
    return _bare(endpoint, "forZones") if distribution_of(service) == "PreferSameNode" else endpoint


@_faults.miswrites(
    "same-node-needs-a-zone", "With PreferSameNode, the controller writes no hint for an endpoint without a zone."
)
def same_node_needs_a_zone(service: Object, endpoint: Object) -> Object:
    bare = "zone" not in endpoint and distribution_of(service) == "PreferSameNode"
    return without(endpoint, "hints") if bare else endpoint


@_faults.misplans(
    "knows-only-prefer-close",
    "The controller ignores PreferSameZone and PreferSameNode.",
    "kube-controller-manager before 1.34",
)
def knows_only_prefer_close(service: Object, *others: Any, **options: Any) -> SlicePlan:
    value = distribution_of(service)
    known = None if value in ("PreferSameZone", "PreferSameNode") else value or None
    return plan_service(with_spec(service, trafficDistribution=known), *others, **options)


@_faults.misplans(
    "local-policy-ends-hints",
    "The controller writes no hints for a Service with a Local traffic policy.",
    "a literal reading of the table in KEP-2433",
)
def local_policy_ends_hints(service: Object, *others: Any, **options: Any) -> SlicePlan:
    policies = (service["spec"].get("internalTrafficPolicy"), service["spec"].get("externalTrafficPolicy"))
    value = None if "Local" in policies else distribution_of(service) or None
    return plan_service(with_spec(service, trafficDistribution=value), *others, **options)


@_faults.misplans("annotation-as-the-field", "The controller accepts values of trafficDistribution in the annotation.")
def annotation_as_the_field(service: Object, *others: Any, **options: Any) -> SlicePlan:
    value = _annotation(service)
    known = value if value in ("PreferClose", "PreferSameZone", "PreferSameNode") else None
    return plan_service(with_spec(service, trafficDistribution=distribution_of(service) or known), *others, **options)


@_faults.misplans(
    "any-annotation-hides-the-field",
    "The annotation overrides trafficDistribution, whatever the value of the annotation.",
)
def any_annotation_hides_the_field(service: Object, *others: Any, **options: Any) -> SlicePlan:
    value = None if _annotation(service) else distribution_of(service) or None
    return plan_service(with_spec(service, trafficDistribution=value), *others, **options)


def _annotation(service: Object) -> str:
    annotations = service["metadata"].get("annotations") or {}
    return str(annotations.get(TOPOLOGY_AWARE_HINTS, annotations.get(TOPOLOGY_MODE)) or "")


@_faults.remembers(
    "hints-one-slice-only",
    "Of the slices of a Service, only those with the same ports as the first slice get hints.",
)
def hints_one_slice_only() -> Planner:
    first: dict[str, Any] = {}

    def plan(service: Object, *others: Any, **options: Any) -> SlicePlan:
        right = plan_service(service, *others, **options)
        for each in (*right.create, *right.update):
            if each["endpoints"]:
                first.setdefault(service["metadata"]["uid"], each["ports"])

        def kept(each: Object) -> Object:
            bare = [without(one, "hints") for one in each["endpoints"]]
            return each if each["ports"] == first.get(service["metadata"]["uid"]) else {**each, "endpoints": bare}

        return rewritten(right, kept)

    return plan


@_faults.remembers("node-hints-outlive-the-field", "Node hints remain when trafficDistribution is removed.")
def node_hints_outlive_the_field() -> Planner:
    local: set[str] = set()

    def plan(service: Object, *others: Any, **options: Any) -> SlicePlan:
        uid = service["metadata"]["uid"]
        if distribution_of(service) == "PreferSameNode":
            local.add(uid)
        right = plan_service(service, *others, **options)
        if uid not in local or distribution_of(service):
            return right

        def hinted(each: Object) -> Object:
            own = [{**one, "hints": {"forNodes": [{"name": one["nodeName"]}]}} for one in each["endpoints"]]
            return {**each, "endpoints": own}

        return replace(right, update=tuple(map(hinted, right.update)))

    return plan


@_faults.miswrites("hints-in-one-family", "The controller writes no hints in slices of the second IP family.")
def hints_in_one_family(service: Object, endpoint: Object) -> Object:
    return without(endpoint, "hints") if service["slice"]["addressType"] == "IPv6" else endpoint


@_faults.remembers("node-zone-read-once", "The controller reads the zone of a node only once.", "kubernetes#117245")
def node_zone_read_once() -> Planner:
    known: dict[str, str] = {}

    def plan(service: Object, pods: Pods, nodes: Nodes, *others: Any, **options: Any) -> SlicePlan:
        for name in known.keys() - nodes.keys():
            del known[name]
        for name, node in nodes.items():
            known.setdefault(name, node_zone(node))
        first = {name: _in_zone(node, known[name]) for name, node in nodes.items()}
        return plan_service(service, pods, first, *others, **options)

    return plan


@_faults.remembers("zone-outlives-its-label", "When a node loses its zone label, its endpoints keep their zone.")
def zone_outlives_its_label() -> Planner:
    known: dict[str, str] = {}

    def plan(service: Object, pods: Pods, nodes: Nodes, *others: Any, **options: Any) -> SlicePlan:
        known.update({name: zone for name, node in nodes.items() if (zone := node_zone(node))})
        last = {name: _in_zone(node, known.get(name, "")) for name, node in nodes.items()}
        return plan_service(service, pods, last, *others, **options)

    return plan


def _in_zone(node: Object, zone: str) -> Object:
    others = without(node["metadata"].get("labels") or {}, ZONE)
    return {**node, "metadata": {**node["metadata"], "labels": {**others, **({ZONE: zone} if zone else {})}}}
