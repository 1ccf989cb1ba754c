"""The heuristic of KEP-2433: allocates endpoints to zones, or returns the reason why this is not possible.

The overload of a zone is the percentage by which its share of the CPU exceeds its share of the endpoints. Released
Kubernetes has one threshold: the overload of a zone may reach 20 %. The KEP has two thresholds: hints are added only
below 20 %, and are removed at 30 %.

All numbers are integers, even with `--follow released`. kube-controller-manager uses floating point, so it sometimes
refuses hints when a zone would reach exactly 20 %. For example, if three zones have 40, 30 and 30 % of the CPU, they
should get 2.4, 1.8 and 1.8 of 6 endpoints, but 2.4 / 1.2 is rounded to a value above 2. No requirement for releases
depends on such cases. `floating_point_refuses` detects them, for explanations.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from reference.endpointslice.zones import NoHintsReason, ZoneShares
from reference.features import Features


@dataclass(frozen=True, slots=True)
class Threshold:
    """The maximum overload of a zone in percent, and whether the overload may be equal to this maximum."""

    percent: int
    may_be_reached: bool

    def minimum(self, weight: int, total: int, endpoints: int) -> int:
        """Return how many of `endpoints` a zone with `weight` of the `total` CPU needs at least."""
        dividend, divisor = 100 * weight * endpoints, (100 + self.percent) * total
        return -(-dividend // divisor) if self.may_be_reached else dividend // divisor + 1


@dataclass(frozen=True, slots=True)
class HintRules:
    """The rules that differ between the KEP and the released controllers.

    With `evens_out`, no zone stays below its minimum while another zone has spare endpoints, even if valid slices must
    be rewritten for this. Endpoints in zones without ready nodes are then assigned to other zones.
    """

    to_add: Threshold
    to_keep: Threshold
    evens_out: bool
    ready_only: bool


@dataclass(frozen=True, slots=True)
class ZonePortion:
    """The numbers of endpoints for one zone. `desired` is multiplied by `Allocation.unit`, so that it is an integer."""

    minimum: int
    maximum: int
    desired: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """The portion of each zone that has a weight. The sum of the minima is at most the number of endpoints."""

    portions: Mapping[str, ZonePortion]
    unit: int


def rules(features: Features) -> HintRules:
    ready_only = features.at_least(23)
    if features.follows == "released":
        only = Threshold(20, may_be_reached=True)
        return HintRules(only, only, evens_out=False, ready_only=ready_only)
    below_20, below_30 = Threshold(20, may_be_reached=False), Threshold(30, may_be_reached=False)
    return HintRules(below_20, below_30, evens_out=True, ready_only=ready_only)


def allocate(shares: ZoneShares | NoHintsReason, endpoints: int, threshold: Threshold) -> Allocation | NoHintsReason:
    """Allocate `endpoints` to zones, or return the reason why no allocation is possible."""
    if isinstance(shares, NoHintsReason):
        return shares
    zones = len(shares.weights)
    numbers = f"({endpoints} endpoints, {zones} zones)"
    if zones > endpoints:
        return NoHintsReason("TooFewEndpoints", f"Insufficient number of endpoints {numbers}")
    minima = {zone: threshold.minimum(weight, shares.total, endpoints) for zone, weight in shares.weights.items()}
    spare = endpoints - sum(minima.values())
    if spare < 0:
        message = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"
        return NoHintsReason("Overloaded", f"{message} {numbers}")
    portions = {
        zone: ZonePortion(least, least + spare, max(endpoints * shares.weights[zone], least * shares.total))
        for zone, least in minima.items()
    }
    return Allocation(portions, shares.total)


def floating_point_refuses(shares: ZoneShares, endpoints: int) -> bool:
    """Return whether the sum of kube-controller-manager's minima exceeds the number of endpoints.

    Source: Kubernetes 1.21 and newer, topologycache: ceil(ratio of CPU * endpoints * (1 / (1 + 0.2))), in doubles.
    """
    wanted = (weight / shares.total * endpoints * (1 / (1 + 0.2)) for weight in shares.weights.values())
    return sum(map(math.ceil, wanted)) > endpoints
