"""A drawn long-lived connection, which a client keeps open while it opens others during a measuring window."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from harness.backends.protocols import Connections
from harness.model.outcomes import Reached, Unknown
from harness.scenario.cluster import Cluster
from harness.scenario.paths import Path
from harness.scenario.service_address import named
from harness.variation import axes

REQUESTS = 16
"""The requests of a long-lived connection. All probes together send few packets on each connection."""


@contextlib.contextmanager
def long_connection(cluster: Cluster, paths: Sequence[Path]) -> Iterator[None]:
    """Expect a connection of the first client that gets answers to stay at one pod during a block, if one is drawn."""
    connections = cluster.backend.find(Connections)
    path = next((each for each in paths if each.speaks), None)
    if cluster.draw[axes.CONNECTIONS] != "long" or path is None or connections is None:
        yield
        return
    with contextlib.closing(connections.connect(path.probes(1)[0])) as stream:
        yield
        opened = named(cluster, stream.opened)
        if not isinstance(opened, Reached):  # the window has judged this client
            return
        answers = [named(cluster, stream.ask()) for _ in range(REQUESTS)]
    wrong = [each for each in answers if each != opened]
    unknown = next((each.why for each in wrong if isinstance(each, Unknown)), "")
    other = next((each.pod if isinstance(each, Reached) else type(each).__name__ for each in wrong), opened.pod)
    cluster.expect_equal(
        f"server of the open connection of {path.label}", expected=opened.pod, observed=other, unknown=unknown
    )
