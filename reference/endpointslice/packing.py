"""Distributes endpoints over slices with as few writes as possible, because each write is sent to every node.

New endpoints are added first to slices that must be rewritten for other reasons, then to a single slice with space for
all the remaining endpoints, and last to new slices. Slices are never rebalanced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reference.client import Object
from reference.endpointslice.endpoints import Identity, PortGroup, identity


@dataclass(slots=True)
class SliceDraft:
    """The desired content of a slice. `base` is the existing slice, or None for a new slice.

    While `changed` is false, `endpoints` is the list inside `base` and must not be changed in place.
    """

    base: Object | None
    ports: list[Object]
    endpoints: list[Object]
    changed: bool = True

    def set_hints(self, wanted: Sequence[Object | None]) -> None:
        """Set the hints of each endpoint; None removes hints. If any hints change, mark the slice as changed."""
        wrong = [
            number
            for number, (endpoint, hints) in enumerate(zip(self.endpoints, wanted, strict=True))
            if (hints is None and "hints" in endpoint) or (hints is not None and endpoint.get("hints") != hints)
        ]
        if not wrong:
            return
        self.endpoints = list(self.endpoints)
        self.changed = True
        for number in wrong:
            bare = {key: value for key, value in self.endpoints[number].items() if key != "hints"}
            hints = wanted[number]
            self.endpoints[number] = bare if hints is None else {**bare, "hints": hints}


@dataclass(slots=True)
class Packing:
    """Drafts for slices with endpoints; `spare` slices are now empty. `added` and `removed` count endpoints."""

    drafts: list[SliceDraft] = field(default_factory=list)
    spare: list[Object] = field(default_factory=list)
    added: int = 0
    removed: int = 0


def pack(existing: Sequence[Object], group: PortGroup, labels: Mapping[str, str], *, max_endpoints: int) -> Packing:
    """Distribute the endpoints of one port group over existing slices and new slices of at most `max_endpoints`.

    A slice that already has more endpoints keeps them, as in Kubernetes. The order of pods does not matter.
    """
    packed = Packing()
    missing = dict(group.endpoints)
    for each in existing:
        _keep(each, missing, labels, packed)
    rest = [missing[key] for key in sorted(missing)]
    packed.added = len(rest)
    rewritten = [draft for draft in packed.drafts if draft.changed]
    for draft in sorted(rewritten, key=lambda draft: -len(draft.endpoints)):  # the fullest slice first
        _move(rest, draft, max_endpoints)
    _place(packed.drafts, rest, group.ports, max_endpoints)
    return packed


def same_beyond_hints(one: Object, other: Object) -> bool:
    """Return whether two versions of an endpoint agree in all fields that the controller writes, except hints."""
    return bool(
        one.get("conditions") == other.get("conditions")
        and one.get("nodeName") == other.get("nodeName")
        and one.get("zone") == other.get("zone")
        and _same_target(one.get("targetRef"), other.get("targetRef"))
    )


def _same_target(one: Object | None, other: Object | None) -> bool:
    """Compare targetRefs, except resourceVersion, which old releases wrote and every pod update changes."""
    if one == other or one is None or other is None:
        return one == other
    return {**one, "resourceVersion": ""} == {**other, "resourceVersion": ""}


def _keep(existing: Object, missing: dict[Identity, Object], labels: Mapping[str, str], packed: Packing) -> None:
    """Add a draft of `existing` with only desired endpoints to `packed`. Remove these endpoints from `missing`."""
    present: list[Object] = existing.get("endpoints") or []
    kept = []
    changed = False
    for endpoint in present:
        wanted = missing.pop(identity(endpoint), None)
        if wanted is None:
            changed = True
            continue
        kept.append(wanted)
        changed = changed or not same_beyond_hints(wanted, endpoint)
    packed.removed += len(present) - len(kept)
    ports: list[Object] = existing.get("ports") or []
    if changed and not kept:
        packed.spare.append(existing)
    elif changed:
        packed.drafts.append(SliceDraft(existing, ports, kept))
    elif existing["metadata"].get("labels") != labels:
        packed.drafts.append(SliceDraft(existing, ports, list(present)))
    else:
        packed.drafts.append(SliceDraft(existing, ports, present, changed=False))


def _place(drafts: list[SliceDraft], rest: list[Object], ports: list[Object], max_endpoints: int) -> None:
    while rest:
        draft = _tightest(drafts, len(rest), max_endpoints) if len(rest) < max_endpoints else None
        if draft is None:
            draft = SliceDraft(None, ports, [])
            drafts.append(draft)
        else:
            draft.endpoints = list(draft.endpoints)
            draft.changed = True
        _move(rest, draft, max_endpoints)


def _tightest(drafts: Sequence[SliceDraft], count: int, max_endpoints: int) -> SliceDraft | None:
    fitting = [draft for draft in drafts if not draft.changed and len(draft.endpoints) + count <= max_endpoints]
    return max(fitting, key=lambda draft: len(draft.endpoints), default=None)


def _move(rest: list[Object], draft: SliceDraft, max_endpoints: int) -> None:
    count = max(0, max_endpoints - len(draft.endpoints))
    draft.endpoints.extend(rest[:count])
    del rest[:count]
