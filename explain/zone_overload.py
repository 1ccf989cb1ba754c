"""Compute the overload of zones with CPU-based hints, and the number of endpoints that avoids overload."""

import heapq
from fractions import Fraction

from explain.cluster import Cluster
from reference.endpointslice.allocation import Threshold, allocate
from reference.endpointslice.allocation import floating_point_refuses as refuses
from reference.endpointslice.zones import NoHintsReason, ZoneShares

_THRESHOLDS = (20, 30)  # maximum overload in percent (KEP-2433)
_FAR = 1_000
"""The maximum number of additional pods that a fix suggests."""


def overloads(shares: ZoneShares, endpoints: int) -> str:
    """Return a sentence about the overload of a zone in the best distribution of endpoints."""
    percent = overload_percent(shares, endpoints)
    near = round(percent) in _THRESHOLDS
    said = f"exactly {percent}" if percent in _THRESHOLDS else f"{float(percent):.{int(near)}f}"
    return f"{endpoints} endpoints over {len(shares.weights)} zones with this CPU would overload a zone by {said} %"


def overload_percent(shares: ZoneShares, endpoints: int) -> Fraction:
    """Return the minimum overload of all distributions, in percent (KEP-2433, Overload)."""
    held = dict.fromkeys(shares.weights, 1)
    heap = [(float(-weight), zone) for zone, weight in shares.weights.items()]
    heapq.heapify(heap)
    for _ in range(endpoints - len(held)):
        _, zone = heap[0]
        held[zone] += 1
        heapq.heapreplace(heap, (-shares.weights[zone] / held[zone], zone))
    worst = max(Fraction(shares.weights[zone] * endpoints, shares.total * count) for zone, count in held.items())
    return (worst - 1) * 100


def floating_point_refuses(cluster: Cluster, endpoints: int) -> bool:
    """Return whether rounding errors cause the controller to refuse hints that exact arithmetic allows."""
    shares = cluster.zones.shares
    return cluster.features.follows == "released" and isinstance(shares, ZoneShares) and refuses(shares, endpoints)


def enough(shares: ZoneShares, endpoints: int, threshold: Threshold) -> int:
    """Return the next larger number of endpoints for which every controller writes hints, or 0 if it is too large."""
    for number in range(max(endpoints, len(shares.weights)), max(endpoints, len(shares.weights)) + _FAR):
        refused = isinstance(allocate(shares, number, threshold), NoHintsReason) or refuses(shares, number)
        if not refused and number != endpoints:
            return number
    return 0
