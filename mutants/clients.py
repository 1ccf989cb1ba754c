"""A client of an API server that is given to a component instead of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from reference.client import Client, Event, Subscription
from reference.endpointslice import EndpointSliceController
from reference.proxy import ServiceProxy

Sink = Callable[[Event], None]
Filter = Callable[[Sink], Sink]
"""Returns what takes the events of one subscription, given what takes those that are handed on."""


class Wrapped:
    """Does what another client does, but for the methods that a class of it has."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class Filtering(Wrapped):
    """A client each of whose subscriptions goes through a filter of its own."""

    def __init__(self, client: Client, through: Filter) -> None:
        super().__init__(client)
        self._through = through

    def subscribe(self, resources: Collection[str], sink: Sink) -> Subscription:
        return self._client.subscribe(resources, self._through(sink))


def controller_through(wrap: Callable[[Client], Client], **parts: Any) -> Callable[..., EndpointSliceController]:
    """Return a controller that works through another client than it is given."""
    return lambda client, **options: EndpointSliceController(wrap(client), **parts, **options)


def rewriting(rewrite: Callable[[Event], Event]) -> Filter:
    """Return a filter that hands on what a function makes of each event."""
    return lambda sink: lambda event: sink(rewrite(event))


def controller_hearing(through: Filter, **parts: Any) -> Callable[..., EndpointSliceController]:
    """Return a controller that hears what comes through a filter."""
    return controller_through(partial(Filtering, through=through), **parts)


def proxy_hearing(through: Filter) -> Callable[..., ServiceProxy]:
    """Return a proxy that hears what comes through a filter."""
    return lambda node, client, **options: ServiceProxy(node, Filtering(client, through), **options)
