"""The labels of all nodes: where the endpoints of Services with topology keys are (KEP-536, Kube-proxy changes).

An EndpointSlice says on which node an endpoint is and in which zone, but a topology key may be any label: rack, region,
generator. So the labels come from the Nodes. Of each Node only a reference to them is kept; what is compared with is
made for nodes that somebody asks about, so that a cluster without topology keys pays next to nothing.
"""

from __future__ import annotations

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
        self._asked: dict[str, Labels] = {}

    def receive(self, node: Object, *, deleted: bool = False) -> AbstractSet[str]:
        """Take note of a Node. Returns the keys whose values changed; nearly every event of a Node changes none."""
        name = node["metadata"]["name"]
        before = self._known.pop(name, {})
        after: Mapping[str, str] = {} if deleted else node["metadata"].get("labels") or {}
        if not deleted:
            self._known[name] = after
        if before == after:
            return frozenset()
        self._asked.pop(name, None)
        return {key for key, _ in before.items() ^ after.items()}

    def of_node(self, name: str) -> Labels:
        """The labels of a node; none when there is no such Node."""
        found = self._asked.get(name)
        if found is None:
            found = self._asked[name] = frozenset(self._known.get(name, {}).items())
        return found

    def of_endpoint(self, endpoint: Mapping[str, Any]) -> Labels:
        """The labels of the node on which an endpoint of a slice is; none for one that names no node."""
        name = endpoint.get("nodeName")
        return self.of_node(name) if name else NONE
