"""Waiting for what a component has to do, and how long it took: late is not wrong.

No document says how soon a change must be taken up. So it is waited for as long as the implementation declares, or up
to `harness.eventually.FAR`, and what is seen then is judged. How long it took stands in the history and in the report.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from harness import eventually
from harness.scenario.cluster import Cluster

V = TypeVar("V")


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
    begin = time.monotonic()
    seen = eventually.seen_last(look, is_right, within=patience(cluster) + kept, every=every, describe=what)
    if is_right(seen):
        cluster.took(what, time.monotonic() - begin)
    return seen


def patience(cluster: Cluster) -> float:
    """Seconds, before the time scale, that a change is waited for."""
    return cluster.converges_within or eventually.FAR


def limit(cluster: Cluster) -> str:
    """The same in words."""
    return f"{'the declared ' if cluster.converges_within else ''}{patience(cluster):g} s"
