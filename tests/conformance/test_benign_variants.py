"""Benign variants pass their requirements. Components that do nothing fail every requirement."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.errors import InconclusiveError
from harness.judging.statistics import allowed_set
from harness.model.requirements import MUST
from harness.run.plan import check_ids, matches
from mutants import BENIGN, MUTANTS, Mutant
from reference.client import Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.plan import SlicePlan, plan_service
from reference.proxy.balancing_chains import action_chain
from reference.proxy.base_rules import fixed_chains
from reference.proxy.ruleset import LOCAL_LIST
from reference.proxy.state import FAMILIES
from tests.conformance.benign_matrix import READINGS, TRIED, claimed, is_late, sample
from tests.conformance.benign_results import ROOT, RequirementResult, VariantResults, folder, summary
from tests.conformance.mutant_trials import SCENARIOS, MutantTrial, fewer_probes, time_scaled

SILENT = (
    "KEP-4444/no-hints-use-every-endpoint",
    "KEP-2086/local-without-endpoints-drops",
    "KEP-2086/local-without-endpoints-does-not-fall-back",
    "SERVICE/external-local-without-endpoints-drops",
    "SERVICE/no-endpoints-are-refused",
    "SERVICE/deleted-service-gives-no-answer",
    "SERVICE/udp-flow-leaves-a-removed-endpoint",
    "KEP-1669/established-connections-outlive-the-choice",
)
"""Requirements that mostly expect a timeout or a rejection. A proxy that does nothing might pass them."""


def _patience(variant: Mutant, requirement: str) -> float:
    """Return the time scale for a requirement.

    The scale is short if the requirement should fail and the variant delays nothing.
    """
    return 0.2 if requirement in variant.unmet and not is_late(variant.name) else 1


def _expect_met(variant: Mutant, cluster: MutantTrial, requirements: Iterable[str]) -> None:
    """Expect that a variant fails the requirements that it declares as unmet, and no others."""
    failures = {}
    for each in sorted(requirements):
        with time_scaled(_patience(variant, each)):
            if text := cluster.failure(each):
                failures[each] = text
    assert failures.keys() == variant.unmet.intersection(requirements), failures


TWINS = {
    "seeds-of-its-own": "hashes-the-source",
    "slices-of-a-thousand": "slices-of-two-hundred",
    "refuses-by-admin-prohibited": "refuses-by-host-unreachable",
}
"""Maps variants to similar variants that differ only in a number and run against the same requirements."""

LONG = {"keeps-flows", "translates-at-the-client"}
BY_NIGHT = [name for name in BENIGN if is_late(name) or name in LONG or name in TWINS]
"""Variants for nightly runs: delayed ones, which take minutes, two other slow ones, and similar ones."""
BY_DAY = [name for name in BENIGN if name not in BY_NIGHT]


CHOSEN = os.environ.get("BENIGN_ID", "*").split()
"""Patterns of the requirements to run against all variants."""

AT_ONCE = 30  # a variant with a delay of ten seconds needs hours for all requirements

EDITS = {
    name: each.proxy.keywords["kernel_table"].keywords["edit"]
    for name, each in BENIGN.items()
    if isinstance(each.proxy, partial) and isinstance(each.proxy.keywords.get("kernel_table"), partial)
}


MINUTES = (pytest.mark.slow, pytest.mark.timeout(600))


@pytest.mark.parametrize("name", [*BY_DAY, *(pytest.param(each, marks=MINUTES) for each in BY_NIGHT)])
def test_variant_passes_the_requirements_it_affects_most(name: str, trial: Callable[[Mutant], MutantTrial]) -> None:
    _expect_met(BENIGN[name], trial(BENIGN[name]), sample(name))


@pytest.mark.slow
@pytest.mark.hours
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize(
    ("name", "reading", "first"), [(*each, first) for each in TRIED for first in range(0, len(TRIED[each]), AT_ONCE)]
)
def test_variant_passes_everything_it_claims(
    name: str, reading: str, first: int, trial: Callable[[Mutant], MutantTrial]
) -> None:
    """Skip requirements that have results for the same code.

    Each worker boots a variant once for `AT_ONCE` requirements.
    """
    variant, asked = BENIGN[name], _chosen(TRIED[name, reading][first : first + AT_ONCE])
    seen = VariantResults(folder(), name, reading)
    cluster: MutantTrial | None = None
    for each in seen.left(asked):
        cluster = cluster or trial(variant)
        with fewer_probes(), time_scaled(_patience(variant, each)):
            outcome = cluster.outcome(each, reading)
        seen.note(outcome)
        if outcome.verdict == "inconclusive":
            cluster = None  # the cluster may have caused an inconclusive result
    failures = seen.texts("failed", asked)
    assert failures.keys() == variant.unmet.intersection(asked), failures
    assert seen.texts("inconclusive", asked) == {}


def _chosen(requirements: Iterable[str]) -> list[str]:
    check_ids(CHOSEN, [each.requirement.id for each in SCENARIOS.values()], "ID: ")
    return [each for each in requirements if matches(each, CHOSEN)]


def test_daily_twin_is_tried_with_the_requirements_of_its_nightly_twin() -> None:
    assert {name: sample(each) for name, each in TWINS.items()} == {name: sample(name) for name in TWINS}
    assert {*TWINS.values()} <= {*BY_DAY}


def test_every_chain_edit_changes_some_chains() -> None:
    for family in FAMILIES:
        chains = [*fixed_chains(family), *(action_chain(family, each) for each in (2, 2 | LOCAL_LIST, 60 << 15 | 2))]
        unedited = [name for name, edit in EDITS.items() if all(edit(family, each) == each for each in chains)]
        assert unedited == []


def test_samples_contain_only_claimed_requirements() -> None:
    both = {name: {one for each in READINGS for one in claimed(BENIGN[name], each)} for name in BENIGN}
    assert {name: odd for name in BENIGN if (odd := {*sample(name)} - both[name])} == {}


def test_sample_contains_each_requirement_that_a_variant_does_not_meet() -> None:
    assert {each.name for each in BENIGN.values() if not each.unmet <= {*sample(each.name)}} == set()


def test_benign_variants_lack_existing_requirements_that_are_not_musts() -> None:
    known = {feature.name for each in SCENARIOS.values() for feature in each.requirement.named}
    assert all(each.lacks <= known and each.unmet <= SCENARIOS.keys() for each in BENIGN.values())
    levels = [
        SCENARIOS[name].requirement.bound(lambda feature, lacks=each.lacks: feature.name not in lacks).level
        for each in BENIGN.values()
        for name in each.unmet
    ]
    assert MUST not in levels


def test_each_benign_variant_represents_a_family() -> None:
    assert [each.name for each in BENIGN.values() if not each.provenance] == []


def test_only_topology_keys_depend_on_the_followed_text() -> None:
    """If a proxy or a DNS server depended on the reading, its requirements would have to run in both readings."""
    rooms = [ROOT / "reference" / each for each in ("proxy", "dns", "pod_locator")]
    lines = [line.strip() for room in rooms for file in room.rglob("*.py") for line in file.read_text().splitlines()]
    assert [each for each in lines if ".follows" in each] == ['alone = keys and features.follows == "released"']


def test_each_claimed_requirement_is_tried_in_a_reading_where_it_applies() -> None:
    for name, variant in BENIGN.items():
        assert {one for each in READINGS for one in TRIED.get((name, each), ())} == {
            one for each in READINGS for one in claimed(variant, each)
        }


def _without_link_local(service: Object, pods: Iterable[Object], *rest: Any, **options: Any) -> SlicePlan:
    fine = [each for each in pods if not each["status"].get("podIP", "").startswith("169.254.")]
    return plan_service(service, fine, *rest, **options)


@pytest.mark.parametrize("requirement", ["KEP-4444/failed-sync-is-an-event", "KEP-4444/failed-syncs-are-counted-apart"])
def test_sync_failure_metric_is_inconclusive_without_a_failed_sync(
    requirement: str, trial: Callable[[Mutant], MutantTrial]
) -> None:
    """A controller may omit an endpoint that would be invalid in any slice. No sync fails with such a controller."""
    careful = Mutant("careful", "", controller=partial(EndpointSliceController, plan=_without_link_local))
    cluster = trial(careful)
    with time_scaled(0.1), pytest.raises(InconclusiveError, match="no sync failed"):
        cluster.run(requirement)


def test_fewer_probes_are_used_only_inside_the_block() -> None:
    before = allowed_set(2).samples
    with fewer_probes():
        assert allowed_set(2).samples < before / 4
    assert allowed_set(2).samples == before


def test_interrupted_run_continues_with_the_remaining_requirements(tmp_path: Path) -> None:
    seen = VariantResults(tmp_path, "takes-turns", "kep")
    for verdict in ("passed", "failed", "inconclusive"):
        seen.note(RequirementResult(verdict, verdict, text=f"it {verdict}"))
    with (tmp_path / "takes-turns.kep.jsonl").open("a") as file:
        file.write('{"requirement": "cut o')
    again = VariantResults(tmp_path, "takes-turns", "kep")
    asked = ["passed", "failed", "inconclusive", "new"]
    assert again.left(asked) == ["inconclusive", "new"]
    assert again.texts("failed", asked) == {"failed": "it failed"}
    assert list(summary({("takes-turns", "kep"): asked, ("slow", "kep"): asked}, tmp_path)) == [
        "takes-turns (kep): 4 requirements, 2 left; failed: failed",
        "0 of 2 seen whole, 2 of 8 trials, 1 failed; 0 s, 0 s of CPU",
    ]


@pytest.mark.slow
def test_proxy_that_does_nothing_passes_no_requirement(trial: Callable[[Mutant], MutantTrial]) -> None:
    cluster = trial(MUTANTS["nothing-moves"])
    with time_scaled(0.1):
        assert [each for each in SILENT if not cluster.failure(each)] == []
