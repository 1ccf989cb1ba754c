"""Handle Ctrl-C, SIGTERM and SIGHUP (a closed terminal) in the same way, without interrupting the cleanup.

The first signal raises `KeyboardInterrupt`. Signals during the cleanup only print a line.
"""

import contextlib
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

_USUAL = {signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
_alone = False  # whether the process exits when its command ends
_over = False  # whether the process is about to exit and ignores signals
_reported = False  # whether a line about an interrupt was printed
_LOST_SECONDS = 10.0  # after this time, another signal raises again, because an interrupt in a destructor is lost


class SignalHandler:
    """A command's reaction to signals. The command calls `begin_end` when its cleanup begins."""

    def __init__(self) -> None:
        """`code` is the exit code to print, and `late` is called for each signal during the cleanup."""
        self.code = 2
        self.late: Callable[[], object] = lambda: None
        self._ending = False
        self._heard = float("-inf")
        self._terminal = 2

    def begin_end(self) -> None:
        self._ending = True

    def hear(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_terminals()
        if self._ending or time.monotonic() - self._heard < _LOST_SECONDS:
            self.late()
            self._say(f"already ending, with exit code {self.code}; Ctrl-\\ ends immediately")
            return
        self._heard = time.monotonic()
        self._say("interrupted: the run is ending; Ctrl-\\ ends it immediately")
        raise KeyboardInterrupt

    def _say(self, text: str) -> None:
        global _reported  # noqa: PLW0603  one per process, like signal handlers
        with contextlib.suppress(OSError):
            os.write(self._terminal, f"\n{text}\n".encode())
            _reported = True

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Handle the signals during the block. Signals that are already ignored, as under nohup, remain ignored."""
        self._terminal = os.dup(2)  # pytest captures output by replacing descriptor 2
        try:
            with _handled({signal.SIGINT: signal.default_int_handler, **_USUAL}, self.hear):
                yield
                self._end_quietly()
        finally:
            os.close(self._terminal)

    def _end_quietly(self) -> None:
        global _over  # noqa: PLW0603  one per process, like signal handlers
        if _alone and self._ending:
            _over = True
            for each in (signal.SIGINT, *_USUAL):
                signal.signal(each, signal.SIG_IGN)  # Python resets handlers at its end, but not ignored signals


def interrupt_was_reported() -> bool:
    return _reported


@contextlib.contextmanager
def as_interrupts(*, alone: bool = False) -> Iterator[None]:
    """Raise `KeyboardInterrupt` for the first SIGTERM or SIGHUP in the block. `alone`: the process exits afterwards."""
    global _alone  # noqa: PLW0603  one per process, like signal handlers
    _alone = alone

    def interrupt(number: int, _: FrameType | None) -> None:
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, _pass)
        if number == signal.SIGHUP:
            _leave_terminals()
        raise KeyboardInterrupt

    with _handled(_USUAL, interrupt):
        yield


def deaf_python() -> str:
    """Return the command that starts a worker. It ignores signals while Python loads, to avoid tracebacks."""
    return shlex.join(["sh", "-c", 'trap "" INT TERM HUP; exec "$@"', "sh", sys.executable])


def hear_controller_alone() -> None:
    """In a worker, accept one interrupt, and leave SIGTERM and SIGHUP to xdist's main process, which also gets them."""

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGINT, _pass)
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, _pass)
        signal.signal(signal.SIGHUP, _pass)


def _pass(*_: object) -> None:
    """A handler that ignores a signal. Unlike SIG_IGN, it is not inherited by child programs."""


_Handler = Callable[[int, FrameType | None], object]


@contextlib.contextmanager
def _handled(before: Mapping[signal.Signals, object], handler: _Handler) -> Iterator[None]:
    """During the block, use `handler` for each signal whose current handler is that in `before` or from this module."""
    ours: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        handlers = [(each, usual, signal.getsignal(each)) for each, usual in before.items()]
        ours = [each for each, usual, now in handlers if now == usual or getattr(now, "__module__", "") == __name__]
    former = {each: signal.signal(each, handler) for each in ours}
    try:
        yield
    finally:
        for each, was in () if _over else former.items():
            signal.signal(each, was)


def _leave_terminals() -> None:
    """Redirect all descriptors of a closed terminal to /dev/null, because writes to the terminal would fail."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for each in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):
            if str(each.readlink()).startswith(("/dev/pts/", "/dev/tty", "/dev/console")):
                os.dup2(nowhere, int(each.name))
    os.close(nowhere)
