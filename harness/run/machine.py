"""The processors and memory that this process may use within the limits of its control groups.

A container of a CI system often has two of 64 processors, while `os.cpu_count` returns 64.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_MEMORY = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Machine:
    """The number of processors, and bytes of free memory."""

    processors: int
    memory: int


def this_machine(groups: Path = _GROUPS, own: Path = _OWN) -> Machine:
    """Return the resources that this process may use now."""
    folders = list(_folders(groups, own))
    quotas = [quota for folder in folders if (quota := _quota(folder))]
    free = [room for folder in folders if (room := _room(folder)) is not None]
    processors = min([len(os.sched_getaffinity(0)), *map(math.ceil, quotas)])
    return Machine(max(1, processors), max(0, min([_available(), *free])))


def _folders(groups: Path, own: Path) -> Iterator[Path]:
    """Yield the folders of this process's control group (version 2) and of its parents.

    In a container the path that the kernel reports may not exist. The container's own group is then the root.
    """
    path = next((line[3:] for line in _text(own).splitlines() if line.startswith("0::")), "")
    place = groups / path.lstrip("/")
    yield from (folder for folder in (place, *place.parents) if folder.is_relative_to(groups) and folder.is_dir())


def _quota(folder: Path) -> float | None:
    """Return the group's limit of processors, or None without a limit."""
    with contextlib.suppress(ValueError):
        quota, period = map(int, _text(folder / "cpu.max").split())
        return quota / period
    return None


def _room(folder: Path) -> int | None:
    """Return the free bytes up to the group's limit, including reclaimable caches, or None without a limit."""
    with contextlib.suppress(ValueError):
        droppable = _figures(folder / "memory.stat").get("inactive_file", 0)
        return int(_text(folder / "memory.max")) - int(_text(folder / "memory.current")) + droppable
    return None


def _available() -> int:
    return _figures(_MEMORY).get("MemAvailable:", 0) * 1024


def _figures(file: Path) -> dict[str, int]:
    """Return the numbers by name from a kernel file with lines of the form `name number …`."""
    return {words[0]: int(words[1]) for line in _text(file).splitlines() if len(words := line.split()) > 1}


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
