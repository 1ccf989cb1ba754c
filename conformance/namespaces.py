"""A second Kubernetes namespace of a scenario: what has the same name or labels there is something else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trafficdist import Cluster


@contextmanager
def namespace_beside(cluster: Cluster) -> Iterator[str]:
    """Create a namespace beside the scenario's own. Yields its name, and deletes it with everything in it."""
    name = f"{cluster.namespace}-beside"
    cluster.backend.booted.create_namespace(name)
    try:
        yield name
    finally:
        cluster.backend.booted.delete_namespace(name)
