"""Choose the number of processes of a run, up to the limits of the machine: as many as make the run shorter.

Scenarios mostly wait for components to process changes or for probes to time out, so two workers per processor are
useful. The full suite took 110 s with two workers on two processors, 68 s with four, and 67 s with six. Each worker
needs time to load and collect the suite, and memory for its clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from harness.run.machine import Machine
from harness.settings.settings import Settings

LOADING = 3.5
"""Processor seconds that each process needs to load and collect the suite."""

STARTING = 2.0
"""Seconds to start the workers, independent of their number."""

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class WorkerCount:
    """The number of workers (0 means only this process), and the reason for it."""

    number: int
    why: str

    @property
    def text(self) -> str:
        return f"{self.number or 'none'}: {self.why}"


@dataclass(frozen=True, slots=True)
class _Bound:
    most: int
    why: str
    megabytes: int  # for each worker


def count_workers(settings: Settings, seconds: Mapping[str, float], machine: Machine) -> WorkerCount:
    """Return the smallest number of workers with the shortest run, for requirements of the given durations."""
    if not seconds:
        return WorkerCount(0, "the durations of these requirements are unknown")
    bound = _bound(settings, machine)
    by_memory = machine.memory // (bound.megabytes * MEGABYTE)
    most = max(0, min(bound.most, by_memory))
    number = min((0, *range(2, most + 1)), key=lambda workers: predicted(workers, seconds, machine.processors))
    return WorkerCount(number, _why(number, bound, by_memory, len(seconds)))


def predicted(workers: int, seconds: Mapping[str, float], processors: int) -> float:
    if not workers:
        return LOADING + sum(seconds.values())
    loading = LOADING * math.ceil(workers / processors)
    return STARTING + loading + max(*seconds.values(), sum(seconds.values()) / workers)


def usual(seconds: Mapping[str, float]) -> float:
    """Return the median, which stands in for unknown durations."""
    return median(seconds.values()) if seconds else 1.0


def _why(number: int, bound: _Bound, by_memory: int, requirements: int) -> str:
    if number and number == by_memory < bound.most:
        return f"memory suffices for {number}"
    if number == bound.most:
        return bound.why
    if number:
        return f"more workers would not make {requirements} requirements faster"
    if by_memory < 2:
        return "there is no memory for more processes"
    return f"{requirements} requirement{'s are' if requirements > 1 else ' is'} faster without workers"


def _bound(settings: Settings, machine: Machine) -> _Bound:
    """Return the limit of workers for a machine or a cluster."""
    has = f"{machine.processors} processor{'s' if machine.processors > 1 else ''}"
    if settings.backend == "kubeconfig":
        return _Bound(4, "more would burden a shared cluster", 200)
    if settings.backend == "kind":
        return _Bound(2, "the nodes of kind share this machine's processors", 200)
    if not settings.judges_reference or settings.components.real:
        return _Bound(max(2, machine.processors), f"{has}, and each node of each worker runs real components", 1000)
    return _Bound(2 * machine.processors, f"{has}, and requirements mostly wait", 300)
