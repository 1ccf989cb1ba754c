"""Identify an exhausted resource of the machine or of a process, which is no evidence about the implementation."""

import errno
from traceback import extract_tb

_FULL = "the disk is full: free some space, or choose another folder with --output-dir"
_MESSAGES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: "a file exceeds the maximum size (ulimit -f): raise it",
    errno.EMFILE: "this process cannot open more files (ulimit -n): raise it, or run with fewer workers",
    errno.ENFILE: "this machine cannot open more files (sysctl fs.file-max): raise it",
    errno.ENOMEM: "out of memory: run with fewer workers",
}
_NO_OUTPUT = {
    errno.EPIPE: "the reader of this run's output has closed it",
    errno.EIO: "the output of this run cannot be written (input/output error)",
}
_NO_PROCESSES = "this user cannot start more processes or threads (ulimit -u): raise it, or run with fewer workers"


def shortage(error: BaseException | None) -> str:
    """Return the resource shortage that caused this error, with a fix, or "" for another cause."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if message := _message(error):
            return message
        error = error.__cause__ or error.__context__
    return ""


def why_it_cannot_continue(error: BaseException) -> str:
    """Return why a process cannot continue: a shortage or a closed output. Return "" for any other error."""
    no_output = _NO_OUTPUT.get(error.errno or 0, "") if isinstance(error, OSError) else ""
    return no_output or shortage(error)


def _message(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return _MESSAGES[errno.ENOMEM]
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return _NO_PROCESSES
    if not isinstance(error, OSError):
        return ""
    at = extract_tb(error.__traceback__)[-1:]
    if error.errno == errno.EAGAIN and any("fork" in f"{each.name} {each.line}" for each in at):  # not from a socket
        return _NO_PROCESSES
    return _MESSAGES.get(error.errno or 0, "")
