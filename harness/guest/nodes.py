"""Changes nodes of someone else's cluster. An annotation holds a node's former state until the node is restored."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from harness.api.client import Api, Object, RefusedError
from harness.guest.labels import BEFORE_ANNOTATION

_TRIES = 10

Taint = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A change to a node: labels (`None` removes a label), all of its taints, and whether it is cordoned."""

    labels: Mapping[str, str | None] = field(default_factory=dict)
    taints: Sequence[Taint] | None = None
    unschedulable: bool | None = None

    @property
    def spec(self) -> Object:
        spec: Object = {} if self.taints is None else {"taints": list(self.taints) or None}
        return spec if self.unschedulable is None else {**spec, "unschedulable": self.unschedulable or None}


def change_node(api: Api, name: str, run_id: str, change: NodeChange) -> None:
    """Change a node, and store its former state in an annotation. Raises `RefusedError`."""
    _patch_node(api, name, lambda node: changed(node, run_id, change))


def restore_node(api: Api, name: str) -> bool:
    """Undo the changes of a run to a node. Return False if the node was unchanged or no longer exists."""
    return _patch_node(api, name, restored)


def run_of_node(node: Object) -> str:
    """Return the id of the run that changed this node, or "" if it is unchanged."""
    return str(_former_state(node).get("run", ""))


def changed(node: Object, run_id: str, change: NodeChange) -> Object:
    former = _former_state(node) or {"run": run_id, "labels": {}, "taints": {}}
    own = node["metadata"].get("labels") or {}
    for key in change.labels:
        former["labels"].setdefault(key, own.get(key))
    if change.taints is not None:
        before = _by_key(node["spec"].get("taints") or ())
        after = _by_key(change.taints)
        for key in before.keys() | after.keys():
            if before.get(key) != after.get(key):
                former["taints"].setdefault(key, before.get(key))
    if change.unschedulable is not None:
        former.setdefault("unschedulable", bool(node["spec"].get("unschedulable")))
    return _patch(node, change.labels, change.spec, json.dumps(former, sort_keys=True))


def restored(node: Object) -> Object | None:
    former = _former_state(node)
    if not former:
        return None
    taints = _by_key(node["spec"].get("taints") or ()) | dict(former.get("taints") or {})
    spec: Object = {"taints": [each for each in taints.values() if each] or None}
    if "unschedulable" in former:
        spec["unschedulable"] = former["unschedulable"] or None
    return _patch(node, dict(former.get("labels") or {}), spec, None)


def _former_state(node: Object) -> dict[str, Any]:
    """Return the former state from a node's annotation. Ignore unreadable parts, because any user can write them."""
    text = (node["metadata"].get("annotations") or {}).get(BEFORE_ANNOTATION)
    try:
        former = orjson.loads(text or "{}")
    except ValueError:  # orjson raises it for deep nesting too, unlike json
        return {}
    if not isinstance(former, dict) or not former:
        return {}
    return {**former, **{key: former[key] if isinstance(former.get(key), dict) else {} for key in ("labels", "taints")}}


def _patch(node: Object, labels: Mapping[str, str | None], spec: Object, former: str | None) -> Object:
    metadata = {
        "resourceVersion": node["metadata"].get("resourceVersion"),  # so that no concurrent taint is lost
        "labels": dict(labels),
        "annotations": {BEFORE_ANNOTATION: former},
    }
    return {"metadata": metadata, **({"spec": spec} if spec else {})}


def _by_key(taints: Sequence[Taint]) -> dict[str, Taint]:
    """Index taints by key and effect, which together identify a taint."""
    return {f"{each['key']}:{each.get('effect', '')}": each for each in taints}


def _patch_node(api: Api, name: str, patch_for: Callable[[Object], Object | None]) -> bool:
    """Read a node, patch it, and retry after a conflict. Return whether a patch was necessary."""
    for left in reversed(range(_TRIES)):
        try:
            patch = patch_for(api.get("nodes", "", name))
            if patch is not None:
                api.patch("nodes", "", name, patch)
        except RefusedError as error:
            if error.response.code == 409 and left:
                continue
            if error.response.code == 404 and patch_for is restored:
                return False
            raise
        return patch is not None
    raise AssertionError("unreachable: the last attempt returns, or raises an error")
