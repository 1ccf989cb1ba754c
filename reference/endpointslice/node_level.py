"""Node-level topology of KEP-3015 (2022): chooses the Services that get node hints, and sets these hints.

No release implements that version of the KEP. The KEP compares several approaches: Services opt in, the controller
decides, or both. This controller implements all approaches, and its configuration selects one. Node hints are added to
the other hints (see `hints`), so proxies on nodes without an endpoint use the other hints.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from reference.client import Object
from reference.endpointslice.hints import Hinter, Outcome, topology_annotation
from reference.endpointslice.packing import SliceDraft
from reference.features import Features

GATE = "NodeLevelTopology"
ASKED = "Node"
"""The value of the topology annotation with which a Service requests node-level topology."""

NOT_SET = ("", "Disabled", "disabled")

Approach = Literal["manual", "automatic", "opt-in", "opt-out"]


@dataclass(frozen=True, slots=True)
class MissingNodesLimit:
    """The maximum number of nodes without an endpoint, as a number or as a percentage of all nodes."""

    most: int
    percent: bool = False

    def allows(self, missing: int, nodes: int) -> bool:
        return missing * 100 <= self.most * nodes if self.percent else missing <= self.most


@dataclass(frozen=True, slots=True)
class NodeLevel:
    """Determines which Services get node hints (KEP-3015, 2022: Choosing Services to Apply Node-Level Topology To).

    `manual` chooses Services whose topology annotation is `Node`. `automatic` chooses Services whose endpoints meet all
    criteria. `opt-in` also checks the criteria, but only for Services with the annotation, and `opt-out` only for
    Services without it. There are two criteria. At most `missing` nodes may have no endpoint (ready or not); None
    disables this criterion. With `daemon_set`, all pods must belong to one DaemonSet.
    """

    approach: Approach = "manual"
    missing: MissingNodesLimit | None = MissingNodesLimit(10, percent=True)
    daemon_set: bool = True

    @classmethod
    def parse(cls, text: str) -> "NodeLevel":
        """Parse "automatic", or "opt-in:missing=10%,daemonset". Raises `ValueError`, which describes the syntax."""
        approach, colon, listed = text.partition(":")
        criteria = listed.split(",") if colon else []
        numbers = [found for each in criteria if (found := re.fullmatch(r"missing=(\d+)(%?)", each))]
        wrong = len(numbers) + criteria.count("daemonset") != len(criteria) or len(numbers) > 1
        if approach not in get_args(Approach) or wrong or (colon and approach == "manual"):
            raise ValueError(
                f"node-level topology {text!r}: expected manual, automatic, opt-in or opt-out; all but the first can "
                "be followed by criteria, as in automatic:missing=10%,daemonset"
            )
        if not colon:
            return cls(approach)  # type: ignore[arg-type]  # checked above
        missing = MissingNodesLimit(int(numbers[0][1]), bool(numbers[0][2])) if numbers else None
        return cls(approach, missing, "daemonset" in criteria)  # type: ignore[arg-type]


class NodeHints:
    def __init__(
        self,
        service: Object,
        features: Features,
        config: NodeLevel,
        *,
        pods: Sequence[Object],
        nodes: Mapping[str, Object],
    ) -> None:
        self._config = config
        self._excluded = _excluded(service, features, config)
        self._nodes = nodes
        self._owners = {each["metadata"]["name"]: daemon_set_of(each) for each in pods}

    @property
    def counts_nodes(self) -> bool:
        """True if the hints depend on the number of nodes, including nodes without endpoints."""
        return not self._excluded and self._config.approach != "manual" and self._config.missing is not None

    def on_top_of(self, hint: Hinter) -> Hinter:
        """Return a function that calls `hint`, and then adds node hints if the endpoints meet the criteria."""

        def both(drafts: Sequence[SliceDraft], existing: Sequence[Object]) -> Outcome:
            due = [draft.changed for draft in drafts]
            for draft in drafts:
                draft.endpoints = _without_node_hints(draft.endpoints)
            before = [{**each, "endpoints": _without_node_hints(each.get("endpoints") or [])} for each in existing]
            outcome = hint(drafts, before)
            endpoints = [endpoint for draft in drafts for endpoint in draft.endpoints]
            if self._may_hint(endpoints):
                for draft in drafts:
                    draft.endpoints = [_for_own_node(each) for each in draft.endpoints]
            for draft, was_due in zip(drafts, due, strict=True):
                _settle(draft, was_due)
            return outcome

        return both

    def _may_hint(self, endpoints: Sequence[Object]) -> bool:
        config = self._config
        if self._excluded or config.approach == "manual":
            return not self._excluded
        if config.missing is not None:
            missing = len(self._nodes.keys() - {each.get("nodeName") for each in endpoints})
            if not config.missing.allows(missing, len(self._nodes)):
                return False
        owners = {self._owners.get((each.get("targetRef") or {}).get("name"), "") for each in endpoints}
        return not config.daemon_set or (len(owners) == 1 and "" not in owners)


def daemon_set_of(pod: Object) -> str:
    """Return the uid of the DaemonSet that owns a pod, or "" if no DaemonSet owns it."""
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("kind") == "DaemonSet" and owner.get("apiVersion", "").startswith("apps/"):
            return str(owner.get("uid", ""))
    return ""


def _excluded(service: Object, features: Features, config: NodeLevel) -> bool:
    _, value = topology_annotation(service, features)
    match config.approach:
        case "manual":
            return value != ASKED
        case "opt-in":
            return value is None or value in NOT_SET
        case "opt-out":
            return value is not None
        case "automatic":
            return False


def _without_node_hints(endpoints: list[Object]) -> list[Object]:
    if not any("forNodes" in (each.get("hints") or ()) for each in endpoints):
        return endpoints
    return [_with_hints(each, forNodes=None) for each in endpoints]


def _for_own_node(endpoint: Object) -> Object:
    if not endpoint["conditions"].get("ready") or "nodeName" not in endpoint:
        return endpoint
    return _with_hints(endpoint, forNodes=[{"name": endpoint["nodeName"]}])


def _with_hints(endpoint: Object, **changes: object) -> Object:
    hints = {name: value for name, value in {**(endpoint.get("hints") or {}), **changes}.items() if value is not None}
    bare = {name: value for name, value in endpoint.items() if name != "hints"}
    return {**bare, "hints": hints} if hints else bare


def _settle(draft: SliceDraft, was_due: bool) -> None:
    """Mark a slice as unchanged if its endpoints equal the stored ones, so that it is not written."""
    if not was_due and draft.base is not None:
        stored = draft.base.get("endpoints") or []
        draft.changed = draft.endpoints != stored
        if not draft.changed:
            draft.endpoints = stored
