"""What a component reads of the API server: a feature that needs no new API calls brings no more reads.

A client of Kubernetes begins a watch again, or lists anew, when it has to, and that may fall into any window. So the
same is done several times, and only what is read more often each time counts. What is begun once, at the first use of
a feature, is seen on a component that was started anew: it reads a resource of which it has read nothing before.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import TypeVar

from harness.backends.protocols import RecordsReads
from harness.model.release import Component
from harness.scenario.cluster import Cluster

V = TypeVar("V")

ROUNDS = 3


def expect_no_more_reads(
    cluster: Cluster, component: Component, play: Callable[[V], AbstractSet[str]], *, without: V, values: Iterable[V]
) -> None:
    """Start a component anew, play several rounds without a feature, and as many with each of its values.

    No round may bring another read, and no resource may be read of which nothing was read before. Reads are GET, LIST
    and WATCH of resources, like "get nodes", counted by the API server. `play` returns those of a round that have
    another cause. Raises `AssertionError`, and `UnavailableError` where nobody counts.
    """
    begin = time.monotonic()
    cluster.backend.part(RecordsReads).reads(component, since=begin)  # where nobody counts, nothing is started for it
    cluster.restart(component)
    started = cluster.backend.part(RecordsReads).reads(component, since=begin)
    plain = _reads(cluster, component, play, without)
    known = {_resource(each) for each in (*started, *plain)}
    for value in values:
        reads = _reads(cluster, component, play, value)
        told = {"reads without": plain.total(), f"with {value}": reads.total()}
        cluster.measured(f"{ROUNDS} rounds of changes, seen by the {component}", told)
        more = sorted((reads - plain).items())
        cluster.expect_equal(
            f"the {component}: what it reads in each round of {value}, or begins to read there, and not without",
            expected={},
            observed={read: times for read, times in more if times >= ROUNDS or _resource(read) not in known},
        )


def _resource(read: str) -> str:
    return read.partition(" ")[2]


def _reads(cluster: Cluster, component: Component, play: Callable[[V], AbstractSet[str]], value: V) -> Counter[str]:
    cluster.settle()
    since, others = time.monotonic(), set[str]()
    for _ in range(ROUNDS):
        others |= play(value)
        cluster.settle()
    return Counter(
        each for each in cluster.backend.part(RecordsReads).reads(component, since=since) if each not in others
    )
