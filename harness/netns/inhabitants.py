"""Which processes of this machine are in which netns."""

from __future__ import annotations

import contextlib
from pathlib import Path

PROC = Path("/proc")


def by_netns(proc: Path = PROC) -> dict[int, list[Path]]:
    """Return the processes that can be seen, as folders of `proc`, by the inode of their netns."""
    found: dict[int, list[Path]] = {}
    for process in proc.iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                found.setdefault((process / "ns/net").stat().st_ino, []).append(process)
    return found
