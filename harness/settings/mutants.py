"""Load mutants and benign variants, from entry points `mutants` and `benign` of group `trafficdist.mutants`."""

import functools
from collections.abc import Mapping
from typing import Protocol

from harness.backends.implementation import ReferenceComponents
from harness.model.entry_points import installed

GROUP = "trafficdist.mutants"


class ReferenceVariant(ReferenceComponents, Protocol):
    """A variant of the reference in which one part is faulty (mutant), or unusual but correct (benign variant)."""

    @property
    def name(self) -> str:
        """The name in kebab case."""

    @property
    def sentence(self) -> str:
        """A sentence that describes the fault or the unusual behavior."""

    @property
    def provenance(self) -> str:
        """The real bug that the mutant reproduces, or ""."""

    @property
    def symptom(self) -> str:
        """A regular expression for the first line of a failure that the mutant causes."""

    @property
    def changes(self) -> frozenset[str]:
        """The names of the replaced components, as defined in `ReferenceComponents`."""

    @property
    def lacks(self) -> frozenset[str]:
        """The features of the reference that the variant does not claim."""


def mutants() -> Mapping[str, ReferenceVariant]:
    return {**_of_entry_point("mutants"), **benign_variants()}


def benign_variants() -> Mapping[str, ReferenceVariant]:
    return _of_entry_point("benign")


@functools.cache
def _of_entry_point(name: str) -> Mapping[str, ReferenceVariant]:
    return {key: mutant for each in installed(GROUP, name) for key, mutant in each.load().items()}
