"""Sets the hints of the selected mechanism on the slices of one address family, before they are written.

A slice whose hints are already correct is not changed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from reference.client import Object
from reference.endpointslice.allocation import rules
from reference.endpointslice.cpu_hints import CpuOutcome, hint_by_cpu
from reference.endpointslice.hints import (
    CpuHeuristic,
    Mechanism,
    NoHints,
    Plugin,
    SamePlace,
    endpoint_hints,
)
from reference.endpointslice.packing import Draft
from reference.endpointslice.plugin_hints import Broken, NodeView, hint_by_plugin
from reference.endpointslice.zones import ZoneTable
from reference.features import Features
from reference.heuristics.heuristic import Heuristic

Outcome = CpuOutcome | Broken | None
"""The outcome of a heuristic over a whole address family, or None if there is no such heuristic."""

Hinter = Callable[[Sequence[Draft], Sequence[Object]], Outcome]
"""Sets hints on the drafts of one address family and returns the outcome. The second argument is the stored slices."""


def hinter(
    decided_by: Mechanism,
    *,
    features: Features,
    nodes: Mapping[str, Object],
    zones: ZoneTable | None,
    heuristics: Mapping[str, Heuristic],
) -> Hinter:
    """Return a function that sets hints by the mechanism `decided_by`. `zones` is a table for `nodes`, if available."""
    match decided_by:
        case CpuHeuristic():
            shares = (zones or ZoneTable(features, nodes)).shares
            return lambda drafts, existing: hint_by_cpu(drafts, existing, shares, rules(features))
        case Plugin(value=value):
            view = NodeView(nodes)
            return lambda drafts, _: hint_by_plugin(drafts, value, heuristics, view)
        case SamePlace() | NoHints():
            return lambda drafts, _: _hint_each(drafts, decided_by)
        case _:
            assert_never(decided_by)


def _hint_each(drafts: Sequence[Draft], decided_by: SamePlace | NoHints) -> None:
    for draft in drafts:
        draft.set_hints([endpoint_hints(each, decided_by) for each in draft.endpoints])
