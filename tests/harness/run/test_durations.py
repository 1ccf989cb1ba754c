"""Tests that durations come from earlier runs on this machine, else from an estimate. A broken cache counts as none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.judging.results import Case, CaseResult, Result
from harness.model.needs import Needs
from harness.model.requirements import MUST, Feature, Profile, Requirement
from harness.run import durations
from harness.run.durations import TYPICAL
from harness.run.plan import Plan
from harness.settings.options import resolve


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAFFICDIST_CACHE", str(tmp_path / "cache"))
    (tmp_path / "needs.yaml").write_text("KEP-1/a: {}\nKEP-1/b: {}\nDNS/c: {}\n")
    return tmp_path / "cache" / "durations.json"


def settings(**options: Any) -> Any:
    return resolve({"backend": "netns", **options}, environment={})


def requirement(slug: str, profile: Profile = Profile.SERVICE_PROXY, kills: int = 0) -> Requirement:
    feature = Feature("Routing", profile, True, "")
    return Requirement(f"KEP-1/{slug}", "A.", MUST, (feature,), "KEP-1", kills=tuple(map(str, range(kills))))


def result(slug: str, seconds: float, verdict: str = "passed") -> Result:
    mine = requirement(slug)
    return Result(mine, (CaseResult("t::a", mine.id, verdict=verdict, duration=seconds),))


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({}, ["KEP-1/a", "KEP-1/b", "DNS/c"]),
        ({"run-test": "KEP-1/*"}, ["KEP-1/a", "KEP-1/b"]),
        ({"skip-tests": "*/a"}, ["KEP-1/b", "DNS/c"]),
        ({"profile": "service-proxy"}, ["KEP-1/a"]),
    ],
)
def test_only_selected_requirements_are_expected(tmp_path: Path, options: dict[str, str], ids: list[str]) -> None:
    durations.remember(settings(), tmp_path, [result("a", 3.0)])
    assert list(durations.before_collection(settings(**options), tmp_path)) == ids


def test_durations_of_passed_requirements_are_kept_for_runs_of_the_same_kind(tmp_path: Path) -> None:
    durations.remember(settings(), tmp_path, [result("a", 3.0), result("b", 60.0, "failed")])
    assert durations.cached(settings(), tmp_path) == {"KEP-1/a": 3.0}
    assert durations.cached(settings(profile="dns"), tmp_path) == {}
    assert durations.cached(settings(proxy="kube-proxy"), tmp_path) == {}
    expected = {"KEP-1/a": 3.0, "KEP-1/b": TYPICAL, "DNS/c": TYPICAL}
    assert durations.before_collection(settings(), tmp_path) == expected


def test_cached_duration_is_replaced_only_if_it_doubled_or_halved(tmp_path: Path) -> None:
    for seconds, kept in ((3.0, 3.0), (5.9, 3.0), (1.6, 3.0), (6.0, 6.0), (2.0, 2.0)):
        durations.remember(settings(), tmp_path, [result("a", seconds)])
        assert durations.cached(settings(), tmp_path) == {"KEP-1/a": kept}


def test_durations_with_a_mutant_are_not_kept(tmp_path: Path, cache: Path) -> None:
    durations.remember(settings(mutant="node-as-zone"), tmp_path, [result("a", 3.0)])
    assert not cache.exists()


@pytest.mark.parametrize("text", ["", "[1]", '{"x": 3, "y": {"z": [1]}}', "\0"])
def test_broken_cache_counts_as_empty(tmp_path: Path, cache: Path, text: str) -> None:
    cache.parent.mkdir()
    cache.write_text(text)
    assert durations.cached(settings(), tmp_path) == {}
    durations.remember(settings(), tmp_path, [result("a", 3.0)])
    assert durations.cached(settings(), tmp_path) == {"KEP-1/a": 3.0}


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
