"""Every requirement fails for the mutants that it names, and for the right reason.

Failing takes time, since a check waits before it gives up. Here limits are short: what a mutant does wrong it does at
once. Where the machine was too slow for them, and the failure is not the fault's own, limits are normal.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from harness import affinity, becoming, hints, traffic
from harness.errors import InconclusiveError
from harness.mutants import BENIGN, MUTANTS, Mutant
from tests.conformance.trials import SCENARIOS, Trial, time_scaled

SHORT = 0.3  # probes may take 0.27 s
SUBJECT = r"\b[abc][12]\b|\b(service|slices?|endpoints?|answer to|serving of|terminating of|metric|condition) \S"

KILLS = {
    name: sorted(each for each, scenario in SCENARIOS.items() if name in scenario.requirement.kills) for name in MUTANTS
}


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "CONVERGENCE", 1.5)
    monkeypatch.setattr(hints, "CONVERGENCE", 3.0)
    monkeypatch.setattr(affinity, "CONVERGENCE", 1.5)
    monkeypatch.setattr(becoming, "CONVERGENCE", 3.0)


def test_every_requirement_names_a_mutant_that_exists() -> None:
    named = {each: scenario.requirement.kills for each, scenario in SCENARIOS.items()}
    assert {each: kills for each, kills in named.items() if not kills or set(kills) - MUTANTS.keys()} == {}


def test_every_mutant_is_named_by_a_requirement() -> None:
    assert [name for name, killers in KILLS.items() if not killers] == []


def test_mutants_and_benign_variants_have_names_of_their_own() -> None:
    assert not MUTANTS.keys() & BENIGN.keys()
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in (*MUTANTS, *BENIGN))


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_killed(name: str, trial: Callable[[Mutant], Trial]) -> None:
    mutant = MUTANTS[name]
    cluster = trial(mutant)
    failures = {each: _failure(cluster, mutant, each) for each in KILLS[name]}
    assert {each: text for each, text in failures.items() if not _shows(mutant, text)} == {}


def _failure(cluster: Trial, mutant: Mutant, requirement_id: str) -> str:
    with time_scaled(SHORT):
        try:
            text = cluster.failure(requirement_id)
        except InconclusiveError:
            text = "too slow to tell"
    return text if not text or _shows(mutant, text) else cluster.failure(requirement_id)


def _shows(mutant: Mutant, text: str) -> bool:
    """Whether the first line of a failure says what is wrong, and with which client or object."""
    first = text.partition("\n")[0]
    return all(re.search(pattern, first) for pattern in (mutant.symptom, SUBJECT))
