"""Wait for conditions. A time-out error reports the condition, the last value, and how long this value was unchanged.

The caller chooses the exception. A proxy that does not converge violates its requirement (`NotYetError`, an
`AssertionError`). A cluster that does not boot proves nothing about the proxy (`error=InconclusiveError`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
V = TypeVar("V")

FAR = 30.0
"""The default time limit for components that declare no limit, in seconds before the time scale is applied."""

_NO_CROWD, _MOST_CROWDED = 4, 10

_LATER = 0.05
"""The shortest pause between checks, as a share of the time waited so far. Long waits therefore poll less often."""

_scale = 1.0


class NotYetError(AssertionError):
    """A wait timed out. A check may also raise this error with the reason, instead of returning False."""


def set_time_scale(factor: float) -> None:
    """Multiply all time limits by `factor`, for slow machines (`--td-time-scale`). The report contains the factor."""
    if factor <= 0:
        raise ValueError(f"time scale {factor}: expected a number above 0")
    global _scale  # noqa: PLW0603  one factor for all waits of a process
    _scale = factor


def time_scale() -> float:
    """Return the current time scale, which is 1.0 by default."""
    return _scale


def eventually(
    check: Callable[[], T | None],
    *,
    within: float | None = None,
    describe: str | Callable[[], str],
    every: float = 0.005,
    error: Callable[[str], Exception] = NotYetError,
    in_vain: Callable[[], str] = str,
) -> T:
    """Call `check` until it returns a true value, and return that value.

    `within` is in seconds before the time scale. The default is `FAR`, which is extended on a busy machine. `every` is
    the shortest pause between two calls. `describe` completes the sentence "waited for ..."; if it is a function, it is
    called only after a time-out. `in_vain` returns a reason to stop early, or "". `check` may raise `AssertionError`
    with a reason instead of returning False. Other errors end the wait. The last call always happens after the
    deadline. Raises `error(text)`.
    """
    begin = time.monotonic()
    limit = (FAR if within is None else within) * _scale
    deadline = begin + limit
    looks, last, since = 0, "", begin
    while True:
        looked_at = time.monotonic()
        try:
            value = check()
            seen = repr(value)
        except AssertionError as not_yet:
            value, seen = None, str(not_yet) or "an assertion without text"
        if value:
            return value
        looks += 1
        if seen != last:
            last, since = seen, looked_at
        now = time.monotonic()
        if looked_at >= deadline and limit >= FAR * _scale:
            deadline = max(deadline, begin + limit * crowding())
        reason = in_vain()
        if reason or looked_at >= deadline:
            awaited = describe if isinstance(describe, str) else describe()
            raise error(
                f"waited {now - begin:.3f} s for {awaited}; last seen: {last}, "
                f"unchanged for {now - since:.3f} s (looks: {looks}, time scale: {_scale:g})"
                f"{f'. Stopped early: {reason}' * bool(reason)}"
            )
        time.sleep(max(0.0, min(max(every, (now - begin) * _LATER), deadline - now)))


def crowding() -> float:
    """Return the factor by which `FAR` grows with the current load of this machine, from 1 to `_MOST_CROWDED`.

    A component that gets a tenth of a processor needs five minutes for 30 seconds of work. Up to four runnable threads
    per processor count as normal load.
    """
    wanting = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    return min(max(wanting / _NO_CROWD, 1.0), _MOST_CROWDED)


def last_value(
    look: Callable[[], V], is_right: Callable[[V], bool], *, within: float, describe: str, every: float = 0.005
) -> V:
    """Call `look` until its value is right or the time is up. Return the last value; the caller compares it.

    `within`, `every` and `describe` are the same as for `eventually`. `look` may raise `AssertionError` if there is no
    value yet. If its last call does so, `NotYetError` is raised.
    """
    seen: list[V] = []

    def right() -> bool:
        seen.clear()
        seen.append(look())
        return is_right(seen[0])

    try:
        eventually(right, within=within, every=every, describe=describe)
    except NotYetError:
        if not seen:
            raise
    return seen[0]
