"""Scenarios on a cluster of two nodes, and the packet paths in their evidence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.backends.implementation import Implementation
from harness.backends.netns import NetnsBackend
from harness.judging.history import History
from harness.model.topology import grid
from harness.scenario.evidence import explain_failure
from trafficdist import Cluster


@contextmanager
def scenario(folder: Path, implementation: Implementation) -> Iterator[tuple[Cluster, NetnsBackend]]:
    backend = NetnsBackend(grid("two", {"a": 1, "b": 1}), families=("IPv4", "IPv6"), implementation=implementation)
    with backend, History(folder / "history") as history:
        cluster = Cluster(backend, "td-1", history=history, test="t")
        yield cluster, backend
        cluster.close()


def paths(cluster: Cluster) -> dict[str, str]:
    texts = explain_failure(cluster, cluster.record)
    return {name: text for name, text in texts if name.startswith("path-") and isinstance(text, str)}
