"""Selects the endpoints that topology keys leave for a client (KEP-536), for proxies and DNS servers.

Keys are names of node labels, in order of preference. The first key counts for which some endpoint is on a node with
the same value as the client's node. A key that the client's node does not have matches no endpoint, and an endpoint
whose node is unknown matches no key. `*` matches every endpoint; without it the keys are a hard requirement, and no
endpoint may be left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

ANY = "*"

Labels = frozenset[tuple[str, str]]
"""Labels of a node, as pairs of key and value."""

T = TypeVar("T")


def first_match(
    keys: Sequence[str], mine: Labels, endpoints: Sequence[T], labels: Callable[[T], Labels]
) -> tuple[str, tuple[T, ...]]:
    """Return the first key that endpoints match, and all that match it; "" and none if there is no match.

    `mine` are the labels of the client's node, `labels` returns those of an endpoint's node.
    """
    own = dict(mine)
    for key in keys:
        if key == ANY:
            return key, tuple(endpoints)
        if key in own:
            wanted = key, own[key]
            if chosen := tuple(each for each in endpoints if wanted in labels(each)):
                return key, chosen
    return "", ()
