"""What a run is to ask that no author wrote: how long or how many, from which seed, or which cases of a file again.

A suite says with the marker `generates` which of its tests make cases. Each is run in parts, one a worker or more, and
a part makes batches by number. What a batch holds depends on the seed and its number alone, so the same seed gives the
same cases with any number of workers; time decides how many of them are reached.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.errors import UsageError

LONGEST_PART = 25.0
"""Seconds of one part: a part that fails ends, and all others go on."""

_AMOUNT = re.compile(r"(\d{1,7})(s|m|h|)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_MOST = 86_400


@dataclass(frozen=True, slots=True)
class Generation:
    """What is made: cases for so many seconds, or so many cases (the other is 0), or those in the file `replay`."""

    seed: int
    seconds: float = 0.0
    cases: int = 0
    replay: str = ""
    part: int = 0
    parts: int = 1

    def __str__(self) -> str:
        """The part, as reports name a case."""
        return f"{self.part + 1} of {self.parts}"

    def split(self, tests: int, workers: int) -> list[Generation]:
        """Return the parts of one of so many tests that share the whole among so many processes."""
        if self.replay:
            return [self]
        if self.cases:
            each, parts = replace(self, cases=math.ceil(self.cases / tests)), max(1, workers)
        else:
            seconds = self.seconds / tests * max(1, workers)
            parts = max(1, workers, math.ceil(seconds / LONGEST_PART))
            each = replace(self, seconds=seconds / parts)
        return [replace(each, part=part, parts=parts) for part in range(parts)]

    def batches(self, size: int) -> Iterator[int]:
        """Yield the numbers of the batches of this part, of `size` cases each, while there are any or there is time."""
        begin = time.monotonic()
        number = self.part
        while number * size < self.cases if self.cases else time.monotonic() - begin < self.seconds:
            yield number
            number += self.parts


def check_amount(text: str) -> str:
    """Return a text that says how long or how many. Raises `UsageError`."""
    seconds, cases = amount(text)
    if not 0 < seconds + cases <= max(_MOST, cases):
        raise UsageError(f"{text!r}: want at least one case, or one second, and at most 24h")
    return text


def amount(text: str) -> tuple[float, int]:
    """Return the seconds, or the number of cases, that a text like 60s, 10m or 500 names; the other one is 0."""
    found = _AMOUNT.fullmatch(text)
    if not found:
        raise UsageError(f"{text[:100]!r}: want a time like 60s, 10m or 1h, or a number of cases like 500")
    number, unit = int(found[1]), found[2]
    return (float(number * _SECONDS[unit]), 0) if unit else (0.0, number)
