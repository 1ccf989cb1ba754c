"""How long requirements take: of the last run here, else of the suite; broken files are as none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import conformance
from harness.judging.results import Case, CaseResult, Result
from harness.model.requirements import MUST, Feature, Profile, Requirement
from harness.report import durations
from harness.run.plan import Plan
from harness.settings.options import resolve

TABLE = "service-proxy:\n  KEP-1/a: 2.0\n  KEP-1/b: 4.0\ndns:\n  DNS/c: 8\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAFFICDIST_CACHE", str(tmp_path / "cache"))
    (tmp_path / durations.FILE).write_text(TABLE)
    return tmp_path / "cache" / "durations.json"


def settings(**options: Any) -> Any:
    return resolve({"backend": "netns", **options}, environment={})


def result(slug: str, seconds: float, verdict: str = "passed") -> Result:
    feature = Feature("Routing", Profile.SERVICE_PROXY, True, "")
    requirement = Requirement(f"KEP-1/{slug}", "A.", MUST, (feature,), "KEP-1")
    return Result(requirement, (CaseResult("t::a", requirement.id, verdict=verdict, duration=seconds),))


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({}, ["KEP-1/a", "KEP-1/b", "DNS/c"]),
        ({"run-test": "KEP-1/*"}, ["KEP-1/a", "KEP-1/b"]),
        ({"skip-tests": "*/a"}, ["KEP-1/b", "DNS/c"]),
        ({"profile": "dns"}, ["DNS/c"]),
    ],
)
def test_only_what_is_chosen_is_expected(tmp_path: Path, options: dict[str, str], ids: list[str]) -> None:
    assert list(durations.expected(settings(**options), tmp_path)) == ids


def test_a_proxy_that_is_a_program_has_times_of_its_own(tmp_path: Path) -> None:
    (tmp_path / durations.OF_PROGRAMS).write_text("service-proxy:\n  KEP-1/a: 7.0\n")
    assert durations.expected(settings(), tmp_path)["KEP-1/a"] == 2.0
    assert durations.expected(settings(proxy="kube-proxy"), tmp_path) == {"KEP-1/a": 7.0, "KEP-1/b": 4.0}


def test_what_was_met_here_is_remembered_for_runs_of_the_same_kind(tmp_path: Path) -> None:
    durations.remember(settings(), tmp_path, [result("a", 3.0), result("b", 60.0, "failed")])
    assert durations.expected(settings(), tmp_path) == {"KEP-1/a": 3.0, "KEP-1/b": 4.0, "DNS/c": 8.0}
    assert durations.expected(settings(proxy="kube-proxy"), tmp_path)["KEP-1/a"] == 2.0


def test_a_mutant_says_nothing_of_how_long_requirements_take(tmp_path: Path, cache: Path) -> None:
    durations.remember(settings(mutant="node-as-zone"), tmp_path, [result("a", 3.0)])
    assert not cache.exists()


@pytest.mark.parametrize("text", ["", "[1]", '{"x": 3, "y": {"z": [1]}}', "\0"])
def test_a_broken_cache_is_as_none(tmp_path: Path, cache: Path, text: str) -> None:
    cache.parent.mkdir()
    cache.write_text(text)
    assert durations.expected(settings(), tmp_path)["KEP-1/a"] == 2.0
    durations.remember(settings(), tmp_path, [result("a", 3.0)])
    assert durations.expected(settings(), tmp_path)["KEP-1/a"] == 3.0


def test_cases_share_the_time_of_their_requirement_and_unknown_ones_take_the_usual() -> None:
    cases = [
        Case("n1", "KEP-1/a"),
        Case("n2", "KEP-1/a"),
        Case("n3", "KEP-1/new"),
        Case("n4", "KEP-1/x", "", "deselected"),
    ]
    seconds = {"KEP-1/a": 6.0, "KEP-1/b": 2.0, "KEP-1/x": 1.0}
    assert durations.by_case(Plan(cases=cases), seconds) == {"n1": 3.0, "n2": 3.0, "n3": 2.0}


def test_the_table_is_made_of_what_passed() -> None:
    tests = [
        {"id": "KEP-1/b", "profile": "DNS", "verdict": "passed", "durationSeconds": 1.234},
        {"id": "KEP-1/a", "profile": "DNS", "verdict": "failed", "durationSeconds": 9},
    ]
    assert durations.as_yaml(tests) == "dns:\n  KEP-1/b: 1.23\n"


def test_the_suite_ships_how_long_most_of_its_requirements_take() -> None:
    table = durations.of_suite(Path(next(iter(conformance.__path__))))
    assert sum(len(mine) for mine in table.values()) > 300
    assert set(table) <= set(Profile)
