"""Histograms without the locks of prometheus_client: only one thread may observe values, and any thread may read."""

from bisect import bisect_left
from collections.abc import Sequence

from prometheus_client.core import HistogramMetricFamily


class Histogram:
    """Counts observations in buckets and above the last bucket. `bounds` are ascending upper bounds of the buckets."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def __add__(self, other: "Histogram") -> "Histogram":
        """Return the sum of two histograms with the same bounds."""
        both = Histogram(self._bounds)
        both._counts = [one + another for one, another in zip(self._counts, other._counts, strict=True)]
        both._sum = self._sum + other._sum
        return both

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        buckets, below = [], 0
        for bound, count in zip((*self._bounds, None), list(self._counts), strict=True):
            below += count
            buckets.append(("+Inf" if bound is None else f"{bound:g}", float(below)))
        family.add_metric(labels, buckets, self._sum)
