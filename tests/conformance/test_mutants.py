"""Each requirement fails for every mutant in its `kills`, with the expected symptom.

A failing check waits until its time limit. Limits are short here, because the faults of mutants are visible
immediately. If a mutant survives or the requirement fails for another reason, the machine may have been too slow. The
test then repeats the requirement with normal limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import pytest

from harness import eventually
from harness.errors import InconclusiveError
from harness.eventually import NotYetError
from harness.judging.conclusion import UnmetError
from harness.judging.verdict import Judgement, Verdict
from harness.model.requirements import Profile
from harness.variation.axes import parse_draw
from mutants import BENIGN, MUTANTS, Mutant
from mutants.mutant import WRITTEN
from tests.conformance import kill_checks, mutant_trials
from tests.conformance.kill_checks import is_about
from tests.conformance.mutant_trials import SCENARIOS, MutantTrial, time_scaled
from tests.conformance.requirement_durations import seconds


def _killers(name: str, *, of_cluster: bool) -> list[str]:
    """Return the requirements whose `kills` list a mutant: those of the whole cluster, or those of one component."""
    return sorted(
        each
        for each, scenario in SCENARIOS.items()
        if name in scenario.requirement.kills and (scenario.requirement.profile is Profile.CLUSTER) is of_cluster
    )


ALONE = {name: killers for name in MUTANTS if (killers := _killers(name, of_cluster=False))}
"""Maps mutants to requirements on one component, which take seconds each."""

AT_ONCE = 2

SECONDS = seconds()
DEAR = 3.0
"""Slow requirements, which take at least this many seconds, run with only one mutant except in nightly runs."""


TABLES = (
    "conformance.interactions.test_grid",
    "conformance.interactions.test_live_changes",
    "conformance.generated.test_generated",
)
"""Modules whose requirements share one function and differ only in the rows of a table.

test_grid.py and test_live_changes.py check without a cluster that the rows cover every combination.
"""


def _rows(table: str) -> list[str]:
    """Return the slow requirements of a table, the fastest first."""
    return sorted(
        (each for each in SCENARIOS if _is_row(each, table) and SECONDS[each] >= DEAR), key=SECONDS.__getitem__
    )


def _is_row(requirement: str, table: str) -> bool:
    return SCENARIOS[requirement].test.__module__ == table


BY_NIGHT = {each for table in TABLES for each in _rows(table)[1:]}
"""Slow requirements for nightly runs. One of each table always runs, as a test of the shared function."""


def _some(pairs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return at most `AT_ONCE` requirements for each mutant. Prefer requirements that no earlier mutant uses.

    A mutant has no requirement if all its requirements are slow and are used by other mutants or by nightly runs.
    """
    given: set[str] = set(BY_NIGHT)
    chosen = {}
    for name, killers in pairs.items():
        new = [each for each in killers if each not in given][:AT_ONCE]
        chosen[name] = new or [each for each in killers if SECONDS[each] < DEAR][:1]
        given.update(new)
    return {name: killers for name, killers in chosen.items() if killers}


SOME = _some(ALONE)
"""The pairs of mutant and requirement that run on each change. The other pairs run nightly."""

REST = {name: rest for name in ALONE if (rest := [each for each in ALONE[name] if each not in SOME.get(name, ())])}

TOGETHER = {name: killers for name in MUTANTS if (killers := _killers(name, of_cluster=True))}
"""Maps mutants to requirements on all components together, which are slower due to restarts and steady traffic."""


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutant_trials, "DECLARED", kill_checks.DECLARED)
    monkeypatch.setattr(eventually, "FAR", kill_checks.FAR)


def test_every_requirement_names_a_mutant_that_exists() -> None:
    named = {each: scenario.requirement.kills for each, scenario in SCENARIOS.items()}
    assert {each: kills for each, kills in named.items() if not kills or set(kills) - MUTANTS.keys()} == {}


ONCE_UNNOTICED = {
    "leaves-udp-flows-of-deleted-services": "SERVICE/udp-flows-end-with-their-service",
    "leaves-udp-flows-of-emptied-services": "SERVICE/udp-flows-end-with-the-last-endpoint",
    "keeps-failed-pods": "SLICE/ended-pods-are-no-endpoints",
    "affinity-outlives-readiness": "AFFINITY/leaves-with-its-endpoint",
}
"""Faults from reports that no requirement noticed, with the requirement that now does."""


