"""Nodes."""

from __future__ import annotations

from reference.apiserver.kinds.strategy import Resource, Strategy


class Nodes(Strategy):
    resource = Resource("", "v1", "Node", "nodes", "node", ("no",), namespaced=False, has_status=True)
