"""Wait for conditions. A timeout error reports the condition, the last value, and how long this value was unchanged. A
proxy that does not converge violates its requirement (`NotYetError`). A cluster that does not boot proves nothing about
the proxy (`error=InconclusiveError`). A limit counts only the time in which all programs of the run could run
(`harness.run_delay`). If they cannot run for the whole limit, even within `MOST` times that time, the wait raises
`StarvedError` for every caller. It ends earlier if the judged programs on one node keep the machine busy.
"""

import contextlib
import time
from collections.abc import Callable
from typing import TypeVar

from harness.errors import StarvedError
from harness.run_delay import RUN_DELAY, program_text, time_left

T = TypeVar("T")
V = TypeVar("V")

FAR = 30.0  # default time limit if the implementation claims none, in seconds (times the time scale)

MOST, MOST_IF_STOPPED = 10, 2
"""The maximum factors by which a limit is extended: if programs wait for a CPU, and if a program is stopped."""

OWN_FAULT = 2  # a wait ends if the judged programs on one node used this multiple of its limit as CPU time

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
    return _scale


def eventually(
    check: Callable[[], T | None],
    *,
    within: float | None = None,
    describe: str | Callable[[], str],
    every: float = 0.005,
    error: Callable[[str], Exception] = NotYetError,
    stop_reason: Callable[[], str] = str,
) -> T:
    """Call `check` until it returns a true value, and return that value. `within` is in seconds (times the time scale),
    by default `FAR`. `every` is the shortest pause between two calls. `describe` completes the sentence "waited for
    ..."; if it is a function, it is called only after a timeout. `stop_reason` returns a reason to stop early, or "".
    `check` may raise `AssertionError` with a reason instead of returning False. Other errors end the wait. The last
    call always happens after the deadline. Raises `error(message)`, or `StarvedError` if programs got too little time.
    """
    begin = time.monotonic()
    limit = (FAR if within is None else within) * _scale
    looks, last, since = 0, "", begin
    with contextlib.ExitStack() as sampled:
        while True:
            looked_at = time.monotonic()
            try:
                value = check()
                seen = repr(value)
            except AssertionError as not_yet:
                value, seen = None, str(not_yet) or "an assertion without a message"
            if value:
                return value
            if not looks:
                sampled.enter_context(RUN_DELAY.watched())
            looks += 1
            if seen != last:
                last, since = seen, looked_at
            left, had_limit = _left(begin, looked_at, limit)
            reason = stop_reason()
            if reason or left <= 0:
                now = time.monotonic()
                awaited = describe if isinstance(describe, str) else describe()
                text = (
                    f"waited {now - begin:.3f} s for {awaited}; last seen: {last}, "
                    f"unchanged for {now - since:.3f} s (looks: {looks}, time scale: {_scale:g})"
                    f"{f'. Stopped early: {reason}' * bool(reason)}"
                )
                if reason or had_limit:
                    raise error(text)
                raise StarvedError(f"{text}. {could_not_run(RUN_DELAY.lost(begin, looked_at), begin)}")
            now = time.monotonic()
            time.sleep(max(0.0, min(max(every, (now - begin) * _LATER), looked_at + left - now)))


def is_over(begin: float, within: float) -> bool:
    """Return whether a wait since `begin` (monotonic seconds) has lasted `within` seconds (times the time scale).
    Raises `StarvedError` if the programs got too little time to run.
    """
    now = time.monotonic()
    left, had_limit = _left(begin, now, within * _scale)
    if left <= 0 and not had_limit:
        raise StarvedError(f"timed out after {now - begin:.3f} s. {could_not_run(RUN_DELAY.lost(begin, now), begin)}")
    return had_limit


def _left(begin: float, at: float, limit: float) -> tuple[float, bool]:
    """Return how many seconds a wait has left at time `at`, and whether the programs could run for its whole limit."""
    most = MOST_IF_STOPPED if RUN_DELAY.stopped else MOST
    left, had_limit = time_left(limit, at - begin, RUN_DELAY.lost(begin, at), most)
    return 0.0 if left > 0 and is_own_fault(begin, at - begin, limit) else left, had_limit


def is_own_fault(begin: float, passed: float, limit: float) -> bool:
    """Return whether a wait has reached its limit while the judged programs on one node kept the machine busy."""
    return passed >= limit and RUN_DELAY.busiest(begin)[0] >= OWN_FAULT * limit


def could_not_run(seconds: float, begin: float) -> str:
    """Return a sentence about how long the programs of the run could not run, and which judged program ran most."""
    why = "a program is stopped" if RUN_DELAY.stopped else "the machine is too busy"
    ran, process = RUN_DELAY.busiest(begin)
    most = f". Of the judged programs, {program_text(process)} and the others on its node ran most, for {ran:.3f} s"
    return f"The programs of this run could not run for up to {seconds:.3f} s: {why}{most if process else ''}"


def last_value(
    look: Callable[[], V], is_right: Callable[[V], bool], *, within: float, describe: str, every: float = 0.005
) -> V:
    """Call `look` until `is_right` accepts its value or the time is up. Return the last value. `look` may raise
    `AssertionError` if there is no value yet. If the last call raises it, `NotYetError` is raised.
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
