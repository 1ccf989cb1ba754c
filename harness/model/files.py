"""Reads files that somebody named: ordinary ones, and no larger than such files are.

A fifo would be waited for, a device never ends, and a name that no file can have makes the system's calls raise errors
of several kinds. So each is refused here, before anything is read, and by name.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from harness.errors import UsageError

MEGABYTE = 1024 * 1024


def is_there(path: str | Path) -> bool:
    """Return whether there is such a file or folder; False also for what cannot be a path, or may not be looked at."""
    return os.path.exists(path)  # noqa: PTH110  pathlib's raises for a name that is too long


def content(path: str | Path, *, what: str, most: int) -> bytes:
    """Return the content of an ordinary file of at most so many bytes. Raises `UsageError` that names it."""
    where = f"{what} {shown(path)}"
    try:
        with open(path, "rb", opener=_open) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise UsageError(f"{where}: is no ordinary file")
            read = file.read(most + 1) if found.st_size <= most else b""
    except (OSError, ValueError) as error:
        raise UsageError(f"{where}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if found.st_size > most or len(read) > most:
        raise UsageError(f"{where}: has more than {most // MEGABYTE} MiB")
    return read


def sha256_of(path: Path) -> str:
    """Return the SHA-256 sum of a file of any size, in hex; it is known to be an ordinary one."""
    import hashlib  # noqa: PLC0415  `trafficdist --help` loads this module, and need not wait for OpenSSL

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # opening a fifo must not wait


def fault_of_path(text: str) -> str:
    """Return why a text cannot be the path of a file; "" if it can."""
    name = os.fsencode(text)
    if b"\0" in name:
        return "a path has no NUL"
    if len(name) >= os.pathconf("/", "PC_PATH_MAX") or any(len(each) > 255 for each in name.split(b"/")):
        return "a path has at most 4,095 bytes, and each name in it 255"
    return ""


def shown(path: str | Path) -> str:
    """Return a path for an error: on one line, and no longer than one."""
    text = str(path)
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= 300 else f"{text[:200]}…"
