"""End a scenario that takes too long.

pytest-timeout raises its error wherever the process happens to be, for example in pytest's own code, where it ends the
run as an internal error. So this module replaces pytest-timeout, and its alarm is set only while a phase of a test
runs. Time in which a cluster starts, or the machine is suspended or too busy, does not count.
"""

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

from harness.eventually import MOST, is_own_fault
from harness.run_delay import RUN_DELAY, of_this_thread, time_left

if TYPE_CHECKING:
    import pytest

AGAIN = 30.0
"""Seconds until the error is raised again, if the scenario does not end. The scenario may have caught the error."""

SOON = 0.001  # shortest time in seconds until the next alarm

LAST = 3  # number of the alarm at which the scenario is given up

_uncounted: list[tuple[float, float]] = []  # begin and end (inf: not yet) of each start of a cluster, monotonic


class TimeLimitError(BaseException):
    """A scenario took too long. The class is not an `Exception`, because scenarios may catch and ignore exceptions."""


def limit_of(item: "pytest.Item") -> float:
    """Return the time limit for each phase of a test in seconds (0: none), from its marker or the configuration."""
    marker = item.get_closest_marker("timeout")
    if marker is not None and (marker.args or "timeout" in marker.kwargs):
        return float(marker.args[0] if marker.args else marker.kwargs["timeout"])
    said = getattr(item.config.option, "timeout", None)
    if said is None:
        said = os.environ.get("PYTEST_TIMEOUT") or item.config.getini("timeout") or 0
    return float(said)


@contextlib.contextmanager
def uncounted() -> Iterator[None]:
    """Do not count the time in this block, in which a cluster starts. The recipe limits that time."""
    begin = time.monotonic()
    _uncounted.append((begin, math.inf))
    try:
        yield
    finally:
        _uncounted[-1] = (begin, time.monotonic())


@contextlib.contextmanager
def limited(seconds: float, give_up: Callable[[str], object] = lambda _: None, *, most: int = MOST) -> Iterator[None]:
    """Raise `TimeLimitError` in this block after `seconds` (0: never), not counting time when programs could not run.

    `most` times `seconds` is the limit in real time. If the block keeps ignoring the error, `give_up` gets the reason.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return
    begin, waited, heard = time.monotonic(), of_this_thread(), 0

    def ring(_number: int, _frame: FrameType | None) -> None:
        nonlocal heard
        passed = time.monotonic() - begin
        lost = max(RUN_DELAY.lost(begin), of_this_thread() - waited)  # samples are taken during waits only
        lost += sum(min(end, time.monotonic()) - start for start, end in _uncounted if start >= begin)
        left, _ = time_left(seconds, passed, lost, most)
        if left > 0 and not is_own_fault(begin, passed, seconds):
            signal.setitimer(signal.ITIMER_REAL, max(left, SOON))  # less than a microsecond would be no alarm
            return
        heard += 1
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
        why = f"Timeout (>{seconds:g}s), after {passed:.1f} s"
        if heard >= LAST:
            give_up(why)
        raise TimeLimitError(why)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
