"""Names the resource that a machine or a process ran out of: files, processes, memory, disk.

Such an error may occur anywhere in any library. It is no evidence about the implementation, and has the same remedy
everywhere.
"""

from __future__ import annotations

import errno
from traceback import extract_tb

_FULL = "there is no room on the disk: make room, or choose another folder with --output-dir"
_TEXTS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: "a file is larger than files may be (ulimit -f): raise it",
    errno.EMFILE: "this process may not open more files (ulimit -n): raise it, or run with fewer workers",
    errno.ENFILE: "this machine may not open more files (sysctl fs.file-max): raise it",
    errno.ENOMEM: "there is no memory left: run with fewer workers",
}
_UNHEARD = {
    errno.EPIPE: "nobody reads any more what this run says",
    errno.EIO: "what this run says cannot be written any more (input/output error)",
}
_NO_PROCESSES = "this user may not start more processes or threads (ulimit -u): raise it, or run with fewer workers"


def shortage(error: BaseException | None) -> str:
    """Return what there was too little of, with the remedy, if that is the cause of this error; else ""."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if text := _text(error):
            return text
        error = error.__cause__ or error.__context__
    return ""


def why_it_cannot_go_on(error: BaseException) -> str:
    """Return the shortage, or that nobody hears what is said, if that is why a process as a whole broke; else ""."""
    unheard = _UNHEARD.get(error.errno or 0, "") if isinstance(error, OSError) else ""
    return unheard or shortage(error)


def _text(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return _TEXTS[errno.ENOMEM]
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return _NO_PROCESSES
    if not isinstance(error, OSError):
        return ""
    if error.errno == errno.EAGAIN and _is_of_fork(error):
        return _NO_PROCESSES
    return _TEXTS.get(error.errno or 0, "")


def _is_of_fork(error: OSError) -> bool:
    """Return whether it was raised by the start of a process: a socket that is not ready has the same number."""
    last = next(reversed(extract_tb(error.__traceback__)), None)
    return last is not None and "fork" in f"{last.name} {last.line}"
