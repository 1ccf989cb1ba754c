"""The cases that a run generates from a seed, limited by time or number, or reads from a file. A test with the marker
`generates` runs in parts, at least one per worker, and each part generates numbered batches. A batch depends only on
the seed and its number, so the same seed yields the same cases with any number of workers.
"""

import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.errors import UsageError
from harness.model.package_extras import require

LONGEST_PART = 25.0
"""The maximum duration of one part in seconds. A part ends when it fails, and the other parts continue."""

_AMOUNT = re.compile(r"(\d{1,7})(s|m|h|)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_MOST = 86_400


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """The generated cases of a test, limited by `seconds` or `cases` (the other is 0), or those in file `replay`."""

    seed: int
    seconds: float = 0.0
    cases: int = 0
    replay: str = ""
    part: int = 0
    parts: int = 1

    def __str__(self) -> str:
        return f"{self.part + 1} of {self.parts}"

    def split(self, tests: int, workers: int) -> "list[GenerationSettings]":
        """Return the parts of one test. `tests` tests share the time or the cases, and run on `workers` workers."""
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
        """Yield the numbers of this part's batches, with `size` cases each, until the limit is reached."""
        begin = time.monotonic()
        number = self.part
        while number * size < self.cases if self.cases else time.monotonic() - begin < self.seconds:
            yield number
            number += self.parts


def check_amount(text: str) -> str:
    """Return the string if it is a valid duration or number of cases. Raises `UsageError`, and `UnavailableError` if no
    cases can be generated.
    """
    seconds, cases = amount(text)
    if not 0 < seconds + cases <= max(_MOST, cases):
        raise UsageError(f"{text!r}: expected at least one case, or one second, and at most 24h")
    require("hypothesis", extra="generate", feature="--generate")
    return text


def amount(text: str) -> tuple[float, int]:
    """Parse a string like 60s, 10m or 500 into (seconds, 0) or (0, number of cases). Raises `UsageError`."""
    found = _AMOUNT.fullmatch(text)
    if not found:
        raise UsageError(f"{text[:100]!r}: expected a time like 60s, 10m or 1h, or a number of cases like 500")
    number, unit = int(found[1]), found[2]
    return (float(number * _SECONDS[unit]), 0) if unit else (0.0, number)
