"""Proxies that choose among several endpoints with one address by their order or their node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from mutants.mutant import NO_ANSWER, REACHED, REFUSED, Mutant
from reference.proxy import ServiceProxy
from reference.proxy.decision import Decision, Endpoint, OwnNode, ServicePort, decide
from reference.proxy.state import State

MUTANTS: list[Mutant] = []

Wins = Callable[[Endpoint, str], bool]
"""Whether an endpoint replaces an earlier one with the same address. The second argument is the proxy's node."""


def _register(name: str, sentence: str, wins: Wins, provenance: str = "") -> None:
    def among(port: ServicePort, endpoints: Iterable[Endpoint], place: OwnNode, *behaviour: Any) -> Decision:
        found: dict[tuple[str, int], Endpoint] = {}
        for each in endpoints:
            if each[:2] not in found or wins(each, place.node):
                found[each[:2]] = each
        return decide(port, found.values(), place, *behaviour)

    state = partial(State, decide=among)
    MUTANTS.append(
        Mutant(
            name,
            sentence,
            provenance,
            f"{REACHED}|{REFUSED}|{NO_ANSWER}",
            proxy=partial(ServiceProxy, state=state),
        )
    )


_register(
    "first-endpoint-of-an-address-counts",
    "If two endpoints have the same address and port, the first counts, ready or not.",
    lambda each, node: False,
)
_register(
    "last-endpoint-of-an-address-counts",
    "If two endpoints have the same address and port, the last counts, ready or not.",
    lambda each, node: True,
)
_register(
    "local-endpoint-of-an-address-counts",
    "If two endpoints have the same address and port, the one on the proxy's node counts, otherwise the first.",
    lambda each, node: each.node == node,
    "kubernetes#135266",
)
