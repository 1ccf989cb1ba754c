"""Releases with and without node-level topology, and pods that look like those of a DaemonSet.

1.32 is the last release without the node hints of the later KEP version, so in 1.32 only the NodeLevelTopology gate
matters. A cluster with garbage collection removes pods whose owner does not exist, so it needs real DaemonSets.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from trafficdist import (
    Cluster,
    Hints,
    Pod,
    Release,
    Service,
    expect_hints,
    release,
)

VERSION = "1.32"
ON, OFF = release(VERSION, NodeLevelTopology=True), release(VERSION, NodeLevelTopology=False)
BEFORE = release("1.31")  # this release lacks the feature

KEY = "service.kubernetes.io/topology-mode"
ASKED = {KEY: "Node"}
WEB = {"app": "web"}


def choosing(approach: str) -> Release:
    """Return a release with the NodeLevelTopology gate enabled. `approach` is how its controller selects Services."""
    return release(VERSION, node_level=approach, NodeLevelTopology=True)


def adopt(cluster: Cluster, pods: Iterable[str], daemon_set: str = "dns") -> None:
    """Make a DaemonSet the owner of these pods."""
    uid = str(uuid.uuid5(uuid.NAMESPACE_DNS, daemon_set))
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemon_set, "uid": uid, "controller": True}
    for name in pods:
        cluster.api.patch("pods", cluster.namespace, name, {"metadata": {"ownerReferences": [owner]}})


def create_pods(cluster: Cluster, *nodes: str) -> None:
    """Create a pod on each of these nodes, named after the node. The pods exist only in the API."""
    for node in nodes:
        cluster.create_pod(node, node, labels=WEB)


def expect_node_hints(cluster: Cluster, service: Service, *pods: str | Pod, hinted: bool = True) -> None:
    """Expect exactly these pods as endpoints, each with only a hint for its own node, or all without hints."""
    wanted = {}
    for pod in pods:
        name, node = (pod, pod) if isinstance(pod, str) else (pod.name, pod.node)
        wanted[name] = Hints(nodes=(node,)) if hinted else None
    expect_hints(cluster, service, wanted)
