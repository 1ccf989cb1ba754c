"""Loads mutants and benign variants.

A package registers them by an entry point of group `trafficdist.mutants`, called `mutants` or `benign`: a mapping from
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
    """The reference with one part replaced by a faulty, or by an unusual but correct one."""

    @property
    def name(self) -> str:
        """Its name in kebab case."""

    @property
    def sentence(self) -> str:
        """A sentence about its fault, or about its unusual behaviour."""

    @property
    def provenance(self) -> str:
        """The real bug that it reproduces, or ""."""

    @property
    def symptom(self) -> str:
        """A pattern for the first line of a failure caused by it."""

    @property
    def changes(self) -> frozenset[str]:
        """The names of the replaced components, as in `Parts`."""

    @property
    def lacks(self) -> frozenset[str]:
        """The features of the reference that it does not claim."""


def mutants() -> Mapping[str, Mutant]:
    """Return all mutants and benign variants by name."""
    return {**_of_entry_point("mutants"), **benign_variants()}


def benign_variants() -> Mapping[str, Mutant]:
    """Return the benign variants by name."""
    return _of_entry_point("benign")


@functools.cache
def _of_entry_point(name: str) -> Mapping[str, Mutant]:
    return {key: mutant for each in installed(GROUP, name) for key, mutant in each.load().items()}
