"""Sets the hints of a plug-in heuristic: prepares the heuristic's input and validates its result.

If the plug-in fails or its result is invalid, the slices of the address family have no hints, and the sync reports the
error. Hints that the API server would refuse count as invalid, because the API server would refuse the whole slice
(`k8s.io/kubernetes/pkg/apis/discovery/validation`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from reference.client import Object
from reference.endpointslice.labels import node_zone
from reference.endpointslice.packing import SliceDraft
from reference.heuristics.heuristic import Endpoint, Heuristic, HeuristicError, Hints, Node
from reference.objects.endpoints import is_ready

MOST_HINTS = 8
"""The maximum number of zones, and of nodes, in the hints of one endpoint."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = {"zone": re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"), "node": re.compile(rf"{_LABEL}(\.{_LABEL})*")}
_LONGEST = {"zone": 63, "node": 253}


class NodeView(Mapping[str, Node]):
    """All nodes by name, as heuristics expect them. A Node is converted only when accessed, to save time."""

    def __init__(self, nodes: Mapping[str, Object]) -> None:
        self._nodes = nodes

    def __getitem__(self, name: str) -> Node:
        node = self._nodes[name]
        return Node(name, node_zone(node), dict(node["metadata"].get("labels") or {}))

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


def hint_by_plugin(
    drafts: Sequence[SliceDraft], value: str, heuristics: Mapping[str, Heuristic], nodes: Mapping[str, Node]
) -> HeuristicError | None:
    """Set hints with the heuristic for `value`. If it fails, remove all hints and return its error."""
    known = [_known(endpoint) for draft in drafts for endpoint in draft.endpoints]
    ready = [each for each in known if each is not None]
    try:
        answer = _ask(value, heuristics, ready, nodes)
    except HeuristicError as error:
        for draft in drafts:
            draft.set_hints([None] * len(draft.endpoints))
        return error
    wanted = iter([None if each is None else answer.get(each) for each in known])
    for draft in drafts:
        draft.set_hints([next(wanted) for _ in draft.endpoints])
    return None


def _known(endpoint: Object) -> Endpoint | None:
    if not is_ready(endpoint):
        return None
    pod = (endpoint.get("targetRef") or {}).get("name", "")
    return Endpoint(endpoint["addresses"][0], pod, endpoint.get("nodeName", ""), endpoint.get("zone", ""))


def _ask(
    value: str, heuristics: Mapping[str, Heuristic], endpoints: Sequence[Endpoint], nodes: Mapping[str, Node]
) -> Mapping[Endpoint, Object | None]:
    """Return the hints of each endpoint as EndpointSlice JSON. Raises `HeuristicError` for any failure."""
    if not endpoints:
        return {}
    try:
        answer = heuristics[value].hints(tuple(endpoints), nodes)
        written = {endpoint: _written(hints) for endpoint, hints in answer.items()}
    except HeuristicError:
        raise
    except Exception as error:
        raise HeuristicError(f"heuristic {value} failed: {error!r}") from error
    unknown = written.keys() - set(endpoints)
    if unknown:
        example = min(map(repr, unknown))
        raise HeuristicError(f"heuristic {value} gave hints for an endpoint that is not among its arguments: {example}")
    return written


def _written(hints: Hints) -> Object | None:
    """Return the hints as EndpointSlice JSON, or None if empty. Raises `TypeError` or `ValueError` if invalid."""
    found: Object = {}
    for key, kind, names in (("forZones", "zone", hints.zones), ("forNodes", "node", hints.nodes)):
        if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
            raise TypeError(f"{kind}s must be a sequence of non-empty names: {names!r}")
        distinct = list(dict.fromkeys(names))
        if len(distinct) > MOST_HINTS:
            raise ValueError(f"{len(distinct)} {kind}s exceed the limit of {MOST_HINTS} for an endpoint")
        if bad := [name for name in distinct if len(name) > _LONGEST[kind] or not _NAME[kind].fullmatch(name)]:
            raise ValueError(f"{bad[0]!r} is not the name of a {kind}")
        if distinct:
            found[key] = [{"name": name} for name in distinct]
    return found or None
