"""The Leases by which the proxy of each node acknowledges the hints that are in its kernel."""

from __future__ import annotations

from collections.abc import Collection

from reference.client import Event
from reference.objects.acknowledgement_lease import node_of, revision_of


class Acknowledgements:
    """The newest resource version that each node has acknowledged."""

    def __init__(self) -> None:
        self._revisions: dict[str, int] = {}

    def apply(self, event: Event) -> bool:
        """Take in the event of a Lease. Returns whether it says something new."""
        node = node_of(event.object)
        if not node:
            return False
        before = self._revisions.pop(node, None)
        now = None if event.type == "DELETED" else revision_of(event.object)
        if now is not None:
            self._revisions[node] = now
        return now != before

    def missing(self, nodes: Collection[str], revision: int) -> tuple[list[str], list[str]]:
        """Of `nodes` those that have acknowledged less than `revision`, and those that acknowledged nothing ever."""
        said = self._revisions
        behind = [node for node in nodes if said.get(node, revision) < revision]
        return behind, [node for node in nodes if node not in said]
