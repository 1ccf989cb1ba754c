"""Tests that failures with a possible common cause are grouped. A passed requirement can rule out the cause."""

from __future__ import annotations

from harness.judging.results import CaseResult, Result
from harness.model.requirements import MUST, Feature, Profile, Requirement
from harness.report import causes
from harness.report.causes import Cause

FEATURE = Feature("PreferSameNode", Profile.SERVICE_PROXY, False, "")


def fault(sentence: str = "It forgets.", symptom: str = "reached") -> tuple[str, str]:
    return sentence, symptom


def result(slug: str, *kills: str, verdict: str = "failed", message: str = "a1 reached b1") -> Result:
    requirement = Requirement(f"KEP-1/{slug}", "It holds.", MUST, (FEATURE,), "KEP-1, Design", kills=kills)
    return Result(requirement, (CaseResult(f"t::{slug}", requirement.id, verdict=verdict, message=message),))


def ids(found: list[Cause]) -> list[tuple[list[str], list[str]]]:
    """Return the requirements of each cause, without their document, and the mutants of the cause."""
    return [([each.partition("/")[2] for each in one.requirements], [name for name, _ in one.mutants]) for one in found]


def test_failures_that_one_mutant_would_cause_are_grouped() -> None:
    results = [result("a", "x", "y"), result("b", "x"), result("c"), result("d", "z")]
    assert ids(causes.shared(results, {"x": fault(), "y": fault(), "z": fault()})) == [(["a", "b"], ["x"])]


def test_passed_requirement_that_would_kill_a_mutant_rules_it_out() -> None:
    results = [result("a", "x"), result("b", "x"), result("c", "x", verdict="passed")]
    assert causes.shared(results, {"x": fault()}) == []


def test_one_passed_requirement_rules_out_a_mutant_with_fewer_than_four_failures() -> None:
    met = result("z", "x", verdict="passed")
    assert causes.shared([*(result(each, "x") for each in "abc"), met], {"x": fault()}) == []
    assert ids(causes.shared([*(result(each, "x") for each in "abcd"), met], {"x": fault()})) == [(list("abcd"), ["x"])]


def test_refused_client_counts_like_one_without_answer() -> None:
    results = [result("a", "x", message="a1 was refused (ECONNREFUSED)"), result("b", "x", message="a1 got no answer")]
    assert ids(causes.shared(results, {"x": fault(symptom="got no answer")})) == [(["a", "b"], ["x"])]
    assert causes.shared(results, {"x": fault(symptom="was refused")}) == []


def test_failure_without_the_symptom_is_not_of_that_mutant() -> None:
    results = [result("a", "x"), result("b", "x"), result("c", "x", message="a1 got no answer")]
    assert ids(causes.shared(results, {"x": fault()})) == [(["a", "b"], ["x"])]


def test_each_failure_is_in_one_group_and_the_largest_is_first() -> None:
    results = [result("a", "x", "y"), result("b", "x", "y"), result("c", "x"), result("d", "y"), result("e", "y", "z")]
    results += [result("f", "z", verdict="inconclusive"), result("g", "x", "y"), result("h", "x"), result("i", "x")]
    found = ids(causes.shared(results, {"x": fault(), "y": fault(), "z": fault()}))
    assert found == [(["a", "b", "c", "g", "h", "i"], ["x"]), (["d", "e"], ["y"])]


def test_mutants_that_would_cause_the_same_are_all_named() -> None:
    (cause,) = causes.shared([result("a", "x", "y"), result("b", "x", "y")], {"x": fault(), "y": fault("It mixes.")})
    assert str(cause) == (
        "2 requirements fail as mutant x does: It forgets, or as mutant y does: It mixes (KEP-1/a, KEP-1/b)."
    )


def test_reports_have_all_requirements_of_a_cause_and_its_mutants() -> None:
    (cause,) = causes.shared([result(each, "x") for each in "abcdef"], {"x": fault()})
    mutants = [{"name": "x", "fault": "It forgets."}]
    assert cause.to_json() == {"requirements": [f"KEP-1/{each}" for each in "abcdef"], "mutants": mutants}


def test_many_requirements_are_not_all_named() -> None:
    (cause,) = causes.shared([result(each, "x") for each in "abcdef"], {"x": fault()})
    assert str(cause).endswith("It forgets (KEP-1/a, KEP-1/b, KEP-1/c, KEP-1/d and 2 more).")
