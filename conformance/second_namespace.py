"""A second Kubernetes namespace, for scenarios in which objects of two namespaces have the same names and labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trafficdist import Cluster


@contextmanager
def namespace_beside(cluster: Cluster) -> Iterator[str]:
    """Create a second namespace and yield its name. Delete the namespace on exit."""
    name = f"{cluster.namespace}-beside"
    cluster.backend.booted.create_namespace(name)
    try:
        yield name
    finally:
        cluster.backend.booted.delete_namespace(name)
