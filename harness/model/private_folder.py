"""A temporary folder of a process. If the process is killed, the next process with the same prefix removes it."""

import contextlib
import fcntl
import shutil
import tempfile
from pathlib import Path
from typing import Self

_ALIVE = "alive"


class PrivateFolder:
    """A folder that only this user can access. `close`, or the end of the context manager, removes it."""

    def __init__(self, prefix: str, place: Path | None = None) -> None:
        """Create a folder PREFIX* in `place`, and remove folders PREFIX* that dead processes left there."""
        place = place or Path(tempfile.gettempdir())
        for each in place.glob(f"{prefix}*"):
            with contextlib.suppress(PermissionError):  # another user's folder
                if (each / _ALIVE).exists() and not in_use(each):
                    shutil.rmtree(each, ignore_errors=True)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        scratch = self.path / f".{_ALIVE}"
        self._alive = scratch.open("w")
        fcntl.flock(self._alive, fcntl.LOCK_EX)  # held until this process ends
        scratch.rename(self.path / _ALIVE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._alive.close()
        shutil.rmtree(self.path, ignore_errors=True)


def in_use(folder: Path) -> bool:
    """Return whether the process that created this folder is alive, or True if this user has no access."""
    try:
        with (folder / _ALIVE).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:  # another user's file, or locked
        return True
    return False
