"""Expectations about each endpoint's share of the traffic: equal shares, and no diversion under load.

Sets say which pods may answer. Two statements of the KEPs are about shares: without hints all endpoints get the same
share, and with hints an endpoint still gets all traffic however hot its zone is. The counts of each client stand in the
report beside the verdict.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from harness.backends.backend import OpenConnection
from harness.backends.protocols import Connections
from harness.judging import verdict
from harness.judging.verdict import AnyOf, Evenly
from harness.model.outcomes import Reached
from harness.model.workloads import Pod
from harness.scenario.cluster import Cluster
from harness.scenario.paths import Path, Who, names, target_of
from harness.scenario.service import Service
from harness.scenario.traffic import MANY_IN_FLIGHT, expect_first_answers, measure

HELD_OPEN = 100  # open connections of each client, while it makes more


def expect_even_shares(cluster: Cluster, service: Service, expected: Mapping[Who, AbstractSet[Pod]]) -> None:
    """Expect each client to reach just these pods, each equally often, within `statistics.even_shares`.

    Raises `AssertionError` with the grid, and `InconclusiveError` when it cannot be told.
    """
    target = target_of(cluster, service)
    paths = [target.path(who, Evenly(names(pods))) for who, pods in expected.items()]
    expect_first_answers(cluster, paths, target)
    _judge(cluster, f"{target}, shares", paths)


def expect_all_under_load(cluster: Cluster, service: Service, expected: Mapping[Who, AbstractSet[Pod]]) -> None:
    """Expect clients that all send at once, and keep connections open, to reach just these pods.

    Raises `AssertionError` with the grid, and `InconclusiveError` when it cannot be told.
    """
    _under_load(cluster, service, {who: names(pods) for who, pods in expected.items()})


def expect_any_under_load(cluster: Cluster, service: Service, expected: Mapping[Who, AbstractSet[Pod]]) -> None:
    """Expect answers from any of these pods under the same load. Raises as `expect_all_under_load` does."""
    _under_load(cluster, service, {who: AnyOf(names(pods)) for who, pods in expected.items()})


def _under_load(cluster: Cluster, service: Service, expected: Mapping[Who, verdict.Expected]) -> None:
    target = target_of(cluster, service)
    paths = [target.path(who, what) for who, what in expected.items()]
    expect_first_answers(cluster, paths, target)
    with _held_open(cluster, paths):
        _judge(cluster, f"{target}, shares with {HELD_OPEN} connections open", paths)


@contextlib.contextmanager
def _held_open(cluster: Cluster, paths: Sequence[Path]) -> Iterator[None]:
    """Keep connections of each client open in the block: up to `HELD_OPEN`, but none after a failed one.

    The window then shows which pods answer, and whether all do.
    """
    streams: list[OpenConnection] = []
    try:
        for path in paths:
            for probe in path.probes(HELD_OPEN):
                streams.append(cluster.backend.part(Connections).connect(probe))
                if not isinstance(streams[-1].opened, Reached):
                    break
        yield
    finally:
        for stream in streams:
            stream.close()


def _judge(cluster: Cluster, title: str, paths: Sequence[Path]) -> None:
    measure(cluster, title, paths, in_flight=MANY_IN_FLIGHT)
