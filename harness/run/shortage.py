"""Names what a machine, or the limits of a process, ran out of: files, processes, memory, disk.

Such an error may come out of any line of any library. It tells nothing about the implementation, and its remedy is the
same wherever it was raised.
"""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from traceback import extract_tb

from harness.errors import UnavailableError

_FILES = 256  # a run of one requirement on the embedded cluster has fewer
_PROCESSES = 100
_LOOK_BELOW = 4096  # a limit of processes that is higher is not looked at: counting them takes time

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


def check_limits() -> None:
    """Raise `UnavailableError` if this process may have too few files or processes for any run."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < _FILES:
        raise UnavailableError(f"a process may open {files} files here, and a run needs {_FILES}: raise `ulimit -Hn`")
    limit = process_limit()
    if limit is not None and limit < _LOOK_BELOW and (free := limit - _tasks()) < _PROCESSES:
        raise UnavailableError(
            f"this user may start {max(0, free)} more processes or threads, of {limit}, and a run needs {_PROCESSES}: "
            "raise `ulimit -u`"
        )


def process_limit() -> int | None:
    """Return how many processes and threads this user may have; None without a limit, as for root."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return None if limit == resource.RLIM_INFINITY or os.getuid() == 0 else limit


def _tasks() -> int:
    """Return how many processes and threads this user has."""
    count = 0
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if each.stat().st_uid == os.getuid():
                count += len(list((each / "task").iterdir()))
        except OSError:  # it has ended, or is hidden
            continue
    return count
