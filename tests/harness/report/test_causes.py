"""Tests that failures are grouped by what was observed, and that a mutant is named only where it fits."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from harness.judging.differences import (
    IPV6,
    LEFT_NODE,
    LEFT_ZONE,
    NODE_CLIENT,
    OTHERS,
    REFUSED,
    SILENT,
    UDP,
    FailurePattern,
)
from harness.judging.results import CaseResult, Result
from harness.model.requirements import MAY, MUST, SHOULD, Feature, Level, Profile, Requirement
from harness.report import causes
from harness.report.causes import CommonCause

FEATURE = Feature("PreferSameNode", Profile.SERVICE_PROXY, False, "")


def result(
    slug: str,
    *differences: FailurePattern,
    level: Level = MUST,
    verdict: str = "failed",
    draw: str = "",
    fails_with: str = "",
    kills: Sequence[str] = (),
    message: str = "a1 reached b1",
) -> Result:
    requirement = Requirement(f"KEP-1/{slug}", "It holds.", level, (FEATURE,), "KEP-1, Design", kills=tuple(kills))
    case = CaseResult(
        f"t::{slug}",
        requirement.id,
        verdict=verdict,
        message=message,
        draw=draw,
        fails_with=fails_with,
        differences=differences,
        rerun=f"trafficdist run --run-test KEP-1/{slug}",
    )
    return Result(requirement, (case,))


def one(text: str, *conditions: str) -> FailurePattern:
    return FailurePattern(text, tuple(sorted(conditions)))


def groups(*results: Result) -> dict[str, list[str]]:
    """Return the slugs of each cause by headline."""
    return {
        each.headline: [name.partition("/")[2] for name in each.requirements] for each in causes.grouped(list(results))
    }


def test_equal_observations_have_one_cause() -> None:
    found = groups(result("a", one(LEFT_ZONE)), result("b", one(LEFT_ZONE, UDP)), result("c", one(REFUSED)))
    assert found == {f"connections {LEFT_ZONE}": ["a", "b"], f"connections {REFUSED}": ["c"]}


def test_conditions_that_all_failures_share_are_in_the_headline() -> None:
    found = groups(result("a", one(SILENT, IPV6, UDP)), result("b", one(SILENT, IPV6, NODE_CLIENT)))
    assert found == {f"connections over IPv6 {SILENT}": ["a", "b"]}


def test_failures_under_separate_conditions_have_separate_causes() -> None:
    found = groups(result("a", one(SILENT, IPV6)), result("b", one(SILENT, UDP)), result("c", one(SILENT, IPV6)))
    assert found == {f"connections over IPv6 {SILENT}": ["a", "c"], f"connections over UDP {SILENT}": ["b"]}


def test_failure_that_needs_a_drawn_value_is_apart_from_one_that_does_not() -> None:
    drawn = result("a", one(LEFT_ZONE), draw="slices=each,order=reversed", fails_with="slices=each")
    each, plain = causes.grouped([result("b", one(LEFT_ZONE)), drawn])
    assert (plain.requirements, plain.fails_with) == (("KEP-1/b",), "")
    assert each.headline == f"connections {LEFT_ZONE}, only when each endpoint has its own EndpointSlice"
    assert each.fails_with == "slices=each"
    assert each.rerun == "trafficdist run --run-test KEP-1/a --draw slices=each"


def test_failure_that_was_not_shrunk_joins_one_with_a_value_it_was_drawn() -> None:
    known = [result(each, one(REFUSED), draw="slices=each", fails_with="slices=each") for each in "ab"]
    (cause,) = causes.grouped([*known, result("c", one(REFUSED), draw="slices=each,owner=nobody")])
    assert (cause.fails_with, len(cause.requirements)) == ("slices=each", 3)


def test_second_family_that_is_ipv6_is_the_same_condition_as_ipv6() -> None:
    drawn = result("a", one(SILENT, IPV6), draw="family=second", fails_with="family=second")
    assert groups(drawn, result("b", one(SILENT, IPV6))) == {f"connections over IPv6 {SILENT}": ["a", "b"]}


def test_drawn_protocol_is_the_same_condition_as_udp() -> None:
    drawn = result("a", one(SILENT, UDP), draw="protocol=udp", fails_with="protocol=udp")
    assert groups(drawn, result("b", one(SILENT, UDP))) == {f"connections over UDP {SILENT}": ["a", "b"]}


def test_unknown_drawn_values_of_another_release_are_ignored() -> None:
    (cause,) = causes.grouped([result("a", one(REFUSED), fails_with="moon=full")])
    assert (cause.headline, cause.fails_with) == (f"connections {REFUSED}", "")


def test_uncertain_observation_joins_a_cause_and_makes_none() -> None:
    unsure = (one(OTHERS), FailurePattern(LEFT_NODE, (), sure=False), FailurePattern(LEFT_ZONE, (), sure=False))
    assert groups(result("a", *unsure)) == {f"connections {OTHERS}": ["a"]}
    found = groups(result("a", *unsure), result("b", one(LEFT_ZONE)))
    assert found == {f"connections {LEFT_ZONE}": ["a", "b"]}


def test_failures_without_observations_are_grouped_by_their_message() -> None:
    found = groups(*(result(each, message=text) for each, text in (("a", "boom"), ("b", "boom"), ("c", "bang"))))
    assert found == {"boom": ["a", "b"], "bang": ["c"]}


def test_level_and_command_are_those_of_the_most_serious_requirement() -> None:
    (cause,) = causes.grouped([result("a", one(REFUSED), level=SHOULD), result("b", one(REFUSED))])
    assert (cause.level, cause.numbers) == (MUST, "2 requirements (1 MUST, 1 SHOULD)")
    assert cause.to_json() == {
        "headline": f"connections {REFUSED}",
        "level": "MUST",
        "requirements": ["KEP-1/a", "KEP-1/b"],
        "rerun": "trafficdist run --run-test KEP-1/b",
    }


FAULTS = {"x": ("It forgets.", "reached"), "y": ("It mixes.", "reached"), "z": ("It is silent.", "got no answer")}


def mutants(*results: Result) -> list[list[str]]:
    found = causes.with_mutants(causes.grouped(list(results)), list(results), FAULTS)
    return [[name for name, _ in each.mutants] for each in found]


def test_mutant_that_fails_the_same_requirements_is_named() -> None:
    same = [result(each, one(LEFT_ZONE), kills=["x", "z"]) for each in "ab"]
    assert mutants(*same, result("c", one(LEFT_ZONE))) == [["x"]]


def test_mutant_that_explains_a_small_part_of_a_cause_is_not_named() -> None:
    few = [result(each, one(LEFT_ZONE), kills=["x"]) for each in "ab"]
    assert mutants(*few, *(result(each, one(LEFT_ZONE)) for each in "cde")) == [[]]


def test_mutant_whose_other_requirements_are_met_is_not_named() -> None:
    few = [result(each, one(LEFT_ZONE), kills=["x"]) for each in "ab"]
    assert mutants(*few, result("c", verdict="passed", kills=["x"])) == [[]]


def test_hint_names_mutants_and_their_faults() -> None:
    cause = CommonCause("h", ("KEP-1/a",), (MUST,), mutants=(("x", "It forgets."), ("y", "It mixes.")))
    assert cause.hint == "The same requirements detect mutant x: It forgets or y: It mixes."


_DIFFERENCES = st.builds(
    lambda text, conditions, sure: FailurePattern(text, tuple(sorted(conditions)), sure),
    st.sampled_from([LEFT_ZONE, LEFT_NODE, REFUSED, SILENT, "EndpointSlices lack hints"]),
    st.sets(st.sampled_from([UDP, IPV6, NODE_CLIENT, "node-port"])),
    st.booleans(),
)
_DRAWS = ["", "plain", "slices=each", "slices=each,family=second", "client=node", "names=cloud,owner=nobody"]


@st.composite
def runs(draw: st.DrawFn) -> list[Result]:
    return [
        result(
            f"n{number}",
            *draw(st.lists(_DIFFERENCES, max_size=3)),
            level=draw(st.sampled_from([MUST, SHOULD, MAY])),
            verdict=draw(st.sampled_from(["failed", "failed", "passed", "inconclusive"])),
            draw=(drawn := draw(st.sampled_from(_DRAWS))),
            fails_with=draw(st.sampled_from(["", "plain", drawn])),
            message=draw(st.sampled_from(["", "boom", "bang"])),
        )
        for number in range(draw(st.integers(0, 8)))
    ]


@given(runs(), st.randoms(use_true_random=False))
def test_each_failure_has_one_cause_in_any_order(results: list[Result], order: random.Random) -> None:
    found = causes.grouped(results)
    grouped = sorted(name for each in found for name in each.requirements)
    assert grouped == sorted(each.requirement.id for each in results if each.verdict == "failed")
    assert all(each.headline and len(each.levels) == len(each.requirements) for each in found)
    shuffled = list(results)
    order.shuffle(shuffled)
    assert causes.grouped(shuffled) == found
