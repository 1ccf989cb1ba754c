"""API clients that replace the client of a component."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from reference.client import Client, Event, Subscription
from reference.endpointslice import EndpointSliceController
from reference.proxy import ServiceProxy

Sink = Callable[[Event], None]
Filter = Callable[[Sink], Sink]
"""Returns the sink for one subscription. The argument is the sink that receives the filtered events."""


class ClientWrapper:
    """Delegates to another client, except for overridden methods."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class FilteringClient(ClientWrapper):
    """A client with a filter on each subscription."""

    def __init__(self, client: Client, through: Filter) -> None:
        super().__init__(client)
        self._through = through

    def subscribe(self, resources: Collection[str], sink: Sink) -> Subscription:
        return self._client.subscribe(resources, self._through(sink))


def controller_through(wrap: Callable[[Client], Client], **parts: Any) -> Callable[..., EndpointSliceController]:
    """Return a controller that uses a wrapped client."""
    return lambda client, **options: EndpointSliceController(wrap(client), **parts, **options)


def rewriting(rewrite: Callable[[Event], Event]) -> Filter:
    """Return a filter that calls a function for each event and delivers its result."""
    return lambda sink: lambda event: sink(rewrite(event))


def controller_hearing(through: Filter, **parts: Any) -> Callable[..., EndpointSliceController]:
    """Return a controller that receives filtered events."""
    return controller_through(partial(FilteringClient, through=through), **parts)


class ProxyOfAllNodes(ServiceProxy):
    """A proxy that watches all Nodes, and not only its own."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._resources = tuple(each.partition("/")[0] for each in self._resources)


def proxy_hearing(through: Filter, proxy: Callable[..., ServiceProxy] = ServiceProxy) -> Callable[..., ServiceProxy]:
    """Return a proxy that receives filtered events."""
    return lambda node, client, **options: proxy(node, FilteringClient(client, through), **options)
