"""Choose the number of worker processes that makes a run shortest, within the limits of the machine.

Scenarios mostly wait for components or for probes to time out, so two workers per CPU are useful. On two CPUs, the full
suite took 110 s with two workers, 68 s with four, and 67 s with six.
"""

import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from harness.settings.settings import Settings

_GROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_MEMORY = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Machine:
    """The number of CPUs, and the free memory in bytes."""

    cpus: int
    memory: int


def this_machine(groups: Path = _GROUPS, own: Path = _OWN) -> Machine:
    """Return the resources that this process may use, within the limits of its control groups (as in CI containers)."""
    folders = list(_folders(groups, own))
    quotas = [quota for folder in folders if (quota := _quota(folder))]
    free = [left for folder in folders if (left := _free(folder)) is not None]
    cpus = min([len(os.sched_getaffinity(0)), *map(math.ceil, quotas)])
    available = _figures(_MEMORY).get("MemAvailable:", 0) * 1024
    return Machine(max(1, cpus), max(0, min([available, *free])))


def _folders(groups: Path, own: Path) -> Iterator[Path]:
    path = next((line[3:] for line in _text(own).splitlines() if line.startswith("0::")), "")
    place = groups / path.lstrip("/")
    yield from (folder for folder in (place, *place.parents) if folder.is_relative_to(groups) and folder.is_dir())


def _quota(folder: Path) -> float | None:
    with contextlib.suppress(ValueError):
        quota, period = map(int, _text(folder / "cpu.max").split())
        return quota / period
    return None


def _free(folder: Path) -> int | None:
    """Return the memory in bytes up to a group's limit, including reclaimable caches, or None without a limit."""
    with contextlib.suppress(ValueError):
        droppable = _figures(folder / "memory.stat").get("inactive_file", 0)
        return int(_text(folder / "memory.max")) - int(_text(folder / "memory.current")) + droppable
    return None


def _figures(file: Path) -> dict[str, int]:
    return {words[0]: int(words[1]) for line in _text(file).splitlines() if len(words := line.split()) > 1}


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


LOADING = 3.5  # CPU seconds that each process needs to load and collect the suite
STARTING = 2.0  # seconds to start the workers, independent of their number
MEGABYTE = 1024 * 1024


def count_workers(settings: Settings, seconds: Mapping[str, float], machine: Machine) -> int:
    """Return the smallest number of workers with the shortest predicted run, or 0 for no extra processes."""
    if not seconds:
        return 0
    most, megabytes = _bound(settings, machine)
    most = max(0, min(most, machine.memory // (megabytes * MEGABYTE)))
    number: int = min((0, *range(2, most + 1)), key=lambda each: predicted(each, seconds, machine.cpus))
    return number


def predicted(workers: int, seconds: Mapping[str, float], cpus: int) -> float:
    if not workers:
        return LOADING + sum(seconds.values())
    loading = LOADING * math.ceil(workers / cpus)
    return STARTING + loading + max(*seconds.values(), sum(seconds.values()) / workers)


def usual(seconds: Mapping[str, float]) -> float:
    """Return the median duration, which replaces unknown durations."""
    return median(seconds.values()) if seconds else 1.0


def _bound(settings: Settings, machine: Machine) -> tuple[int, int]:
    """Return the maximum number of workers for a machine or a cluster, and the memory in MB that each needs."""
    if settings.backend == "kubeconfig":  # more would burden a shared cluster
        return 4, 200
    if settings.backend == "kind":  # its nodes share the CPUs of this machine
        return 2, 200
    if not settings.judges_reference or settings.components.real:  # each node of each worker runs real components
        return max(2, machine.cpus), 1000
    return 2 * machine.cpus, 300
