"""Selects the endpoints that topology keys leave for a client: the rule of KEP-536, for proxies and DNS servers.

Keys are names of node labels, in order of preference. The first key decides for which some endpoint is on a node that
has the same value as the client's node. A key that the client's node does not carry matches no endpoint, and an
endpoint whose node is not known matches no key. `*` matches every endpoint; without it the keys are a hard
requirement, and nothing may be left.
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
    """Return the first key that endpoints match, and all that match it; "" and no endpoint when there is none.

    `mine` are the labels of the client's node, `labels` gives those of an endpoint's node.
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
