"""Components that do all rightly, and ask the API server anew for what they are told anyhow."""

from __future__ import annotations

from functools import partial
from typing import Any

from mutants.clients import Wrapped, controller_through
from mutants.mutant import WRITTEN, Mutant
from reference.client import ApiError, Client, Object
from reference.proxy import ServiceProxy
from reference.proxy.state import State


def _get_node(client: Client, name: str) -> None:
    """Get a Node, and make nothing of it."""
    try:
        client.get("nodes", "", name)
    except (ApiError, OSError):
        return


def _is_hinted(endpoint: Object) -> bool:
    return bool(endpoint.get("hints"))


class _GetsNodes(Wrapped):
    """Before it writes hints it gets the Node of each endpoint that has some."""

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        self._get_nodes(obj)
        return self._client.create(resource, namespace, obj)

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        self._get_nodes(obj)
        return self._client.update(resource, namespace, obj)

    def _get_nodes(self, obj: Object) -> None:
        for each in filter(_is_hinted, obj.get("endpoints") or ()):
            _get_node(self._client, each.get("nodeName", ""))


class _GetsItsNode(State):
    """Gets its own Node for each slice that has hints."""

    def __init__(self, node_name: str, *arguments: Any, client: Client, **options: Any) -> None:
        super().__init__(node_name, *arguments, **options)
        self._client, self._own_name = client, node_name

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        super().receive(resource, obj, deleted=deleted)
        if resource == "endpointslices" and any(map(_is_hinted, obj.get("endpoints") or ())):
            _get_node(self._client, self._own_name)


def _gets_its_node(node_name: str, client: Client, **options: Any) -> ServiceProxy:
    return ServiceProxy(node_name, client, state=partial(_GetsItsNode, client=client), **options)


MUTANTS = [
    Mutant(
        "gets-nodes-for-hints",
        "The Node of each endpoint that gets hints is read of the API server whenever they are written.",
        symptom=WRITTEN,
        controller=controller_through(_GetsNodes),
    ),
    Mutant(
        "gets-its-node-for-hints",
        "The node's own Node is read of the API server for each slice with hints.",
        symptom=WRITTEN,
        proxy=_gets_its_node,
    ),
]
