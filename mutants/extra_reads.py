"""Components that work correctly, but read more from the API server than necessary because of hints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mutants.client_wrappers import ClientWrapper, ProxyOfAllNodes, controller_through
from mutants.mutant import WRITTEN, Mutant
from reference.client import ApiError, Client, Event, Object
from reference.proxy import ServiceProxy
from reference.proxy.state import State


def _get_node(client: Client, name: str) -> None:
    """Get a Node, and ignore it."""
    try:
        client.get("nodes", "", name)
    except (ApiError, OSError):
        return


def _make_nothing(event: Event) -> None:
    """Ignore an event."""


def _hinted(obj: Object) -> list[Object]:
    """Return the endpoints with hints if the object is a slice, or an empty list."""
    return [each for each in obj.get("endpoints") or () if each.get("hints")]


class _ReadsBeforeWritingHints(ClientWrapper):
    """Makes an additional read before it writes an object with hints."""

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        self._read(_hinted(obj))
        return self._client.create(resource, namespace, obj)

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        self._read(_hinted(obj))
        return self._client.update(resource, namespace, obj)

    def _read(self, hinted: Sequence[Object]) -> None:
        raise NotImplementedError


class _GetsNodes(_ReadsBeforeWritingHints):
    """Reads the Node of each endpoint with hints before it writes these hints."""

    def _read(self, hinted: Sequence[Object]) -> None:
        for each in hinted:
            _get_node(self._client, each.get("nodeName", ""))


class _WatchesNamespaces(_ReadsBeforeWritingHints):
    """Starts watching Namespaces when it first writes hints, and ignores the events."""

    _watches = False

    def _read(self, hinted: Sequence[Object]) -> None:
        if hinted and not self._watches:
            self._watches = True
            self._client.subscribe(["namespaces"], _make_nothing)


class _ReadsWithHints(State):
    """Makes an additional read for each slice that has hints."""

    def __init__(self, node_name: str, *arguments: Any, client: Client, **options: Any) -> None:
        super().__init__(node_name, *arguments, **options)
        self._client, self._own_name, self._watches = client, node_name, False

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        super().receive(resource, obj, deleted=deleted)
        if resource == "endpointslices" and _hinted(obj):
            self._read()

    def _read(self) -> None:
        raise NotImplementedError


class _GetsOwnNode(_ReadsWithHints):
    """Gets its own Node for each slice that has hints."""

    def _read(self) -> None:
        _get_node(self._client, self._own_name)


class _WatchesPods(_ReadsWithHints):
    """Starts watching pods when it receives the first slice with hints, and ignores the events."""

    def _read(self) -> None:
        if not self._watches:
            self._watches = True
            self._client.subscribe(["pods"], _make_nothing)


def _proxy_with(state: Callable[..., State]) -> Callable[..., ServiceProxy]:
    """Return a proxy whose state also has a client of the API server."""
    return lambda node, client, **options: ServiceProxy(node, client, state=partial(state, client=client), **options)


MUTANTS = [
    Mutant(
        "gets-nodes-for-hints",
        "The controller reads the Node of each hinted endpoint from the API server for every write.",
        symptom=WRITTEN,
        controller=controller_through(_GetsNodes),
    ),
    Mutant(
        "gets-its-node-for-hints",
        "The proxy reads its Node from the API server for each slice with hints.",
        symptom=WRITTEN,
        proxy=_proxy_with(_GetsOwnNode),
    ),
    Mutant(
        "watches-namespaces-from-the-first-hint",
        "The controller watches Namespaces after it has written the first hint.",
        symptom=WRITTEN,
        controller=controller_through(_WatchesNamespaces),
    ),
    Mutant(
        "watches-all-nodes",
        "The proxy watches all Nodes, and not only its own.",
        symptom=WRITTEN,
        proxy=ProxyOfAllNodes,
    ),
    Mutant(
        "watches-pods-from-the-first-hint",
        "The proxy watches Pods after it has received the first hint.",
        symptom=WRITTEN,
        proxy=_proxy_with(_WatchesPods),
    ),
]
