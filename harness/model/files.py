"""Read files that users name. Errors contain the file's name. Only regular files of limited size are read."""

import os
import stat
from pathlib import Path

from harness.errors import UsageError

MEGABYTE = 1024 * 1024

_LONG_NAME = 100  # characters


def file_name(name: str) -> str:
    """Return a file name for an object, whose own name may be too long for a file."""
    import hashlib  # noqa: PLC0415  it loads OpenSSL, which `trafficdist --help` does not need

    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return name if len(name) <= _LONG_NAME else f"{name[:_LONG_NAME]}-{digest}"


def is_there(path: str | Path) -> bool:
    """Return whether a file or folder exists. Return False for invalid and inaccessible paths."""
    return os.path.exists(path)  # noqa: PTH110  pathlib's raises for a name that is too long


def content(path: str | Path, *, what: str, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes. Raises `UsageError` with the file's name."""
    where = f"{what} {shown(path)}"
    try:
        with open(path, "rb", opener=_open) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise UsageError(f"{where}: is not a regular file")
            read = file.read(most + 1) if found.st_size <= most else b""
    except (OSError, ValueError) as error:
        raise UsageError(f"{where}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if found.st_size > most or len(read) > most:
        raise UsageError(f"{where}: has more than {most // MEGABYTE} MiB")
    return read


def sha256_of(path: Path) -> str:
    import hashlib  # noqa: PLC0415  as above

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_in(folder: Path) -> list[Path]:
    return sorted(Path(root, name) for root, _, names in os.walk(folder) for name in names)


def links_in(folder: Path) -> list[Path]:
    found = (Path(root, name) for root, folders, names in os.walk(folder) for name in (*folders, *names))
    return sorted(path for path in found if path.is_symlink())


def sha256_of_folder(folder: Path) -> str:
    """Return the SHA-256 checksum of the lines that `sha256sum` prints for the files in a folder, sorted by path."""
    import hashlib  # noqa: PLC0415  as above

    files = sorted((path.relative_to(folder).as_posix(), path) for path in files_in(folder) if path.is_file())
    lines = "".join(f"{sha256_of(path)}  {name}\n" for name, path in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # opening a FIFO must not block


def fault_of_path(text: str) -> str:
    name = os.fsencode(text)
    if b"\0" in name:
        return "a path must not contain a NUL byte"
    if len(name) >= os.pathconf("/", "PC_PATH_MAX") or any(len(each) > 255 for each in name.split(b"/")):
        return "a path must have at most 4,095 bytes, and each name in it at most 255"
    return ""


def shown(path: str | Path) -> str:
    """Return a path for an error message, on one line of limited length."""
    text = str(path)
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= 300 else f"{text[:200]}…"
