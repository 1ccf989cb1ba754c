"""The one way of waiting.

A bare time-out explains nothing. This one says what was awaited, what was seen last, and since when it looked so.
Whether being late is a failure depends on what was awaited, so the caller says it: a proxy that does not converge broke
its requirement (`NotYetError`, an `AssertionError`), a cluster that does not boot says nothing about the proxy
(`error=InconclusiveError`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
V = TypeVar("V")

FAR = 30.0
"""Seconds, before the time scale, for which what a component has to do is waited for, when it declares no bound."""

_NO_CROWD, _MOST_CROWDED = 4, 10

_LATER = 0.05
"""The share of the time waited so far that the next pause takes at least: who waits for long looks less often."""

_scale = 1.0


class NotYetError(AssertionError):
    """A wait timed out. A check may raise it too, instead of returning False, to say what is missing."""


def set_time_scale(factor: float) -> None:
    """Multiply all deadlines by `factor`, for slow machines (`--td-time-scale`). It stands in the report."""
    if factor <= 0:
        raise ValueError(f"time scale {factor}: want a number above 0")
    global _scale  # noqa: PLW0603  one factor for all waits of a process is the point
    _scale = factor


def time_scale() -> float:
    """The factor in force; 1.0 unless set."""
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
    """Call `check` until it gives something true, and give that.

    `within` is in seconds before the time scale; `FAR` unless given, and then more on a crowded machine. `every` is the
    shortest pause between two looks: what took long is known to a twentieth of its time. `describe` ends the sentence
    "waited for ..."; a function is asked only when the wait was in vain. A check may raise `AssertionError` for "not
    yet, because ..."; other errors end the wait. There is always a look after the deadline.
    Raises `error(text)`.
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
                f"{f'. No longer, since {reason}' * bool(reason)}"
            )
        time.sleep(max(0.0, min(max(every, (now - begin) * _LATER), deadline - now)))


def crowding() -> float:
    """Return by how much more than `FAR` is waited on a machine as crowded as this one is now: 1 to `_MOST_CROWDED`.

    A component that gets a tenth of a processor does in five minutes what it would do in thirty seconds, and a machine
    says nothing about it. Up to four threads that want to run for each processor are no crowd.
    """
    wanting = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    return min(max(wanting / _NO_CROWD, 1.0), _MOST_CROWDED)


def seen_last(
    look: Callable[[], V], is_right: Callable[[V], bool], *, within: float, describe: str, every: float = 0.005
) -> V:
    """Look until what is seen is right, or time is up, and give what was seen last: the caller compares it.

    `within`, `every` and `describe` are those of `eventually`. A look may raise `AssertionError` when there is nothing
    to compare yet; raises `NotYetError` when the last one did.
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
