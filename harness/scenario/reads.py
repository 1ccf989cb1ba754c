"""Expectations about the API reads of a component. A feature without new API calls must not cause more reads.

A Kubernetes client may restart watches and lists at any time. So the same changes are repeated in several rounds, and a
read counts only if it occurs more often in every round. A read that occurs only at the first use of a feature is
detected differently: the component is restarted first, so the read is of a resource that it has not read before.
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
    """Restart a component. Play several rounds without a feature, then as many with each value of the feature.

    No value may cause additional reads in all rounds, or reads of a new resource. Reads are GET, LIST and WATCH
    requests, as in "get nodes", that the API server counts. `play` returns those reads of a round that have another
    cause. Raises `AssertionError`, or `UnavailableError` if the API server does not count reads.
    """
    begin = time.monotonic()
    cluster.backend.part(RecordsReads).reads(component, since=begin)  # fail early if counting is unavailable
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
            f"the {component}: additional reads in each round of {value}, and reads of further resources",
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
