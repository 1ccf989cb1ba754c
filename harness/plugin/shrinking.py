"""Repeat a failed test with fewer random values, to find the values that matter. The verdict never changes."""

import contextlib
import time
from collections.abc import Callable

import pytest

from harness.eventually import time_scale
from harness.judging.conclusion import UnmetError
from harness.plugin import judging
from harness.plugin.time_limit import TimeLimitError, limit_of, limited
from harness.run.run import Run
from harness.variation.axes import PLAIN, DrawnValues

SECONDS = 60.0  # time limit for all repetitions of a process, multiplied by the time scale


class Shrinker:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._left = SECONDS * time_scale()

    def shrink(self, item: pytest.Item, draw: DrawnValues, following: pytest.Item | None) -> DrawnValues | None:
        return shrunk(draw, lambda fewer: self._fails(item, fewer, following))

    def _fails(self, item: pytest.Item, draw: DrawnValues, following: pytest.Item | None) -> bool | None:
        if self._left <= 0:
            return None
        begun = time.monotonic()
        try:
            with self._run.history.set_aside():
                self._run.shrinking = draw
                return _fails(item, following, self._left)
        finally:
            self._run.shrinking = None
            self._left -= time.monotonic() - begun


def _fails(item: pytest.Item, following: pytest.Item | None, seconds: float) -> bool | None:
    """Run a test without reports. Return whether an expectation was unmet, or None if this is unknown."""
    state = item.session._setupstate  # pytest has no other way to repeat a test
    capture = item.config.pluginmanager.getplugin("capturemanager")
    try:
        with (
            limited(min(limit_of(item) or seconds, seconds), most=1),
            contextlib.nullcontext() if capture is None else capture.item_capture("call", item),
        ):
            item._initrequest()  # type: ignore[attr-defined]
            state.setup(item)
            with judging.called(item.funcargs, contextlib.nullcontext()):  # type: ignore[attr-defined]
                item.runtest()
    except UnmetError:
        return True
    except (Exception, TimeLimitError, pytest.skip.Exception, pytest.fail.Exception):  # noqa: BLE001  inconclusive
        return None
    finally:
        state.teardown_exact(following)
        item._request = False  # type: ignore[attr-defined]
        item.funcargs = None  # type: ignore[attr-defined]
    return False


def shrunk(draw: DrawnValues, fails: Callable[[DrawnValues], bool | None]) -> DrawnValues | None:
    """Return a reduced set of random values with which `fails` is true, or None if a repetition is inconclusive."""
    single = [DrawnValues((each,)) for each in draw.values] if len(draw.values) > 1 else []
    for each in (PLAIN, *single):
        if (found := fails(each)) or found is None:
            return each if found else None
    smallest = draw
    for axis, _ in draw.values if len(draw.values) > 2 else ():
        if (found := fails(smallest.without(axis))) is None:
            return None
        smallest = smallest.without(axis) if found else smallest
    return smallest
