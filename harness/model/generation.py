"""The cases that a run generates: for how long or how many, from which seed, or those of a file.

Tests with the marker `generates` generate cases. Each test runs in parts, at least one per worker, and a part makes
numbered batches. The content of a batch depends only on the seed and its number, so the same seed gives the same cases
with any number of workers; the time limit decides how many of them run.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.errors import UsageError

LONGEST_PART = 25.0
"""Seconds of one part. A part ends when it fails; the others continue."""

_AMOUNT = re.compile(r"(\d{1,7})(s|m|h|)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_MOST = 86_400


@dataclass(frozen=True, slots=True)
class Generation:
    """The cases of a test: for some seconds, or a number of cases (the other is 0), or those of file `replay`."""

    seed: int
    seconds: float = 0.0
    cases: int = 0
    replay: str = ""
    part: int = 0
    parts: int = 1

    def __str__(self) -> str:
        """Return the name of the part in reports."""
        return f"{self.part + 1} of {self.parts}"

    def split(self, tests: int, workers: int) -> list[Generation]:
        """Return the parts of one test, if this number of tests and workers share the time or the cases."""
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
        """Yield the numbers of this part's batches of `size` cases each, until the cases or the time run out."""
        begin = time.monotonic()
        number = self.part
        while number * size < self.cases if self.cases else time.monotonic() - begin < self.seconds:
            yield number
            number += self.parts


def check_amount(text: str) -> str:
    """Return a text if it is a valid time or number of cases. Raises `UsageError`."""
    seconds, cases = amount(text)
    if not 0 < seconds + cases <= max(_MOST, cases):
        raise UsageError(f"{text!r}: want at least one case, or one second, and at most 24h")
    return text


def amount(text: str) -> tuple[float, int]:
    """Parse a text like 60s, 10m or 500 to seconds and number of cases, one of which is 0. Raises `UsageError`."""
    found = _AMOUNT.fullmatch(text)
    if not found:
        raise UsageError(f"{text[:100]!r}: want a time like 60s, 10m or 1h, or a number of cases like 500")
    number, unit = int(found[1]), found[2]
    return (float(number * _SECONDS[unit]), 0) if unit else (0.0, number)
