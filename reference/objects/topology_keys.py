"""Selects the endpoints that topology keys (KEP-536) allow a client to use, for proxies and DNS servers.

Keys are names of node labels, in order of preference. The first key that matches any endpoint is used. An endpoint
matches a key if its node and the client's node have equal values for the key. A key that the client's node lacks
matches no endpoint, and an endpoint whose node is unknown matches no key. `*` matches every endpoint. Without `*` the
keys are a hard requirement, so the result may be empty.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

ANY = "*"

Labels = frozenset[tuple[str, str]]

T = TypeVar("T")


def first_match(
    keys: Sequence[str], mine: Labels, endpoints: Sequence[T], labels: Callable[[T], Labels]
) -> tuple[str, tuple[T, ...]]:
    """Return the first key that matches and its endpoints, or "" and (). `mine` are the labels of the client's node."""
    own = dict(mine)
    for key in keys:
        if key == ANY:
            return key, tuple(endpoints)
        if key in own:
            wanted = key, own[key]
            if chosen := tuple(each for each in endpoints if wanted in labels(each)):
                return key, chosen
    return "", ()
