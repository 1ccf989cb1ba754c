"""The labels of all nodes, for topology keys (KEP-536, Kube-proxy changes): slices have only node names and zones."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from reference.client import Object
from reference.objects.topology_keys import Labels

NONE: Labels = frozenset()


class NodeLabels:
    """The labels of each Node that exists. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, Mapping[str, str]] = {}
        self._sets: dict[str, Labels] = {}

    def receive(self, node: Object, *, deleted: bool = False) -> AbstractSet[str]:
        """Read a Node. Return the label keys whose values changed."""
        name = node["metadata"]["name"]
        before = self._known.pop(name, {})
        after: Mapping[str, str] = {} if deleted else node["metadata"].get("labels") or {}
        if not deleted:
            self._known[name] = after
        if before == after:
            return frozenset()
        self._sets.pop(name, None)
        return {key for key, _ in before.items() ^ after.items()}

    def of_node(self, name: str) -> Labels:
        found = self._sets.get(name)
        if found is None:
            found = self._sets[name] = frozenset(self._known.get(name, {}).items())
        return found

    def of_endpoint(self, endpoint: Mapping[str, Any]) -> Labels:
        """Return the node labels of an endpoint of a slice, or an empty set if the endpoint has no node."""
        name = endpoint.get("nodeName")
        return self.of_node(name) if name else NONE


Pod = tuple[str, str]
"""The namespace and the name of a pod. Its PodLocator has the same namespace and name."""


class PodLocatorLabels(NodeLabels):
    """The labels of a proxy's own Node, and of the nodes of all pods with a PodLocator. Not thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._located: dict[Pod, tuple[Labels, tuple[str, ...]]] = {}
        self._pods_at: dict[str, dict[Pod, None]] = {}  # host-network pods share the address of their node

    def receive_locator(self, locator: Object, *, deleted: bool) -> AbstractSet[str]:
        """Read a PodLocator. Return the label keys whose values changed for some endpoint."""
        pod = locator["metadata"]["namespace"], locator["metadata"]["name"]
        labels, addresses = before = self._located.pop(pod, (NONE, ()))
        for each in addresses:
            del self._pods_at[each][pod]
        read: Object = {} if deleted else locator
        after = frozenset((read.get("nodeLabels") or {}).items()), tuple(each["ip"] for each in read.get("ips") or ())
        if not deleted:
            self._located[pod] = after
            for each in after[1]:
                self._pods_at.setdefault(each, {})[pod] = None
        changed = labels ^ after[0] if addresses == after[1] else labels | after[0]
        return frozenset() if before == after else {key for key, _ in changed}

    def of_endpoint(self, endpoint: Mapping[str, Any]) -> Labels:
        """Return an endpoint's node labels, from the PodLocator of its targetRef, or else of its address."""
        target = endpoint.get("targetRef") or {}
        pod = target.get("namespace", ""), target.get("name", "")
        if target.get("kind") != "Pod" or pod not in self._located:
            pods = self._pods_at.get(endpoint["addresses"][0]) or {}
            return next((self._located[each][0] for each in pods if self._located[each][0]), NONE)
        return self._located[pod][0]
