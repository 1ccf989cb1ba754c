"""Selects the mechanism that determines the topology hints of a Service, and sets the hints.

The mechanisms are the annotation of KEP-2433 (hints in proportion to the CPU of zones), `trafficDistribution` of
KEP-4444 and KEP-3015 (each endpoint is hinted for its own zone and node), and a plug-in that the field selects. The
annotation takes precedence over the field.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from reference.client import Object
from reference.endpointslice.allocation import rules
from reference.endpointslice.cpu_hints import CpuOutcome, hint_by_cpu
from reference.endpointslice.labels import TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE
from reference.endpointslice.packing import SliceDraft
from reference.endpointslice.plugin_hints import NodeView, hint_by_plugin
from reference.endpointslice.zones import ZoneTable
from reference.features import Features
from reference.heuristics.heuristic import Heuristic, HeuristicError
from reference.objects.endpoints import is_ready


@dataclass(frozen=True, slots=True)
class CpuHeuristic:
    """The annotation requests hints in proportion to CPU (KEP-2433)."""

    reason: str


@dataclass(frozen=True, slots=True)
class SameZoneOrNode:
    """`trafficDistribution` applies: ready endpoints are hinted for their zone, and with `nodes` also for their node.

    With `names_unknown_zone`, an endpoint without a zone is hinted for zone "", as in releases before 1.33.
    """

    value: str
    nodes: bool
    names_unknown_zone: bool
    reason: str


@dataclass(frozen=True, slots=True)
class PluginHeuristic:
    """`trafficDistribution` selects an installed heuristic (see `reference.heuristics`)."""

    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class NoHints:
    """No mechanism applies, so hints are removed. If trafficDistribution has an unknown value, it is in `unknown`."""

    reason: str
    unknown: str = ""


Mechanism = CpuHeuristic | SameZoneOrNode | PluginHeuristic | NoHints

Outcome = CpuOutcome | HeuristicError | None
"""The outcome of the CPU heuristic in one address family, the error of a failed plug-in, or None in all other cases."""

Hinter = Callable[[Sequence[SliceDraft], Sequence[Object]], Outcome]
"""A function that takes the drafts and the stored slices of one address family, sets hints, and returns the outcome."""


def mechanism(service: Object, features: Features, heuristics: Collection[str] = ()) -> Mechanism:
    """Return the mechanism that determines the hints of `service` in a controller with `features`.

    `heuristics` contains the values of trafficDistribution that select plug-ins. Values without a domain are ignored.
    """
    annotation, requested = topology_annotation(service, features)
    if requested in {"Auto", "auto"}:
        return _by_annotation(annotation, features)
    return mechanism_of_field(service, features, heuristics)


def mechanism_of_field(service: Object, features: Features, heuristics: Collection[str]) -> Mechanism:
    """Return the mechanism that trafficDistribution selects. The topology annotation is ignored."""
    value = service["spec"].get("trafficDistribution")
    if value is None:
        return NoHints("neither trafficDistribution nor a topology annotation requests hints")
    # Released API servers reject the field values of plug-ins.
    takes_plugins = features.follows == "kep" and features.enabled("ServiceTrafficDistribution")
    if "/" in value and takes_plugins and value in heuristics:
        return PluginHeuristic(value, f"trafficDistribution is {value}, an installed heuristic")
    if not _is_known(value, features):
        reason = f"trafficDistribution {value} is unknown to this controller ({_describe(features)})"
        return NoHints(reason, unknown=value)
    return SameZoneOrNode(
        value,
        nodes=value == "PreferSameNode",
        names_unknown_zone=not features.at_least(33),
        reason=f"trafficDistribution is {value}",
    )


def topology_annotation(service: Object, features: Features) -> tuple[str, str | None]:
    """Return the key and the value of the effective topology annotation. If it is not set, the value is None.

    The old key takes precedence over the new key, which was added in 1.27.
    """
    annotations = service["metadata"].get("annotations") or {}
    key = TOPOLOGY_MODE if features.at_least(27) and TOPOLOGY_AWARE_HINTS not in annotations else TOPOLOGY_AWARE_HINTS
    return key, annotations.get(key) if features.at_least(21) else None


def hinter(
    decided_by: Mechanism,
    *,
    features: Features,
    nodes: Mapping[str, Object],
    zones: ZoneTable | None,
    heuristics: Mapping[str, Heuristic],
) -> Hinter:
    """Return a function that sets the hints of a mechanism. `zones` is the `ZoneTable` of `nodes`, or None."""
    match decided_by:
        case CpuHeuristic():
            shares = (zones or ZoneTable(features, nodes)).shares
            return lambda drafts, existing: hint_by_cpu(drafts, existing, shares, rules(features))
        case PluginHeuristic(value=value):
            view = NodeView(nodes)
            return lambda drafts, _: hint_by_plugin(drafts, value, heuristics, view)
        case SameZoneOrNode() | NoHints():

            def hint_each(drafts: Sequence[SliceDraft], _: Sequence[Object]) -> None:
                for draft in drafts:
                    draft.set_hints([endpoint_hints(each, decided_by) for each in draft.endpoints])

            return hint_each
        case _:
            assert_never(decided_by)


def endpoint_hints(endpoint: Object, decided_by: SameZoneOrNode | NoHints) -> Object | None:
    """Return the hints that `endpoint` should have, or None. Only ready endpoints have hints."""
    if not isinstance(decided_by, SameZoneOrNode) or not is_ready(endpoint):
        return None
    hints: Object = {}
    zone = endpoint.get("zone")
    if zone is not None or decided_by.names_unknown_zone:
        hints["forZones"] = [{"name": zone or ""}]
    if decided_by.nodes and "nodeName" in endpoint:
        hints["forNodes"] = [{"name": endpoint["nodeName"]}]
    return hints or None


def _by_annotation(annotation: str, features: Features) -> Mechanism:
    """The annotation overrides trafficDistribution even if the gate TopologyAwareHints is disabled."""
    if not features.enabled("TopologyAwareHints"):
        return NoHints(f"annotation {annotation} is Auto, but the TopologyAwareHints gate is disabled")
    return CpuHeuristic(f"annotation {annotation} is Auto: hints are in proportion to the CPU of the zones")


def _is_known(value: str, features: Features) -> bool:
    if not features.enabled("ServiceTrafficDistribution"):
        return False
    if value in {"PreferSameZone", "PreferSameNode"}:
        return features.enabled("PreferSameTrafficDistribution")
    return value == "PreferClose"


def _describe(features: Features) -> str:
    states = (
        f"{gate} {'enabled' if features.enabled(gate) else 'disabled'}"
        for gate in ("ServiceTrafficDistribution", "PreferSameTrafficDistribution")
    )
    return f"Kubernetes {features.version[0]}.{features.version[1]}, " + ", ".join(states)
