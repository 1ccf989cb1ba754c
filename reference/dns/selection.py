"""Which endpoints a client is told of: those in the nearest of the places that the Service names (KEP-536).

A function over values, so that it can be held against a table and against what the proxy decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

EVERYWHERE = "*"
"""As a topology key: all nodes are near."""

Labels = Mapping[str, str]


class Located(Protocol):
    """Something on a node; `labels` are those of the node, none when nobody knows where it is."""

    @property
    def labels(self) -> Labels: ...


Endpoint = TypeVar("Endpoint", bound=Located)


def select(keys: Sequence[str], client: Labels | None, endpoints: Sequence[Endpoint]) -> Sequence[Endpoint]:
    """The endpoints for a client on a node with these labels, in their order.

    The first key decides for which some endpoint is on a node with the client's own value. None may be left: a Service
    whose keys do not end with "*" would rather fail. A client whose node nobody knows (None) is told of all; so is each
    client of a Service without keys.
    """
    if not keys or client is None:
        return endpoints
    for key in keys:
        if key == EVERYWHERE:
            return endpoints
        value = client.get(key)
        near = [each for each in endpoints if value is not None and each.labels.get(key) == value]
        if near:
            return near
    return ()
