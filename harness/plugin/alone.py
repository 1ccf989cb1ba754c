"""Who changes a cluster that workers share, or counts what happens on it, does it last, and alone.

Workers are processes, so the agreement between them is a lock on a file of the run: everybody else holds it together,
one that disrupts holds it by itself.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from harness.model.abilities import Ability
from harness.model.needs import Needs

DISRUPTIVE = frozenset(
    {
        Ability.RESTART_API_SERVER,
        Ability.RESTART_CONTROLLER,
        Ability.RESTART_PROXY,
        Ability.CHANGE_RELEASE,
        Ability.CHANGE_NODES,
        Ability.REPORT_NODES,
        Ability.CREATE_NODES,
        Ability.STOP_NODES,
        Ability.CONTROLLER_METRICS,
        Ability.PROXY_METRICS,
        Ability.UNDISTURBED,
    }
)
"""What the scenarios of other workers would notice, and what they would blur: metrics count everybody's doings."""

GROUP = "disruptive"
"""The group of pytest-xdist in which all of them go to one worker."""


def disrupts(needs: Needs) -> bool:
    """Whether a requirement changes what others are looking at."""
    return not DISRUPTIVE.isdisjoint(needs.abilities)


@contextlib.contextmanager
def turn(file: Path, *, alone: bool) -> Iterator[None]:
    """Wait until nobody disrupts, or with `alone` until nobody else runs at all; others then wait for the block."""
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
