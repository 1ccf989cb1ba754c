"""The steady traffic of one client: all requests with their times."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from harness.model.outcomes import Observation, Reached

Timed = tuple[float, Observation]
"""The time of a request (monotonic seconds), and its outcome."""


def longest_gap(samples: Sequence[Timed]) -> float:
    """Return the longest time in ms between two answered requests. The first and last requests count as answered."""
    return round(max((after - before for before, after in gaps(samples)), default=0.0) * 1000, 1)


def gaps(samples: Sequence[Timed]) -> list[tuple[float, float]]:
    """Return the times of successive answered requests (monotonic seconds). First and last requests always count."""
    if not samples:
        return []
    answered = [at for at, observation in samples[1:-1] if isinstance(observation, Reached)]
    return list(pairwise([samples[0][0], *answered, samples[-1][0]]))
