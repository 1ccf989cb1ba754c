"""Waits for components to process a change, and records how long they take.

No document says how soon a component must process a change. So a check waits as long as the implementation declares,
or up to `harness.eventually.FAR`, and judges the last value. The time that it took is in the history and the report.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, TypeVar

from harness import eventually
from harness.errors import InconclusiveError
from harness.scenario.cluster import Cluster
from harness.scenario.recheck import remember

V = TypeVar("V")

STAYS = 0.5
"""Seconds, before the time scale, for which a value must stay unchanged after all components have settled."""


def wait_for_value(
    cluster: Cluster,
    what: str,
    look: Callable[[], V],
    is_right: Callable[[V], bool],
    *,
    every: float = 0.005,
    kept: float = 0.0,
) -> V:
    """Look until the value is right or time is up, and return the last value: the caller compares it.

    `every` and the exceptions of `look` are those of `last_value`. `kept` is the time in seconds for which an old value
    may still be returned.
    """
    cluster.backend.restored.await_pods()  # do not count the time that kubelets need
    begin = time.monotonic()
    seen = eventually.last_value(look, is_right, within=patience(cluster) + kept, every=every, describe=what)
    if is_right(seen):
        cluster.took(what, time.monotonic() - begin)
    return seen


def wait_for_stable_value(
    cluster: Cluster,
    what: str,
    look: Callable[[], V],
    is_right: Callable[[V], bool],
    *,
    shown: Callable[[V], Any] = str,
) -> V:
    """Do as `wait_for_value`, and check that the value is still right when all components have processed the change.

    The first right value proves little: a value that was right before the change stays right until a component
    processes it. If it becomes wrong meanwhile, the wait goes on. It is checked again at the end of the scenario, see
    `recheck`; `shown` turns it into a JSON value.
    """
    deadline = time.monotonic() + patience(cluster) * eventually.time_scale()
    while True:
        seen = wait_for_value(cluster, what, look, is_right)
        if not is_right(seen):
            return seen
        with contextlib.suppress(InconclusiveError):  # look even if components do not settle
            cluster.settle()
        seen = look()
        if is_right(seen):
            remember(cluster, what, seen, look=look, is_right=is_right, shown=shown)
            return seen
        if time.monotonic() > deadline:
            return seen


def value_after_wait(what: str, look: Callable[[], V], is_right: Callable[[V], bool]) -> V:
    """Look for `STAYS` seconds, or until the value is wrong, and return the last value."""
    return eventually.last_value(look, lambda seen: not is_right(seen), within=STAYS, every=STAYS / 4, describe=what)


def patience(cluster: Cluster) -> float:
    """Return the time limit for a change in seconds, before the time scale."""
    return cluster.converges_within or eventually.FAR


def limit(cluster: Cluster) -> str:
    """Return the same limit in words."""
    return f"{'the declared ' if cluster.converges_within else ''}{patience(cluster):g} s"
