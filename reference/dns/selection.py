"""Selects the endpoints in the nearest of the places that a Service names (KEP-536), for one client.

The rule itself is the proxy's. But a proxy knows the node of its clients, and a DNS server may not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from reference.objects.topology_keys import Labels, first_match


class Located(Protocol):
    """Something on a node; `labels` are those of the node, none when the node is unknown."""

    @property
    def labels(self) -> Labels: ...


Endpoint = TypeVar("Endpoint", bound=Located)


def select(keys: Sequence[str], client: Labels | None, endpoints: Sequence[Endpoint]) -> Sequence[Endpoint]:
    """The endpoints for a client on a node with these labels, in their order; none may be left.

    A client whose node is unknown (None) gets all; so does each client of a Service without keys.
    """
    if not keys or client is None:
        return endpoints
    return first_match(keys, client, endpoints, lambda each: each.labels)[1]
