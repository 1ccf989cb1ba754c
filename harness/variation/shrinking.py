"""Find the smallest part of a draw with which a scenario still fails."""

from collections.abc import Callable

from harness.variation.axes import PLAIN, Draw


def shrunk(draw: Draw, fails: Callable[[Draw], bool | None]) -> Draw | None:
    """Return the smallest draw with which `fails` is true, or None if a repetition is inconclusive."""
    single = [Draw((each,)) for each in draw.values] if len(draw.values) > 1 else []
    for each in (PLAIN, *single):
        if (found := fails(each)) or found is None:
            return each if found else None
    smallest = draw
    for axis, _ in draw.values if len(draw.values) > 2 else ():
        if (found := fails(smallest.without(axis))) is None:
            return None
        smallest = smallest.without(axis) if found else smallest
    return smallest
