"""What a component reads of the API server: a feature that needs no new API calls brings no more reads.

A client of Kubernetes begins a watch again, or lists anew, when it has to, and that may fall into any window. So the
same is done several times, and only what is read more often each time counts.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import TypeVar

from harness.model.release import Component
from harness.scenario.cluster import Cluster

V = TypeVar("V")

ROUNDS = 3


def expect_no_more_reads(
    cluster: Cluster, component: Component, play: Callable[[V], AbstractSet[str]], *, without: V, values: Iterable[V]
) -> None:
    """Play several rounds without a feature, and as many with each of its values: no round may bring another read.

    Reads are GET, LIST and WATCH of resources, like "get nodes", counted by the API server. `play` returns those of a
    round that have another cause. Raises `AssertionError`, and `UnavailableError` where nobody counts.
    """
    plain = _reads(cluster, component, play, without)
    for value in values:
        reads = _reads(cluster, component, play, value)
        told = {"reads without": plain.total(), f"with {value}": reads.total()}
        cluster.measured(f"{ROUNDS} rounds of changes, seen by the {component}", told)
        cluster.expect_equal(
            f"the {component}: what it reads of the API server in each round of {value}, and not without",
            expected={},
            observed={read: more for read, more in sorted((reads - plain).items()) if more >= ROUNDS},
        )


def _reads(cluster: Cluster, component: Component, play: Callable[[V], AbstractSet[str]], value: V) -> Counter[str]:
    cluster.settle()
    since, others = time.monotonic(), set[str]()
    for _ in range(ROUNDS):
        others |= play(value)
        cluster.settle()
    return Counter(each for each in cluster.backend.reads(component, since=since) if each not in others)
