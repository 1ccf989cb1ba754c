"""Controllers with one fault each about the topology annotation (KEP-2433)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mutants.client_wrappers import ClientWrapper, controller_through
from mutants.mutant import Mutant
from mutants.wrong_plans import Nodes, PlanMutantRegistry, Planner, Pods, rewritten, without
from reference.client import ApiError, Key, Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.allocation import allocate, rules
from reference.endpointslice.cpu_services import CpuHintedServices
from reference.endpointslice.hints import CpuHeuristic, mechanism
from reference.endpointslice.labels import TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE, node_zone
from reference.endpointslice.node_level import GATE
from reference.endpointslice.plan import SlicePlan, plan_service
from reference.endpointslice.zones import NoHintsReason, ZoneShares, ZoneTable
from reference.features import Features

MUTANTS: list[Mutant] = []


def _planner(plan: Planner) -> Planner:
    """Return a planner that uses `plan` for Services with hints only by CPU, and is correct for others."""

    def plan_any(service: Object, *others: Any, features: Features, **options: Any) -> SlicePlan:
        by_cpu = isinstance(mechanism(service, features), CpuHeuristic) and not features.enabled(GATE)
        return (plan if by_cpu else plan_service)(service, *others, features=features, **options)

    return plan_any


_faults = PlanMutantRegistry(MUTANTS, about=_planner)


def _miscounts(
    name: str, sentence: str, provenance: str = ""
) -> Callable[[Callable[[Nodes], Nodes]], Callable[[Nodes], Nodes]]:
    """Create a mutant that weights zones wrongly. The decorated function returns the nodes to use."""

    def register(see: Callable[[Nodes], Nodes]) -> Callable[[Nodes], Nodes]:
        def plan(
            service: Object, pods: Pods, nodes: Nodes, existing: Pods, *, features: Features, **options: Any
        ) -> SlicePlan:
            options["zones"] = ZoneTable(features, see(nodes))
            return plan_service(service, pods, nodes, existing, features=features, **options)

        _faults.misplans(name, sentence, provenance)(plan)
        return see

    return register


def _as_the_field(service: Object, *others: Any, **options: Any) -> SlicePlan:
    """Return the plan for the Service as if it had PreferClose instead of the annotation."""
    return plan_service(_without_annotation(service, trafficDistribution="PreferClose"), *others, **options)


def _unasked(service: Object, *others: Any, **options: Any) -> SlicePlan:
    """Return the plan for the Service as if it requested no hints."""
    return plan_service(_without_annotation(service), *others, **options)


def _without_annotation(service: Object, **spec: Any) -> Object:
    named = (service["metadata"].get("annotations") or {}).items()
    annotations = {key: value for key, value in named if key not in (TOPOLOGY_MODE, TOPOLOGY_AWARE_HINTS)}
    bare = {name: value for name, value in service["spec"].items() if name != "trafficDistribution"}
    return {**service, "metadata": {**service["metadata"], "annotations": annotations}, "spec": {**bare, **spec}}


def _is_refused(plan: SlicePlan) -> bool:
    return any(family.refusal for family in plan.families.values())


def _endpoints(plan: SlicePlan) -> list[Object]:
    """Return all planned endpoints of the first IP family."""
    families = list(plan.families.values())
    return [each for slices in families[:1] for one in slices.slices for each in one]


def _ready(endpoints: Iterable[Object]) -> int:
    """Return the number of ready endpoints among these endpoints."""
    return sum(each["conditions"]["ready"] for each in endpoints)


def _allows(options: Mapping[str, Any], endpoints: int) -> bool:
    """Return whether this number of endpoints can be allocated to the zones."""
    features = options["features"]
    return not isinstance(allocate(options["zones"].shares, endpoints, rules(features).to_add), NoHintsReason)


# Shares and thresholds


@_faults.misplans(
    "copies-the-own-zone",
    "The controller hints each endpoint for its own zone, regardless of the load.",
    "faults that the e2e test does not detect",
)
def copies_the_own_zone(*arguments: Any, **options: Any) -> SlicePlan:
    return _as_the_field(*arguments, **options)


@_faults.misplans(
    "keeps-every-own-zone",
    "The controller never allocates endpoints to other zones.",
)
def keeps_every_own_zone(*arguments: Any, **options: Any) -> SlicePlan:
    right = plan_service(*arguments, **options)
    return right if _is_refused(right) else _as_the_field(*arguments, **options)


@_faults.misplans(
    "forgets-who-is-in-the-zone",
    "The controller allocates the correct number of endpoints to each zone, but does not prefer those in the zone.",
)
def forgets_who_is_in_the_zone(*arguments: Any, **options: Any) -> SlicePlan:
    def turned(each: Object) -> Object:
        hints = [one.get("hints") for one in each["endpoints"]]
        if None in hints:
            return each
        pairs = zip(each["endpoints"], hints[::-1], strict=True)
        return {**each, "endpoints": [{**one, "hints": hint} for one, hint in pairs]}

    return rewritten(plan_service(*arguments, **options), turned)


@_faults.misplans(
    "needs-more-endpoints-than-zones", "A Service gets hints only if it has more endpoints than there are zones."
)
def needs_more_endpoints_than_zones(*arguments: Any, **options: Any) -> SlicePlan:
    shares = options["zones"].shares
    right = plan_service(*arguments, **options)
    few = isinstance(shares, ZoneShares) and len(_endpoints(right)) <= len(shares.weights)
    return _unasked(*arguments, **options) if few else right


@_faults.misplans("hints-in-one-zone", "If all nodes are in one zone, endpoints are hinted for that zone.")
def hints_in_one_zone(service: Object, pods: Pods, nodes: Nodes, *others: Any, **options: Any) -> SlicePlan:
    plan = _as_the_field if len({node_zone(each) for each in nodes.values()}) == 1 else plan_service
    return plan(service, pods, nodes, *others, **options)


@_faults.misplans("shares-out-each-slice", "The controller allocates the endpoints of every slice separately.")
def shares_out_each_slice(*arguments: Any, **options: Any) -> SlicePlan:
    right = plan_service(*arguments, **options)
    slices = [_ready(each) for family in right.families.values() for each in family.slices]
    right_too = _is_refused(right) or not _allows(options, _ready(_endpoints(right)))
    fit = right_too or all(_allows(options, each) for each in slices)
    return right if fit else _unasked(*arguments, **options)


@_faults.misplans("counts-endpoints-by-port", "The controller counts an endpoint once for each port of the Service.")
def counts_endpoints_by_port(service: Object, *others: Any, **options: Any) -> SlicePlan:
    right = plan_service(service, *others, **options)
    counted = len(_endpoints(right)) * len(service["spec"].get("ports") or ())
    return _as_the_field(service, *others, **options) if _is_refused(right) and _allows(options, counted) else right


@_faults.misplans(
    "counts-unready-endpoints", "The controller counts unready endpoints as ready.", "kubernetes PR#106507"
)
def counts_unready_endpoints(*arguments: Any, **options: Any) -> SlicePlan:
    right = plan_service(*arguments, **options)
    every = _endpoints(right)
    fit = _is_refused(right) or not _allows(options, _ready(every)) or _allows(options, len(every))
    return right if fit else _unasked(*arguments, **options)


@_faults.misplans(
    "guesses-unknown-zones", "The controller treats an endpoint with an unknown zone as an endpoint in zone a."
)
def guesses_unknown_zones(service: Object, pods: Pods, nodes: Nodes, *others: Any, **options: Any) -> SlicePlan:
    return plan_service(service, pods, {name: _in_zone(node, "a") for name, node in nodes.items()}, *others, **options)


def _in_zone(node: Object, zone: str) -> Object:
    """Return the node in `zone`, if it has no zone."""
    labels = {"topology.kubernetes.io/zone": zone, **(node["metadata"].get("labels") or {})}
    return {**node, "metadata": {**node["metadata"], "labels": labels}}


def _other_reading(client: Any, *, features: Features, **options: Any) -> EndpointSliceController:
    other = replace(features, follows="kep" if features.follows == "released" else "released")

    def plan(*arguments: Any, features: Features, **more: Any) -> SlicePlan:
        return plan_service(*arguments, features=other, **more)

    made = EndpointSliceController(client, features=features, plan=_planner(plan), **options)
    made._cpu_services = CpuHintedServices(rules(other))
    made._index.zones = ZoneTable(other)
    return made


_faults.of_controller(
    "takes-the-other-thresholds",
    "CPU-based hints use the KEP's thresholds and its rules for unknown CPU instead of those of releases, and vice "
    "versa.",
    "",
    _other_reading,
)


def _by_zone(each: Object) -> list[list[Object]]:
    """Return the endpoints of a slice, grouped by the zone in their hints."""
    found: dict[str, list[Object]] = {}
    for one in each["endpoints"]:
        zones = (one.get("hints") or {}).get("forZones") or [{"name": ""}]
        found.setdefault(zones[0]["name"], []).append(one)
    return list(found.values())


@_faults.misplans("a-slice-for-each-zone", "The controller writes endpoints with hints to a new slice for each zone.")
def a_slice_for_each_zone(service: Object, *others: Any, **options: Any) -> SlicePlan:
    right = plan_service(service, *others, **options)
    update, create = [], list(right.create)
    for each in right.update:
        stay, *leave = _by_zone(each) or [[]]
        update.append({**each, "endpoints": stay})
        metadata = {name: each["metadata"][name] for name in ("namespace", "labels")}
        metadata["generateName"] = f"{service['metadata']['name']}-"
        create += [{**each, "metadata": metadata, "endpoints": some} for some in leave]
    return replace(right, update=tuple(update), create=tuple(create))


@PlanMutantRegistry(MUTANTS).misplans(
    "shares-out-unasked", "The controller treats Services without the annotation as if the annotation were Auto."
)
def shares_out_unasked(service: Object, *others: Any, **options: Any) -> SlicePlan:
    asking = dict.fromkeys((TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE), "Auto")
    metadata = {**service["metadata"], "annotations": {**asking, **(service["metadata"].get("annotations") or {})}}
    return plan_service({**service, "metadata": metadata}, *others, **options)


# Nodes that count


def _with_status(node: Object, **status: Any) -> Object:
    return {**node, "status": {**(node.get("status") or {}), **status}}


@_miscounts(
    "counts-nodes-instead-of-cores", "The controller weights zones by their number of nodes although the CPU is known."
)
def counts_nodes_instead_of_cores(nodes: Nodes) -> Nodes:
    return {name: _with_status(node, allocatable={"cpu": "1"}) for name, node in nodes.items()}


@_miscounts("reads-cpu-in-thousandths-only", "The controller treats the CPU of a node with whole cores as unknown.")
def reads_cpu_in_thousandths_only(nodes: Nodes) -> Nodes:
    def read(node: Object) -> Object:
        told = node["status"].get("allocatable", {})
        return node if told.get("cpu", "m").endswith("m") else _with_status(node, allocatable={})

    return {name: read(node) for name, node in nodes.items()}


@_miscounts(
    "counts-capacity", "The controller weights zones by the CPU capacity of their nodes instead of allocatable CPU."
)
def counts_capacity(nodes: Nodes) -> Nodes:
    return {name: _with_status(node, allocatable=node["status"].get("capacity", {})) for name, node in nodes.items()}


@_miscounts("counts-control-plane-nodes", "The controller counts control plane nodes.", "kubernetes PR#104744")
def counts_control_plane_nodes(nodes: Nodes) -> Nodes:
    def plain(node: Object) -> Object:
        labels = {key: value for key, value in node["metadata"]["labels"].items() if "node-role" not in key}
        return {**node, "metadata": {**node["metadata"], "labels": labels}}

    return {name: plain(node) for name, node in nodes.items()}


@_miscounts("counts-unready-nodes", "The controller counts unready nodes.")
def counts_unready_nodes(nodes: Nodes) -> Nodes:
    ready = [{"type": "Ready", "status": "True"}]
    return {name: _with_status(node, conditions=ready) for name, node in nodes.items()}


@_miscounts("counts-nodes-of-unknown-readiness", "The controller counts nodes whose readiness is Unknown.")
def counts_nodes_of_unknown_readiness(nodes: Nodes) -> Nodes:
    def known(node: Object) -> Object:
        status = [
            {**each, "status": {"Unknown": "True"}.get(each["status"], each["status"])}
            for each in node["status"]["conditions"]
        ]
        return _with_status(node, conditions=status)

    return {name: known(node) for name, node in nodes.items()}


@_miscounts(
    "control-plane-labels-have-no-value", "The controller counts control plane nodes if their role label has a value."
)
def control_plane_labels_have_no_value(nodes: Nodes) -> Nodes:
    def read(node: Object) -> Object:
        labels = node["metadata"].get("labels") or {}
        kept = {key: value for key, value in labels.items() if "node-role" not in key or not value}
        return {**node, "metadata": {**node["metadata"], "labels": kept}}

    return {name: read(node) for name, node in nodes.items()}


@_faults.misplans(
    "unready-endpoints-end-the-hysteresis",
    "A Service with an endpoint that is not ready loses its hints at 20 % overload.",
)
def unready_endpoints_end_the_hysteresis(
    service: Object, pods: Pods, nodes: Nodes, existing: Pods, **options: Any
) -> SlicePlan:
    pods, existing = list(pods), list(existing)
    right = plan_service(service, pods, nodes, existing, **options)
    if all("hints" in endpoint for each in existing for endpoint in each["endpoints"]):
        return right
    bare = [{**each, "endpoints": [without(one, "hints") for one in each["endpoints"]]} for each in existing]
    ends = not _is_refused(right) and _is_refused(plan_service(service, pods, nodes, bare, **options))
    return _unasked(service, pods, nodes, existing, **options) if ends else right


MUTANTS[-1] = replace(MUTANTS[-1], draw="beside=pods")


@_miscounts("leaves-out-nodes-without-zone", "The controller silently ignores nodes without a zone.")
def leaves_out_nodes_without_zone(nodes: Nodes) -> Nodes:
    return {name: node for name, node in nodes.items() if node_zone(node)}


@_miscounts("counts-nodes-without-zone-as-a-zone", "The controller counts the nodes without a zone as one more zone.")
def counts_nodes_without_zone_as_a_zone(nodes: Nodes) -> Nodes:
    return {name: node if node_zone(node) else _in_zone(node, "unknown") for name, node in nodes.items()}


@_miscounts("leaves-out-nodes-without-cpu", "The controller ignores nodes with unknown CPU.")
def leaves_out_nodes_without_cpu(nodes: Nodes) -> Nodes:
    return {name: node for name, node in nodes.items() if node["status"].get("allocatable", {}).get("cpu")}


# Changes


@_faults.remembers("first-refusal-for-ever", "A Service that gets no hints at first never gets hints.")
def first_refusal_for_ever() -> Planner:
    refused: set[str] = set()

    def plan(service: Object, *others: Any, **options: Any) -> SlicePlan:
        right = plan_service(service, *others, **options)
        if _is_refused(right):
            refused.add(service["metadata"]["uid"])
            return right
        return _unasked(service, *others, **options) if service["metadata"]["uid"] in refused else right

    return plan


@_faults.misplans("never-withdraws", "The controller never removes hints, even with a large overload.")
def never_withdraws(service: Object, pods: Pods, nodes: Nodes, existing: Pods, **options: Any) -> SlicePlan:
    existing = list(existing)
    hinted = any("hints" in one for each in existing for one in each.get("endpoints") or ())
    right = plan_service(service, pods, nodes, existing, **options)
    return _as_the_field(service, pods, nodes, existing, **options) if hinted and _is_refused(right) else right


class _IgnoresCpuChanges(EndpointSliceController):
    """Does not sync Services when the CPU of a zone changes."""

    def _check_nodes(self) -> None:
        self._judged_nodes = self._index.zones.version, self._judged_nodes[1]
        super()._check_nodes()


class _RewritesOnCpuChange(EndpointSliceController):
    """Writes all slices of Services with CPU-based hints when the CPU of a zone changes."""

    _weighed: object = None

    def _check_nodes(self) -> None:
        super()._check_nodes()
        shares = self._index.zones.shares
        if self._weighed is not None and self._weighed != shares and self._has_state:
            for key, service in self._index.services.items():
                if isinstance(mechanism(service, self._features), CpuHeuristic):
                    self._rewrite(key, shares)
        self._weighed = shares

    def _rewrite(self, key: Key, shares: object) -> None:
        for each in self._index.slices.of(key):
            with suppress(ApiError):
                written = self._client.update("endpointslices", key[0], _looked_at(each, shares))
                self._index.slices.written(written)


def _looked_at(each: Object, shares: object) -> Object:
    return {**each, "metadata": {**each["metadata"], "annotations": {"example.org/shares": str(shares)}}}


FULL = 100  # endpoints


@_faults.misplans("keeps-the-hints-of-full-slices", "The hints of a slice with 100 endpoints never change.")
def _keeps_the_hints_of_full_slices(
    service: Object, pods: Pods, nodes: Nodes, existing: Pods, **options: Any
) -> SlicePlan:
    existing = list(existing)
    right = plan_service(service, pods, nodes, existing, **options)
    full = {each["metadata"]["name"] for each in existing if len(each.get("endpoints") or ()) >= FULL}
    return replace(right, update=tuple(each for each in right.update if each["metadata"]["name"] not in full))


_faults.of_controller(
    "deaf-to-nodes", "Hints do not change when nodes are added, removed or changed.", "", _IgnoresCpuChanges
)
_faults.of_controller(
    "rewrites-at-node-events",
    "The controller writes slices whenever the CPU of a zone changes.",
    "",
    _RewritesOnCpuChange,
)


@_faults.remembers(
    "rewrites-slices-that-stand",
    "When one slice of a Service is written, the other slices are written as well.",
    "kubernetes PR#105267",
)
def rewrites_slices_that_stand() -> Planner:
    written: dict[str, int] = {}

    def plan(service: Object, pods: Pods, nodes: Nodes, existing: Pods, **options: Any) -> SlicePlan:
        existing = list(existing)
        right = plan_service(service, pods, nodes, existing, **options)
        if right.is_empty:
            return right
        uid = service["metadata"]["uid"]
        written[uid] = written.get(uid, 0) + 1
        changed = {each["metadata"].get("name") for each in (*right.update, *right.delete)}
        others = [_looked_at(each, written[uid]) for each in existing if each["metadata"]["name"] not in changed]
        return replace(right, update=(*right.update, *others))

    return plan


class _WritesInTwoSteps(ClientWrapper):
    """Writes each change to a slice in two steps."""

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        stored = self._client.update(resource, namespace, {**obj, "endpoints": obj["endpoints"][::-1]})
        return self._client.update(resource, namespace, {**stored, "endpoints": obj["endpoints"]})


_faults.of_controller(
    "writes-every-slice-twice",
    "The controller writes a changed slice twice.",
    "",
    controller_through(_WritesInTwoSteps),
)
