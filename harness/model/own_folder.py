"""A temporary folder that goes with its process, in whatever way that ends: the next one removes that of a killed one.

A lock says that its process lives. The kernel lets go of it when that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from pathlib import Path
from typing import Self

_ALIVE = "alive"


class OwnFolder:
    """A folder that only this user can enter. A context manager, or `close` removes it."""

    def __init__(self, prefix: str, place: Path | None = None) -> None:
        """Remove those of dead processes, and make one; its name begins with `prefix`.

        `place` is where: the folder for temporary files unless given.
        """
        place = place or Path(tempfile.gettempdir())
        _sweep(place, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        scratch = self.path / f".{_ALIVE}"
        self._alive = scratch.open("w")
        fcntl.flock(self._alive, fcntl.LOCK_EX)  # for as long as this process lives
        scratch.rename(self.path / _ALIVE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove it. Idempotent."""
        self._alive.close()
        shutil.rmtree(self.path, ignore_errors=True)


def _sweep(place: Path, prefix: str) -> None:
    for each in place.glob(f"{prefix}*"):
        with contextlib.suppress(PermissionError):  # another user's
            if (each / _ALIVE).exists() and not in_use(each):
                shutil.rmtree(each, ignore_errors=True)


def in_use(folder: Path) -> bool:
    """Return whether the process of this folder still lives: then it holds the lock. True if this user may not look."""
    try:
        with (folder / _ALIVE).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:  # somebody else's, or alive
        return True
    return False
