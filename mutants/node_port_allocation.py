"""API servers that allocate node ports wrongly."""

from __future__ import annotations

from typing import Any

from mutants.mutant import WRITTEN, Mutant
from reference.apiserver import ApiServer
from reference.apiserver.pools import FIRST_NODE_PORT, LAST_NODE_PORT, NumberPool, band

MUTANTS: list[Mutant] = []

UPPER = FIRST_NODE_PORT + band(LAST_NODE_PORT - FIRST_NODE_PORT + 1, 32, 128)


class _NodePortPool(NumberPool):
    start = UPPER

    def __init__(self) -> None:
        super().__init__(FIRST_NODE_PORT, LAST_NODE_PORT)

    def take_any(self) -> int:
        """Take the lowest free number, so that the fault shows however much a cluster has allocated before."""
        return next(number for number in range(self.start, self.last + 1) if NumberPool.take(self, number))


def _register(name: str, sentence: str, pool: type[_NodePortPool], provenance: str = "") -> None:
    def api_server(*arguments: Any, **options: Any) -> ApiServer:
        made = ApiServer(*arguments, **options)
        if options.get("predecessor") is None:
            made.registry.pools.ports = pool()
        return made

    MUTANTS.append(Mutant(name, sentence, provenance, WRITTEN, api_server=api_server))


class _AllocatesFromWholeRange(_NodePortPool):
    start = FIRST_NODE_PORT


class _ReservesSixteenPorts(_NodePortPool):
    start = FIRST_NODE_PORT + 16


class _RejectsLowerBand(_NodePortPool):
    def take(self, number: int) -> bool:
        return number >= UPPER and super().take(number)


class _AllocatesTwice(_NodePortPool):
    def take(self, number: int) -> bool:
        return super().take(number) or True


class _AcceptsAnyNodePort(_NodePortPool):
    def __contains__(self, number: int) -> bool:
        return True


_register(
    "allocates-in-the-band-of-node-ports",
    "The API server also allocates node ports from the band that it should reserve.",
    _AllocatesFromWholeRange,
    "kube-apiserver before 1.28",
)
_register(
    "band-of-sixteen-node-ports",
    "The API server reserves only the first 16 node ports for Services that request them.",
    _ReservesSixteenPorts,
)
_register(
    "closes-the-band-of-node-ports", "The API server rejects node ports from the reserved band.", _RejectsLowerBand
)
_register(
    "gives-node-ports-twice", "The API server accepts node ports that other Services already have.", _AllocatesTwice
)
_register("gives-node-ports-of-any-number", "The API server accepts node ports outside the range.", _AcceptsAnyNodePort)
