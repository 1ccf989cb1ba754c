"""How busy this machine is, for tests that allow more time on a busy machine."""

from __future__ import annotations

import os

_NO_CROWD, _MOST_CROWDED = 4, 10


def crowding() -> float:
    """Return the factor by which the time limit of a test grows with the load of this machine, from 1 to 10.

    A program that gets a tenth of a processor needs five minutes for 30 seconds of work. Up to four runnable threads
    per processor count as normal load.
    """
    wanting = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    return min(max(wanting / _NO_CROWD, 1.0), _MOST_CROWDED)
