"""Find the smallest part of a draw with which a scenario still fails."""

from collections.abc import Callable

from harness.variation.axes import PLAIN, Draw


def shrunk(draw: Draw, fails: Callable[[Draw], bool | None]) -> Draw | None:
    """Return the smallest draw with which `fails` is true, or None if a repetition could not tell."""
    single = [Draw((each,)) for each in draw.drawn] if len(draw.drawn) > 1 else []
    for each in (PLAIN, *single):
        found = fails(each)
        if found is None:
            return None
        if found:
            return each
    smallest = draw
    for axis, _ in draw.drawn if len(draw.drawn) > 2 else ():
        found = fails(smallest.without(axis))
        if found is None:
            return None
        if found:
            smallest = smallest.without(axis)
    return smallest
