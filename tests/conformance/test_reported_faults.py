"""Faults from public reports that no requirement noticed at first: each is a mutant now, and a requirement names it."""

from __future__ import annotations

import pytest

from mutants import MUTANTS
from tests.conformance.mutant_trials import SCENARIOS

REPORTED = {
    "a UDP flow of a deleted Service": (
        "leaves-udp-flows-of-deleted-services",
        "SERVICE/udp-flows-end-with-their-service",
    ),
    "a UDP flow of an emptied Service": (
        "leaves-udp-flows-of-emptied-services",
        "SERVICE/udp-flows-end-with-the-last-endpoint",
    ),
    "a pod that failed and reports that it is ready": ("keeps-failed-pods", "SLICE/ended-pods-are-no-endpoints"),
    "an endpoint with affinity that is no longer ready": (
        "affinity-outlives-readiness",
        "AFFINITY/leaves-with-its-endpoint",
    ),
}


@pytest.mark.parametrize(("mutant", "requirement"), REPORTED.values(), ids=REPORTED)
def test_reported_fault_is_a_mutant_that_a_requirement_names(mutant: str, requirement: str) -> None:
    assert mutant in MUTANTS
    assert mutant in SCENARIOS[requirement].requirement.kills
