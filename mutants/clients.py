"""A client of an API server that is given to a component instead of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference.client import Client
from reference.endpointslice import EndpointSliceController


class Wrapped:
    """Does what another client does, but for the methods that a class of it has."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def controller_through(wrap: Callable[[Client], Client], **parts: Any) -> Callable[..., EndpointSliceController]:
    """Return a controller that works through another client than it is given."""
    return lambda client, **options: EndpointSliceController(wrap(client), **parts, **options)
