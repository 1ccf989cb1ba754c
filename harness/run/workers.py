"""Choose the number of processes of a run, up to the limits of the machine: as many as make the run shorter.

Scenarios mostly wait for components to process changes or for probes to time out, so two workers per processor are
useful. The full suite took 110 s with two workers on two processors, 68 s with four, and 67 s with six. Each worker
needs time to load and collect the suite, and memory for its clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median

from harness.run.machine import Machine
from harness.settings.settings import Settings

LOADING = 3.5
"""Processor seconds that each process needs to load and collect the suite."""

STARTING = 2.0
"""Seconds to start the workers, independent of their number."""

MEGABYTE = 1024 * 1024


def count_workers(settings: Settings, seconds: Mapping[str, float], machine: Machine) -> int:
    """Return the smallest number of workers with the shortest run, for requirements of the given durations.

    0 means only this process, also if the durations are unknown.
    """
    if not seconds:
        return 0
    most, megabytes = _bound(settings, machine)
    most = max(0, min(most, machine.memory // (megabytes * MEGABYTE)))
    number: int = min((0, *range(2, most + 1)), key=lambda each: predicted(each, seconds, machine.processors))
    return number


def predicted(workers: int, seconds: Mapping[str, float], processors: int) -> float:
    if not workers:
        return LOADING + sum(seconds.values())
    loading = LOADING * math.ceil(workers / processors)
    return STARTING + loading + max(*seconds.values(), sum(seconds.values()) / workers)


def usual(seconds: Mapping[str, float]) -> float:
    """Return the median, which stands in for unknown durations."""
    return median(seconds.values()) if seconds else 1.0


def _bound(settings: Settings, machine: Machine) -> tuple[int, int]:
    """Return the most workers for a machine or a cluster, and the megabytes of each."""
    if settings.backend == "kubeconfig":  # more would burden a shared cluster
        return 4, 200
    if settings.backend == "kind":  # its nodes share the processors of this machine
        return 2, 200
    if not settings.judges_reference or settings.components.real:  # each node of each worker runs real components
        return max(2, machine.processors), 1000
    return 2 * machine.processors, 300
