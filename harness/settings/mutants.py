"""The mutants and benign variants that are installed beside the harness, which knows none of them by itself.

A package offers them by an entry point of group `trafficdist.mutants`, called `mutants` or `benign`: a mapping from
names to mutants.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Protocol

from harness.backends.implementation import Parts
from harness.model.entry_points import installed

GROUP = "trafficdist.mutants"


class Mutant(Parts, Protocol):
    """The reference with one part replaced: by one with a fault, or by one that is odd but right."""

    @property
    def name(self) -> str:
        """Its name in kebab case."""

    @property
    def sentence(self) -> str:
        """A sentence about its fault, or its oddity."""

    @property
    def provenance(self) -> str:
        """The real bug that it repeats, or ""."""

    @property
    def symptom(self) -> str:
        """A pattern for the first line of a failure that it causes."""

    @property
    def changes(self) -> frozenset[str]:
        """The names of the components, as in `Parts`, that are not the reference's own."""

    @property
    def lacks(self) -> frozenset[str]:
        """The names of features that it does not claim, though the reference does."""


def mutants() -> Mapping[str, Mutant]:
    """Return all mutants and benign variants by name."""
    return {**_of_entry_point("mutants"), **benign_variants()}


def benign_variants() -> Mapping[str, Mutant]:
    """Return the benign variants by name."""
    return _of_entry_point("benign")


@functools.cache
def _of_entry_point(name: str) -> Mapping[str, Mutant]:
    return {key: mutant for each in installed(GROUP, name) for key, mutant in each.load().items()}
