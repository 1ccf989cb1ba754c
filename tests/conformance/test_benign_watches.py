"""Correct components pass with any delay of single watches, in whatever order the watches deliver changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.model.requirements import Profile
from mutants import Mutant
from mutants.benign_watches import BENIGN as VARIANTS
from tests.conformance import mutant_trials
from tests.conformance.benign_matrix import profiles
from tests.conformance.mutant_trials import SCENARIOS, MutantTrial

pytestmark = pytest.mark.timeout(900)

BENIGN = {each.name: each for each in VARIANTS}
LATE = "ten-seconds-late", "controller-ten-seconds-late"
SHORT = sorted(name for name in BENIGN if name.endswith("-0-1-s-late") or name.startswith("hears-"))
"""These variants pass all requirements on their component."""
LONG = sorted(BENIGN.keys() - {*SHORT, *LATE})
"""These variants pass the requirements on Node changes, and one requirement on each other kind of change."""

OF_NODES = (
    "KEP-4444/node-without-zone-uses-every-endpoint",
    "KEP-4444/relabelled-node-uses-its-new-zone",
    "KEP-4444/zone-names-are-compared-exactly",
    "KEP-2433/hints-that-became-possible-come-with-the-next-change",
    "KEP-2433/addition-that-makes-hints-possible-gives-them",
    "KEP-2433/removal-that-overloads-ends-hints",
    "KEP-2433/one-threshold-for-both",
    "KEP-2433/between-the-thresholds-new-services-get-no-hints",
)
OF_OTHERS = (
    "SERVICE/removed-endpoint-gets-nothing",
    "SERVICE/no-endpoints-are-refused",
    "KEP-2086/policy-changes-on-a-live-service",
    "KEP-4444/zone-loses-and-regains-its-endpoints",
)


def _of(mutant: Mutant) -> list[str]:
    """Return the requirements that the differences of a variant may affect."""
    of = profiles(mutant) - {Profile.CLUSTER}
    return sorted(each for each, scenario in SCENARIOS.items() if scenario.requirement.profile in of)


def _failures(name: str, chosen: list[str], trial: Callable[[Mutant], MutantTrial]) -> dict[str, str]:
    cluster = trial(BENIGN[name])
    return {each: text for each in chosen if (text := cluster.failure(each))}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("name", SHORT)
def test_slightly_delayed_watches_pass_the_whole_profile(
    name: str, part: int, trial: Callable[[Mutant], MutantTrial]
) -> None:
    assert _failures(name, _of(BENIGN[name])[part::4], trial) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_delayed_watch_of_one_resource_passes(name: str, trial: Callable[[Mutant], MutantTrial]) -> None:
    mine = _of(BENIGN[name])
    assert _failures(name, [each for each in (*OF_NODES, *OF_OTHERS) if each in mine], trial) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", LATE)
def test_watch_delayed_by_ten_seconds_is_right(name: str, trial: Callable[[Mutant], MutantTrial]) -> None:
    chosen = {"KEP-4444/zone-loses-and-regains-its-endpoints", "KEP-2433/removal-that-overloads-ends-hints"}
    assert _failures(name, sorted(chosen & set(_of(BENIGN[name]))), trial) == {}


def test_named_requirements_exist() -> None:
    assert {*OF_NODES, *OF_OTHERS} - SCENARIOS.keys() == set()


@pytest.mark.parametrize(
    ("asked", "timed"),
    [
        ("SERVICE/removed-endpoint-gets-nothing", True),
        ("CHANGES/ports-of-slices", True),  # many probes in one window
        # No convergence time is declared for so many simultaneous changes.
        pytest.param("INTERACTIONS/node-port", False, marks=pytest.mark.slow),
    ],
)
def test_delayed_component_fails_only_what_it_declares(
    asked: str, timed: bool, trial: Callable[[Mutant], MutantTrial], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = trial(BENIGN["proxy-hears-of-endpointslices-1-s-late"])
    assert cluster.failure(asked) == ""
    monkeypatch.setattr(mutant_trials, "DECLARED", 0.5)
    assert ("became as expected within the declared 0.5 s" in cluster.failure(asked)) is timed
