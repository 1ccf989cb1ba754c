"""Watch the threads of an embedded cluster, and end the run if a thread ends unexpectedly.

If a thread of the API server or the probe loop ended unnoticed, scenarios would blame the judged component.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from harness.errors import DistrustError

_log = logging.getLogger(__name__)
_watched: list[Callable[[], Iterable[threading.Thread]]] = []
_errors: WeakKeyDictionary[threading.Thread, BaseException] = WeakKeyDictionary()


@runtime_checkable
class ThreadOwner(Protocol):
    """A part of a cluster that is not judged. Its threads are watched, because they must not end."""

    def threads(self) -> Iterable[threading.Thread]:
        """Return the threads that must be running now."""


@contextlib.contextmanager
def watched(running: Callable[[], Iterable[threading.Thread]]) -> Iterator[None]:
    """During the block, make `require` check the threads that `running` returns."""
    before = threading.excepthook

    def note(args: Any) -> None:
        if args.thread in running():
            _log.error("thread %s ends", args.thread.name, exc_info=args.exc_value)
            _errors[args.thread] = args.exc_value
        else:
            before(args)

    threading.excepthook = note
    _watched.append(running)
    try:
        yield
    finally:
        _watched.remove(running)
        if threading.excepthook is note:
            threading.excepthook = before


def ends_by(error: BaseException) -> None:
    """Record why this thread ends, for a thread that catches its own errors."""
    _errors[threading.current_thread()] = error


def require() -> None:
    """Raise `DistrustError` with the names and errors of watched threads that have ended, if any."""
    ended = [(each.name, _errors.get(each)) for running in _watched for each in running() if not each.is_alive()]
    if ended:
        listed = ", ".join(
            f"{name} ({f'{type(error).__name__}: {error}'.rstrip(': ') if error else 'unknown reason'})"
            for name, error in ended
        )
        raise DistrustError(f"the embedded cluster is broken, because its threads have ended: {listed}")
