"""Allocates endpoints to zones under the heuristic of KEP-2433, or refuses because there are too few.

The overload of a zone is the excess of its CPU share over its endpoint share. Released Kubernetes has one threshold: 20
%, which a zone may reach. The KEP has two: hints are added only below 20 %, and stay until 30 % is reached, so that a
Service near the limit does not flap.

All numbers are integers, with `--follow released` too. kube-controller-manager uses floating point, and so sometimes
refuses where a zone would reach exactly 20 %: 6 endpoints over 40, 30 and 30 % of the CPU need 2.4, 1.8 and 1.8 of
them, and 2.4 / 1.2 comes out above 2. `floating_point_refuses` finds these cases, for explanations; the two differ in
no others, and no requirement has one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from reference.endpointslice.zones import Refusal, ZoneShares
from reference.features import Features


@dataclass(frozen=True, slots=True)
class Threshold:
    """The overload in percent that limits a zone, and whether a zone may reach it."""

    percent: int
    may_be_reached: bool

    def minimum(self, weight: int, total: int, endpoints: int) -> int:
        """Return the fewest of `endpoints` that a zone of `weight` needs."""
        dividend, divisor = 100 * weight * endpoints, (100 + self.percent) * total
        return -(-dividend // divisor) if self.may_be_reached else dividend // divisor + 1


@dataclass(frozen=True, slots=True)
class Rules:
    """The differences between a controller of the KEP and one of a release.

    `evens_out`: no zone stays below its minimum while another has spare endpoints, even if that rewrites slices that
    were right by themselves; and endpoints of zones without ready nodes go to others.
    """

    to_add: Threshold
    to_keep: Threshold
    evens_out: bool
    ready_only: bool


@dataclass(frozen=True, slots=True)
class Portion:
    """The share of one zone. `desired` is in units of one endpoint divided by `Allocation.unit`."""

    minimum: int
    maximum: int
    desired: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """A portion for each zone with CPU. The minima sum to at most the number of endpoints."""

    portions: Mapping[str, Portion]
    unit: int


def rules(features: Features) -> Rules:
    """Return the rules of a controller with `features`."""
    ready_only = features.at_least(23)
    if features.follows == "released":
        only = Threshold(20, may_be_reached=True)
        return Rules(only, only, evens_out=False, ready_only=ready_only)
    below_20, below_30 = Threshold(20, may_be_reached=False), Threshold(30, may_be_reached=False)
    return Rules(below_20, below_30, evens_out=True, ready_only=ready_only)


def allocate(shares: ZoneShares | Refusal, endpoints: int, threshold: Threshold) -> Allocation | Refusal:
    """Allocate `endpoints` to zones, or return why that is impossible without overload."""
    if isinstance(shares, Refusal):
        return shares
    zones = len(shares.weights)
    numbers = f"({endpoints} endpoints, {zones} zones)"
    if zones > endpoints:
        return Refusal("TooFewEndpoints", f"Insufficient number of endpoints {numbers}")
    minima = {zone: threshold.minimum(weight, shares.total, endpoints) for zone, weight in shares.weights.items()}
    spare = endpoints - sum(minima.values())
    if spare < 0:
        message = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"
        return Refusal("Overloaded", f"{message} {numbers}")
    portions = {
        zone: Portion(least, least + spare, max(endpoints * shares.weights[zone], least * shares.total))
        for zone, least in minima.items()
    }
    return Allocation(portions, shares.total)


def floating_point_refuses(shares: ZoneShares, endpoints: int) -> bool:
    """Return whether kube-controller-manager's minima of all zones exceed the number of endpoints.

    Source: Kubernetes 1.21 and newer, topologycache: ceil(ratio of CPU * endpoints * (1 / (1 + 0.2))), in doubles.
    """
    wanted = (weight / shares.total * endpoints * (1 / (1 + 0.2)) for weight in shares.weights.values())
    return sum(map(math.ceil, wanted)) > endpoints
