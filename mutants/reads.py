"""Components that do all rightly, and ask the API server anew for what they are told anyhow."""

from __future__ import annotations

from functools import partial
from typing import Any

from mutants.clients import Wrapped, controller_through
from mutants.mutant import WRITTEN, Mutant
from reference.client import ApiError, Client, Event, Object
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


class _WatchesNamespaces(Wrapped):
    """Begins to watch Namespaces when it first writes hints, and makes nothing of them."""

    _watches = False

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        self._look_at(obj)
        return self._client.create(resource, namespace, obj)

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        self._look_at(obj)
        return self._client.update(resource, namespace, obj)

    def _look_at(self, obj: Object) -> None:
        if not self._watches and any(map(_is_hinted, obj.get("endpoints") or ())):
            self._watches = True
            self._client.subscribe(["namespaces"], _make_nothing)


class _WatchesPods(State):
    """Begins to watch pods with the first slice that has hints, and makes nothing of them."""

    def __init__(self, *arguments: Any, client: Client, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._client, self._watches = client, False

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        super().receive(resource, obj, deleted=deleted)
        if not self._watches and resource == "endpointslices" and any(map(_is_hinted, obj.get("endpoints") or ())):
            self._watches = True
            self._client.subscribe(["pods"], _make_nothing)


def _make_nothing(event: Event) -> None:
    """Take an event, and do nothing."""


def _gets_its_node(node_name: str, client: Client, **options: Any) -> ServiceProxy:
    return ServiceProxy(node_name, client, state=partial(_GetsItsNode, client=client), **options)


def _watches_pods(node_name: str, client: Client, **options: Any) -> ServiceProxy:
    return ServiceProxy(node_name, client, state=partial(_WatchesPods, client=client), **options)


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
    Mutant(
        "watches-namespaces-from-the-first-hint",
        "Namespaces are watched from the first slice on that gets hints.",
        symptom=WRITTEN,
        controller=controller_through(_WatchesNamespaces),
    ),
    Mutant(
        "watches-pods-from-the-first-hint",
        "Pods are watched from the first slice on that has hints.",
        symptom=WRITTEN,
        proxy=_watches_pods,
    ),
]
