"""How far each node's proxy says it is: the Leases that proxies write once hints are in their kernel."""

from __future__ import annotations

from collections.abc import Collection

from reference.client import Event

NAMESPACE = "kube-system"
NAME_PREFIX = "service-proxy-"
ANNOTATION = "trafficdist.dev/programmed-resource-version"


class Acknowledgements:
    """The newest resource version that each node has acknowledged."""

    def __init__(self) -> None:
        self._revisions: dict[str, int] = {}

    def apply(self, event: Event) -> bool:
        """Take in the event of a Lease. Returns whether it says something new."""
        metadata = event.object["metadata"]
        name = metadata["name"]
        if metadata.get("namespace") != NAMESPACE or not name.startswith(NAME_PREFIX):
            return False
        node = name.removeprefix(NAME_PREFIX)
        before = self._revisions.pop(node, None)
        text = str((metadata.get("annotations") or {}).get(ANNOTATION, ""))
        if event.type != "DELETED" and text.isdecimal():
            self._revisions[node] = int(text)
        return self._revisions.get(node) != before

    def missing(self, nodes: Collection[str], revision: int) -> tuple[list[str], list[str]]:
        """Of `nodes` those that have acknowledged less than `revision`, and those that acknowledged nothing ever."""
        said = self._revisions
        behind = [node for node in nodes if said.get(node, revision) < revision]
        return behind, [node for node in nodes if node not in said]
