"""The threads of which an embedded cluster consists: one that ends by itself ends the run.

Its API server, controllers, proxies and the probe loop are threads of this process. One that ends takes its component
away without a word, and each scenario after that would blame what is judged. Threads of what is judged are not watched
here: their end fails a requirement.
"""

from __future__ import annotations

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
class Lasting(Protocol):
    """A part of a cluster that consists of threads, none of which is judged."""

    def threads(self) -> Iterable[threading.Thread]:
        """Return the threads that have to run at present."""


@contextlib.contextmanager
def watched(running: Callable[[], Iterable[threading.Thread]]) -> Iterator[None]:
    """Let `require` ask for the threads that `running` returns."""
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
    """Note why this thread ends, for one that catches its own error."""
    _errors[threading.current_thread()] = error


def require() -> None:
    """Raise `DistrustError` if a watched thread has ended; the text names each, with what it said."""
    ended = [each for running in _watched for each in running() if not each.is_alive()]
    if ended:
        told = ", ".join(f"{each.name} ({_last_words(each)})" for each in ended)
        raise DistrustError(f"the embedded cluster is no longer whole, threads of it have ended by themselves: {told}")


def _last_words(thread: threading.Thread) -> str:
    error = _errors.get(thread)
    return "it has not said why" if error is None else f"{type(error).__name__}: {error}".rstrip(": ")
