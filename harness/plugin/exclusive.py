"""Run disruptive requirements last and one at a time, because they change a shared cluster or read its metrics."""

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
"""Abilities that disturb the scenarios of other workers, or are disturbed by them. Metrics count all traffic."""

GROUP = "disruptive"  # group of pytest-xdist that sends all disruptive tests to one worker


def disrupts(needs: Needs) -> bool:
    return not DISRUPTIVE.isdisjoint(needs.abilities)


@contextlib.contextmanager
def turn(file: Path, *, exclusive: bool) -> Iterator[None]:
    """Wait until no disruptive test runs, or with `exclusive` until no test runs. Others wait during the block."""
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