def test_a_fault_that_once_nothing_noticed_is_killed_by_its_requirement() -> None:
    kills = {name: SCENARIOS[requirement].requirement.kills for name, requirement in ONCE_UNNOTICED.items()}
    assert [name for name in ONCE_UNNOTICED if name not in kills[name]] == []


def test_every_mutant_is_named_by_a_requirement() -> None:
    assert MUTANTS.keys() - ALONE.keys() - TOGETHER.keys() == set()


def test_each_pair_runs_nightly_or_on_each_change() -> None:
    assert {name: sorted(SOME.get(name, []) + REST.get(name, [])) for name in ALONE} == ALONE


def test_nightly_mutants_leave_each_expensive_requirement_covered_on_each_change() -> None:
    given = {each for killers in SOME.values() for each in killers} | BY_NIGHT
    left = {each for name in ALONE.keys() - SOME.keys() for each in ALONE[name]}
    assert left <= given
    assert min(SECONDS[each] for each in left) >= DEAR


@pytest.mark.parametrize("table", TABLES)
def test_each_table_has_a_requirement_that_runs_on_each_change(table: str) -> None:
    tried = [each for killers in SOME.values() for each in killers if _is_row(each, table)]
    assert tried
    assert len(_rows(table)) > 1


def test_names_of_mutants_and_benign_variants_are_unique() -> None:
    assert not MUTANTS.keys() & BENIGN.keys()
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in (*MUTANTS, *BENIGN))


def test_drawn_values_of_mutants_exist() -> None:
    drawn = {name: each.draw for name, each in MUTANTS.items() if each.draw}
    assert {name: str(parse_draw(draw)) for name, draw in drawn.items()} == drawn


@pytest.mark.parametrize("name", SOME)
def test_mutant_is_killed(name: str, trial: Callable[[Mutant], MutantTrial]) -> None:
    assert _survived(name, SOME[name], trial) == {}


@pytest.mark.slow
@pytest.mark.timeout(600)  # forty requirements that wait for clients without answers
@pytest.mark.parametrize("name", REST)
def test_mutant_is_killed_by_every_requirement_that_names_it(name: str, trial: Callable[[Mutant], MutantTrial]) -> None:
    assert _survived(name, REST[name], trial) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", TOGETHER)
def test_mutant_is_killed_by_the_cluster_as_a_whole(name: str, trial: Callable[[Mutant], MutantTrial]) -> None:
    assert _survived(name, TOGETHER[name], trial) == {}


def _survived(name: str, killers: Sequence[str], trial: Callable[[Mutant], MutantTrial]) -> dict[str, str]:
    """Return the requirements that did not kill a mutant, or that failed for another reason, with their texts."""
    mutant = MUTANTS[name]
    cluster = trial(mutant)
    failures = {each: _failure(cluster, mutant, each) for each in killers}
    return {each: text for each, text in failures.items() if not is_about(text, mutant.symptom)}


def _failure(cluster: MutantTrial, mutant: Mutant, requirement_id: str) -> str:
    with time_scaled(kill_checks.SHORT):
        try:
            text = cluster.failure(requirement_id)
        except (InconclusiveError, AssertionError):
            text = "too slow to tell"
    return text if is_about(text, mutant.symptom) else cluster.failure(requirement_id)


class _FailingTrial(MutantTrial):
    """A fake trial in which every requirement raises this error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def run(self, requirement_id: str, reading: str = "kep") -> None:
        raise self._error


def _unmet(text: str) -> MutantTrial:
    return _FailingTrial(UnmetError(Judgement(Verdict.FAILED, text), text))


@pytest.mark.parametrize(
    "text",
    [
        "wrong first answer: expected none, observed a1 got no answer",
        "wrong answer by TCP to the cluster-ip of service web-1: expected none, observed a1 reached b1",
        "connection of a1 to service web-1: expected Reached, observed TimedOut",
        "server of the new connection of a1: expected b1, observed TimedOut",
        "traffic of service web-1 became as expected within the declared 2 s: expected True, observed False",
    ],
)
def test_failing_preliminaries_kill_no_mutant(text: str) -> None:
    assert not is_about(_unmet(text).failure("any"), WRITTEN)


def test_a_judgement_on_the_fault_kills() -> None:
    text = "ready, serving, terminating of p1: expected [true], observed [false]"
    assert is_about(_unmet(text).failure("any"), WRITTEN)


def test_assertion_without_a_judgement_kills_no_mutant() -> None:
    with pytest.raises(NotYetError):
        _FailingTrial(NotYetError("waited 5 s for pod a1 to be ready: expected ready, observed not ready")).failure(
            "any"
        )
