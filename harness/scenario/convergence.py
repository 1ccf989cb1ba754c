"""Waiting for what a component has to do, and how long it took: late is not wrong.

No document says how soon a change must be taken up. So it is waited for as long as the implementation declares, or up
to `harness.eventually.FAR`, and what is seen then is judged. How long it took stands in the history and in the report.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, TypeVar

from harness import eventually
from harness.errors import InconclusiveError
from harness.scenario.cluster import Cluster

V = TypeVar("V")

STAYS = 0.5
"""Seconds, before the time scale, for which what must not be written is watched, when all components have settled."""


def come_to(
    cluster: Cluster,
    what: str,
    look: Callable[[], V],
    is_right: Callable[[V], bool],
    *,
    every: float = 0.005,
    kept: float = 0.0,
) -> V:
    """Look until what is seen is right or time is up, and give what was seen last: the caller compares it.

    `every` and what a look may raise are those of `seen_last`; `kept` are seconds for which what was right before may
    be given still.
    """
    cluster.backend.restored.await_pods()  # the time that kubelets take is not the implementation's
    begin = time.monotonic()
    seen = eventually.seen_last(look, is_right, within=patience(cluster) + kept, every=every, describe=what)
    if is_right(seen):
        cluster.took(what, time.monotonic() - begin)
    return seen


def come_to_stay(
    cluster: Cluster,
    what: str,
    look: Callable[[], V],
    is_right: Callable[[V], bool],
    *,
    shown: Callable[[V], Any] = str,
) -> V:
    """Do as `come_to`, and see that it is right still when all components have worked on the change.

    The first sight proves little: what was right before the change is right until it is worked on. What becomes wrong
    meanwhile may become right again while it is waited for. At the end of the scenario it is looked at once more, see
    `holding`; `shown` makes of what is seen a value that JSON can hold.
    """
    deadline = time.monotonic() + patience(cluster) * eventually.time_scale()
    while True:
        seen = come_to(cluster, what, look, is_right)
        if not is_right(seen):
            return seen
        with contextlib.suppress(InconclusiveError):  # what does not settle is looked at all the same
            cluster.settle()
        seen = look()
        if is_right(seen):
            cluster.sights.keep(what, seen, look, is_right, shown)
            return seen
        if time.monotonic() > deadline:
            return seen


def kept_for_long(what: str, look: Callable[[], V], is_right: Callable[[V], bool]) -> V:
    """Look for `STAYS` seconds, or until what is seen is wrong, and give what was seen last."""
    return eventually.seen_last(look, lambda seen: not is_right(seen), within=STAYS, every=STAYS / 4, describe=what)


def patience(cluster: Cluster) -> float:
    """Seconds, before the time scale, that a change is waited for."""
    return cluster.converges_within or eventually.FAR


def limit(cluster: Cluster) -> str:
    """The same in words."""
    return f"{'the declared ' if cluster.converges_within else ''}{patience(cluster):g} s"
