"""Plans one sync: which slices to create, update and delete. After a plan is applied, the next plan must be empty."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reference.client import Object
from reference.endpointslice.conditions import listed
from reference.endpointslice.cpu_hints import CpuOutcome
from reference.endpointslice.endpoints import (
    AddressType,
    DesiredEndpoints,
    EndpointCache,
    ExcludedPod,
    address_types,
    desired_endpoints,
    port_key,
)
from reference.endpointslice.hints import Mechanism, NoHints, Outcome, PluginHeuristic, hinter, mechanism
from reference.endpointslice.labels import slice_labels
from reference.endpointslice.node_level import GATE, NodeHints, NodeLevel
from reference.endpointslice.packing import Packing, SliceDraft, pack
from reference.endpointslice.zones import NoHintsReason, ZoneTable
from reference.features import Features
from reference.heuristics.heuristic import Heuristic, HeuristicError

MAX_ENDPOINTS_PER_SLICE = 100


@dataclass(frozen=True, slots=True)
class FamilyPlan:
    """`slices` has the endpoints of each slice, and `ideal_slices` is the smallest possible number of slices."""

    slices: tuple[Sequence[Object], ...]
    ideal_slices: int
    added: int
    removed: int
    changed_slices: int
    outcome: Outcome

    @property
    def refusal(self) -> str:
        """The reason why a heuristic gave no hints, as a sentence, or "" if it gave hints or there is no heuristic."""
        match self.outcome:
            case HeuristicError() as error:
                return str(error)
            case CpuOutcome(refusal=NoHintsReason(message=message)):
                return message
            case _:
                return ""


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """The writes of one sync, in this order: create, update, delete. So new endpoints appear before old ones disappear.

    `create` contains new slices (with generateName, without name), `update` contains existing slices with their
    resourceVersion, and `delete` contains existing slices. `missing_nodes` lists the pods left out because their Node
    does not exist. If there are any, the sync fails and is retried. `mechanism` determined the hints, and `families`
    contains the plan of each address family. `counts_nodes` is true if the hints also depend on nodes without
    endpoints.
    """

    create: tuple[Object, ...]
    update: tuple[Object, ...]
    delete: tuple[Object, ...]
    missing_nodes: tuple[ExcludedPod, ...]
    mechanism: Mechanism
    families: Mapping[AddressType, FamilyPlan] = field(default_factory=dict)
    counts_nodes: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.create or self.update or self.delete)

    @property
    def failure(self) -> str:
        """A message about failed heuristics and missing Nodes, which make the sync fail, or "" if there are none."""
        broken = (each.refusal for each in self.families.values() if isinstance(each.outcome, HeuristicError))
        return "; ".join([*dict.fromkeys(broken), *([self._describe_missing()] if self.missing_nodes else [])])

    def _describe_missing(self) -> str:
        pods = listed(f"{each.pod} (node {each.node!r})" for each in self.missing_nodes)
        return f"pods left out because their Node does not exist: {pods}"


def plan_service(
    service: Object,
    pods: Iterable[Object],
    nodes: Mapping[str, Object],
    existing: Iterable[Object],
    *,
    features: Features,
    max_endpoints: int = MAX_ENDPOINTS_PER_SLICE,
    memo: EndpointCache | None = None,
    zones: ZoneTable | None = None,
    heuristics: Mapping[str, Heuristic] | None = None,
    node_level: NodeLevel | None = None,
) -> SlicePlan:
    """Return the plan for one Service.

    `pods` are the pods that the selector matches. `nodes` contains all nodes by name. `existing` contains the slices
    with this controller's managed-by label and the Service's name. Only `memo`, a cache for this Service, is changed.
    `zones` is the `ZoneTable` of `nodes`, or None. `heuristics` maps `trafficDistribution` values to plug-ins.
    `node_level` configures node-level topology, if its gate is enabled; None means `manual`.
    """
    missing: dict[ExcludedPod, None] = {}
    heuristics = heuristics or {}
    decided_by = mechanism(service, features, heuristics)
    if not selects_pods(service):
        return SlicePlan((), (), (), (), NoHints("the Service is of type ExternalName or has no selector"))
    owned, delete = _divide(service, existing)
    pods = list(pods)
    create: list[Object] = []
    update: list[Object] = []
    families: dict[AddressType, FamilyPlan] = {}
    labels = slice_labels(service)
    hint = hinter(decided_by, features=features, nodes=nodes, zones=zones, heuristics=heuristics)
    node_hints = None
    if features.enabled(GATE):
        node_hints = NodeHints(service, features, node_level or NodeLevel(), pods=pods, nodes=nodes)
        hint = node_hints.on_top_of(hint)
    for address_type in address_types(service):
        desired = desired_endpoints(service, pods, nodes, address_type, memo)
        missing.update(dict.fromkeys(desired.missing_nodes))
        present = owned.pop(address_type, [])
        packed = _pack_family(desired, present, labels, max_endpoints)
        outcome = hint(packed.drafts, present)
        _reuse(packed)
        _ensure_one(packed, labels)
        families[address_type] = FamilyPlan(
            slices=tuple(draft.endpoints for draft in packed.drafts),
            ideal_slices=max(1, sum(-(-len(group.endpoints) // max_endpoints) for group in desired.groups.values())),
            added=packed.added,
            removed=packed.removed,
            changed_slices=len(packed.spare) + sum(draft.changed for draft in packed.drafts),
            outcome=outcome,
        )
        delete += packed.spare
        changed = [draft for draft in packed.drafts if draft.changed]
        create += [_new(service, address_type, labels, draft) for draft in changed if draft.base is None]
        update += [_rewritten(draft.base, labels, draft) for draft in changed if draft.base is not None]
    delete += [each for slices in owned.values() for each in slices]
    if "deletionTimestamp" in service["metadata"]:
        create = []
    return SlicePlan(
        tuple(create),
        tuple(update),
        tuple(delete),
        tuple(missing),
        decided_by,
        families,
        counts_nodes=isinstance(decided_by, PluginHeuristic) or (node_hints is not None and node_hints.counts_nodes),
    )


def plan_deleted_service(name: str, existing: Iterable[Object]) -> SlicePlan:
    """Return the plan for a deleted Service: delete the slices that it owns, as the garbage collector would do."""
    orphans = tuple(
        each
        for each in existing
        if any(
            owner.get("kind") == "Service" and owner.get("name") == name
            for owner in each["metadata"].get("ownerReferences") or ()
        )
    )
    return SlicePlan((), (), orphans, (), NoHints("the Service does not exist"))


def selects_pods(service: Object) -> bool:
    """Return whether the controller manages slices for `service`: it has a selector and is not ExternalName."""
    spec = service["spec"]
    return spec.get("type") != "ExternalName" and bool(spec.get("selector"))


def _divide(service: Object, existing: Iterable[Object]) -> tuple[dict[AddressType, list[Object]], list[Object]]:
    """Return the slices that `service` owns, by address family, and all others. Skip slices that are being deleted."""
    owned: dict[AddressType, list[Object]] = {}
    foreign: list[Object] = []
    for each in sorted(existing, key=lambda each: str(each["metadata"]["name"])):
        if "deletionTimestamp" in each["metadata"]:
            continue
        if _is_owned(each, service):
            owned.setdefault(each["addressType"], []).append(each)
        else:
            foreign.append(each)
    return owned, foreign


def _is_owned(endpoint_slice: Object, service: Object) -> bool:
    uid = service["metadata"].get("uid", "")
    return any(
        owner.get("uid") == uid and owner.get("kind") == "Service" and owner.get("apiVersion") == "v1"
        for owner in endpoint_slice["metadata"].get("ownerReferences") or ()
    )


def _pack_family(
    desired: DesiredEndpoints, existing: Sequence[Object], labels: Mapping[str, str], max_endpoints: int
) -> Packing:
    by_ports: dict[object, list[Object]] = {}
    for each in existing:
        by_ports.setdefault(port_key(each.get("ports")), []).append(each)
    packed = Packing()
    for key, group in sorted(desired.groups.items()):
        part = pack(by_ports.pop(key, []), group, labels, max_endpoints=max_endpoints)
        packed.drafts += part.drafts
        packed.spare += part.spare
        packed.added += part.added
        packed.removed += part.removed
    packed.spare += [each for slices in by_ports.values() for each in slices]
    return packed


def _reuse(packed: Packing) -> None:
    """Update slices that would otherwise be deleted, instead of creating new slices, to save a write."""
    for draft in packed.drafts:
        if draft.base is None and packed.spare:
            draft.base = packed.spare.pop(0)


def _ensure_one(packed: Packing, labels: Mapping[str, str]) -> None:
    """Keep or create an empty slice without ports for an address family that has no endpoints, as Kubernetes does."""
    if packed.drafts:
        return
    spare = sorted(packed.spare, key=lambda each: not _is_placeholder(each, labels))
    base = spare[0] if spare else None
    packed.spare = spare[1:]
    packed.drafts.append(SliceDraft(base, [], [], changed=base is None or not _is_placeholder(base, labels)))


def _is_placeholder(endpoint_slice: Object, labels: Mapping[str, str]) -> bool:
    return (
        not endpoint_slice.get("endpoints")
        and not endpoint_slice.get("ports")
        and endpoint_slice["metadata"].get("labels") == labels
    )


def _new(service: Object, address_type: AddressType, labels: Mapping[str, str], draft: SliceDraft) -> Object:
    metadata = service["metadata"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": metadata["name"] + "-",
            "namespace": metadata["namespace"],
            "labels": dict(labels),
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "name": metadata["name"],
                    "uid": metadata.get("uid", ""),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "addressType": address_type,
        "ports": [dict(port) for port in draft.ports],
        "endpoints": draft.endpoints,
    }


def _rewritten(base: Object, labels: Mapping[str, str], draft: SliceDraft) -> Object:
    return {
        **base,
        "metadata": {**base["metadata"], "labels": dict(labels)},
        "ports": [dict(port) for port in draft.ports],
        "endpoints": draft.endpoints,
    }
