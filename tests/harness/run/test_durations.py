"""Tests the expected durations of requirements and cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.judging.results import Case
from harness.model.needs import Needs
from harness.model.requirements import MUST, Feature, Profile, Requirement
from harness.run import durations
from harness.run.durations import TYPICAL
from harness.run.plan import Plan
from harness.settings.options import resolve


def settings(**options: Any) -> Any:
    return resolve({"backend": "netns", **options}, environment={})


def requirement(slug: str, profile: Profile = Profile.SERVICE_PROXY, kills: int = 0) -> Requirement:
    feature = Feature("Routing", profile, True, "")
    return Requirement(f"KEP-1/{slug}", "A.", MUST, (feature,), "KEP-1", kills=tuple(map(str, range(kills))))


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({}, ["KEP-1/a", "KEP-1/b", "DNS/c"]),
        ({"run-test": "KEP-1/*"}, ["KEP-1/a", "KEP-1/b"]),
        ({"skip-tests": "*/a"}, ["KEP-1/b", "DNS/c"]),
    ],
)
def test_only_selected_requirements_are_expected(tmp_path: Path, options: dict[str, str], ids: list[str]) -> None:
    (tmp_path / "needs.yaml").write_text("KEP-1/a: {}\nKEP-1/b: {}\nDNS/c: {}\n")
    assert durations.before_collection(settings(**options), tmp_path) == dict.fromkeys(ids, TYPICAL)


def test_of_a_suite_without_a_table_nothing_is_known(tmp_path: Path) -> None:
    assert durations.before_collection(settings(), tmp_path) == {}


def test_cases_share_the_time_of_their_requirement() -> None:
    cases = [
        Case("n1", "KEP-1/a"),
        Case("n2", "KEP-1/a"),
        Case("n3", "KEP-1/new"),
        Case("n4", "KEP-1/x", "", "deselected"),
    ]
    plan = Plan(cases=cases, seconds={"KEP-1/a": 6.0, "KEP-1/b": 2.0, "KEP-1/x": 1.0})
    assert durations.by_case(plan) == {"n1": 3.0, "n2": 3.0, "n3": TYPICAL}


def test_estimate_grows_with_cases_mutants_nodes_and_costly_abilities() -> None:
    small = durations.estimate(requirement("a", Profile.DNS), Needs())
    assert small == 0.08
    proxy = durations.estimate(requirement("a"), Needs())
    more = [
        durations.estimate(requirement("a"), Needs(), cases=4),
        durations.estimate(requirement("a", kills=9), Needs()),
        durations.estimate(requirement("a"), Needs(nodes=frozenset({"a1", "a2", "b1"}))),
        durations.estimate(requirement("a"), Needs(abilities=frozenset({"many-ports"}))),
    ]
    assert proxy == 0.24
    assert [each > proxy for each in more] == [True] * 4
    assert durations.estimate(requirement("a"), Needs(), cases=4, declared=17.0) == 17.0
