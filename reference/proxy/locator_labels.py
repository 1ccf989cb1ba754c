"""The labels of endpoints' nodes by PodLocators, in place of watching all Nodes (KEP-536, Kube-proxy changes).

A proxy then watches one Node, its own. The labels of an endpoint's node are in the PodLocator of the pod that its
`targetRef` names; for an endpoint that names none, the PodLocator is found by its address.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from reference.client import Object
from reference.objects.topology_keys import Labels
from reference.proxy.node_labels import NONE, NodeLabels

Pod = tuple[str, str]
"""The namespace and name of a pod, and of its locator."""


class LocatorLabels(NodeLabels):
    """The labels of a proxy's own Node, and of the nodes of all pods that have a locator. Not thread-safe."""

    def __init__(self, own: str) -> None:
        super().__init__()
        self._own = own
        self._located: dict[Pod, tuple[Labels, tuple[str, ...]]] = {}
        self._pods_at: dict[str, dict[Pod, None]] = {}  # several, where pods share the address of their node

    def receive(self, node: Object, *, deleted: bool = False) -> AbstractSet[str]:
        """Take note of the own Node; of others nothing is to be known."""
        return super().receive(node, deleted=deleted) if node["metadata"]["name"] == self._own else frozenset()

    def receive_locator(self, locator: Object, *, deleted: bool) -> AbstractSet[str]:
        """Take note of a PodLocator. Returns the keys whose values changed for some endpoint."""
        pod = locator["metadata"]["namespace"], locator["metadata"]["name"]
        labels, addresses = before = self._located.pop(pod, (NONE, ()))
        for each in addresses:
            del self._pods_at[each][pod]
        after = (NONE, ()) if deleted else _read(locator)
        if not deleted:
            self._located[pod] = after
            for each in after[1]:
                self._pods_at.setdefault(each, {})[pod] = None
        changed = labels ^ after[0] if addresses == after[1] else labels | after[0]
        return frozenset() if before == after else {key for key, _ in changed}

    def of_endpoint(self, endpoint: Mapping[str, Any]) -> Labels:
        """The labels of the node of an endpoint's pod; none when there is no locator of it."""
        target = endpoint.get("targetRef") or {}
        pod = target.get("namespace", ""), target.get("name", "")
        if target.get("kind") != "Pod" or pod not in self._located:
            pods = self._pods_at.get(endpoint["addresses"][0]) or {}
            return next((self._located[each][0] for each in pods if self._located[each][0]), NONE)
        return self._located[pod][0]


def _read(locator: Object) -> tuple[Labels, tuple[str, ...]]:
    labels = frozenset((locator.get("nodeLabels") or {}).items())
    return labels, tuple(each["ip"] for each in locator.get("ips") or ())
