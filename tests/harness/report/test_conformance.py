"""Tests that the report is computed from verdicts, matches its schema, and accepts only valid content."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.backends.any_cluster.target import described
from harness.errors import DistrustError
from harness.judging.results import CONVERGENCE, Case, CaseResult, Result
from harness.judging.verdict import SkipReason, Verdict
from harness.model.requirements import MAY, MUST, SHOULD, Feature, Level, Profile, Requirement
from harness.model.topology import THREE_ZONES
from harness.report import conformance, environment
from harness.run.folder import OutputFolder
from harness.run.plan import Plan
from harness.run.run import Run
from harness.run.suite_files import place_of
from harness.settings.options import resolve

CORE = Feature("Routing", Profile.SERVICE_PROXY, True, "")
EXTENDED = Feature("PreferSameNode", Profile.SERVICE_PROXY, False, "")


@pytest.fixture(autouse=True)
def _clean_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "suite_revision", lambda: "a" * 40)


def results(*verdicts: str, feature: Feature = CORE, level: Level = MUST) -> list[Result]:
    found = []
    for number, text in enumerate(verdicts):
        slug = f"{feature.name}-{level}-{number}".lower()
        requirement = Requirement(f"KEP-1/{slug}", "Is so.", level, (feature,), "KEP-1")
        verdict, _, reason = text.partition(":")
        found.append(Result(requirement, (CaseResult(f"t::{number}", requirement.id, verdict=verdict, reason=reason),)))
    return found


def report(*given: Result, options: dict[str, Any] | None = None) -> dict[str, Any]:
    plan = Plan(
        {each.requirement.id: each.requirement for each in given},
        [Case(case.nodeid, case.requirement, reason=case.reason) for each in given for case in each.cases],
    )
    settings = resolve({"backend": "netns", "seed": 1, **(options or {})}, environment={})
    run = Run(settings, OutputFolder(Path("/nowhere")), plan=plan, whole_suite=True, suite=place_of())
    return conformance.build(conformance.describe(run, given, 0.0), given)


def test_third_party_suite_has_the_name_and_version_of_its_package(tmp_path: Path) -> None:
    (tmp_path / "acme" / "shops").mkdir(parents=True)
    (tmp_path / "acme" / "__init__.py").touch()
    own = environment.suite_of(tmp_path / "acme" / "shops", (), "a" * 40)
    assert (own["name"], own["version"], own["harness"]) == ("acme", "unknown", environment.suite_version())
    installed = environment.suite_of(Path(pytest.__file__).parent, (), "a" * 40)
    assert (installed["name"], installed["version"]) == ("pytest", pytest.__version__)
    assert "revision" not in own
    published = environment.suite_of(place_of(), (), "a" * 40)
    assert (published["name"], published["revision"]) == ("trafficdist", "a" * 40)


@pytest.mark.parametrize(
    ("verdicts", "result"),
    [
        (["passed"], "success"),
        (["passed", "skipped:unavailable"], "partial"),
        (["passed", "skipped:deselected"], "partial"),
        (["passed", "inconclusive"], "partial"),
        (["failed", "skipped:ineligible", "inconclusive"], "failure"),
    ],
)
def test_result_is_computed(verdicts: list[str], result: str) -> None:
    (profile,) = report(*results(*verdicts))["profiles"]
    assert profile["core"]["result"] == result


def test_only_must_decides_and_success_states_its_basis() -> None:
    should = results("passed", "failed", "inconclusive", "skipped:unavailable", level=SHOULD)
    made = report(*results("passed"), *should, *results("failed", level=MAY))
    conformance.check(made)
    (profile,) = made["profiles"]
    rests_on = (
        "MUST: 1 of 1 met; SHOULD: 1 of 4 met, 1 not met, 1 could not be told, 1 not run; MAY: 0 of 1 met, 1 not met"
    )
    assert profile["core"] == {
        "result": "success",
        "restsOn": rests_on,
        "statistics": {"Passed": 2, "Skipped": 1, "Failed": 0, "Warnings": 2, "Notes": 1},
        "skippedTests": ["KEP-1/routing-should-3"],
        "warningTests": ["KEP-1/routing-should-1", "KEP-1/routing-should-2"],
        "noteTests": ["KEP-1/routing-may-0"],
    }
    assert profile["summary"] == f"Core tests succeeded ({rests_on})."
    assert [each["verdict"] for each in made["tests"]].count("failed") == 2


def test_a_level_without_tests_is_absent() -> None:
    (profile,) = report(*results("passed"))["profiles"]
    assert "extended" not in profile
    unclaimed = results("skipped:unsupported", feature=EXTENDED)
    (profile,) = report(*results("passed"), *unclaimed, options={"exempt-features": "PreferSameNode"})["profiles"]
    assert "extended" not in profile


def test_extended_features_are_listed_separately() -> None:
    other = Feature("EvenSpread", Profile.SERVICE_PROXY, False, "")
    given = [*results("passed", feature=EXTENDED), *results("skipped:unsupported", feature=other)]
    (profile,) = report(*given, options={"exempt-features": "EvenSpread"})["profiles"]
    assert profile["extended"] == {
        "result": "success",
        "restsOn": "MUST: 1 of 1 met",
        "statistics": {"Passed": 1, "Skipped": 0, "Failed": 0},
        "supportedFeatures": ["PreferSameNode"],
        "unsupportedFeatures": ["EvenSpread"],
    }


def test_gateway_api_fields_come_first_in_their_order() -> None:
    keys = list(report(*results("passed")))
    assert keys[:9] == [
        "apiVersion", "kind", "date", "kubernetesVersion", "kubernetesChannel", "mode", "implementation", "profiles",
        "succeededProvisionalTests",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (["surprise"], 1, "surprise"),
        (["profiles", 0, "core"], None, "core"),
        (["profiles", 0, "result"], "success", "result"),
        (["profiles", 0, "core", "result"], "great", "result"),
        (["tests", 0, "verdict"], "skipped", "reason"),
        (["run", "certifiableReasons"], ["x"], r"\$\.run"),
        (["kubernetesVersion"], "latest", "latest"),
        (["date"], "yesterday", "date"),
    ],
)
def test_unknown_key_is_refused(place: list[Any], value: Any, said: str) -> None:
    broken: Any = copy.deepcopy(report(*results("passed")))
    inner = broken
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(DistrustError, match=said):
        conformance.check(broken)


def test_own_keys_may_be_added_with_a_prefix() -> None:
    conformance.check({**report(*results("passed")), "x-ticket": 7})


def test_the_same_run_gives_the_same_text() -> None:
    given = results("passed", "failed", "skipped:unavailable")
    texts = [conformance.as_yaml({**report(*order), "date": "2026-01-01T00:00:00Z"}) for order in (given, given)]
    for text in texts:
        loaded = yaml.safe_load(text)
        assert [test["id"] for test in loaded["tests"]] == sorted(test["id"] for test in loaded["tests"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"run-test": "KEP-1/*"}, "--run-test chose requirements"),
        ({"quick": True}, "--quick chose requirements"),
        ({"skip-tests": "KEP-1/*"}, "--skip-tests excluded requirements"),
        ({"exempt-features": "Routing"}, "core features were exempted: Routing"),
    ],
)
def test_narrowing_makes_a_run_not_certifiable(options: dict[str, Any], reason: str) -> None:
    assert report(*results("passed"))["run"]["certifiable"] is True
    assert reason in report(*results("passed"), options=options)["run"]["certifiableReasons"]


def test_a_changed_checkout_does_not_certify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "suite_revision", lambda: "a" * 40 + "-dirty")
    assert "the suite is a checkout with uncommitted changes" in report(*results("passed"))["run"]["certifiableReasons"]


def test_the_worst_case_decides() -> None:
    order = [Verdict.PASSED, Verdict.SKIPPED, Verdict.INCONCLUSIVE, Verdict.FAILED]
    requirement = Requirement("KEP-1/a", "A.", MUST, (CORE,), "KEP-1")
    for number, verdict in enumerate(order, 1):
        cases = tuple(
            CaseResult(f"t[{each}]", "KEP-1/a", verdict=each, reason=SkipReason.UNAVAILABLE) for each in order[:number]
        )
        assert Result(requirement, cases).verdict == verdict


def test_report_contains_the_slowest_convergence() -> None:
    given = results("passed", "passed", "passed")
    for result, seconds in zip(given, (0.5, 7.25), strict=False):
        result.cases[0].observed[CONVERGENCE] = {"slowestSeconds": seconds}
    told = report(*given, options={"converges-within": 8.0})["run"]
    assert told["slowestConvergence"] == {"seconds": 7.25, "test": given[1].requirement.id}
    assert told["convergesWithin"] == 8.0
    assert "slowestConvergence" not in report(*results("passed"))["run"]


def test_node_info_of_a_kubelet_matches_the_schema() -> None:
    said = {"kernelVersion": "6.1.0", "osImage": "Debian 12", "kubeletVersion": "v1.34.0", "kubeProxyVersion": ""}
    node = described(THREE_ZONES.node("a1"), {"status": {"nodeInfo": said}}, "kind-worker")
    made = report(*results("passed"))
    made["environment"]["nodes"] = [node]
    conformance.check(made)
    versions = {"kernel": "6.1.0", "os": "Debian 12", "kubelet": "v1.34.0"}
    assert node == {"name": "a1", "zone": "a", **versions, "nodeName": "kind-worker"}


@pytest.mark.parametrize(("declared", "level"), [(True, MUST), (False, SHOULD)])
def test_levels_follow_from_the_claims_of_a_report(*, declared: bool, level: Level) -> None:
    optional = Requirement("KEP-1/optional", "It holds.", SHOULD, (CORE,), "KEP-1", must_if=EXTENDED)
    report = {"features": [{"name": EXTENDED.name, "declared": declared}]}
    assert conformance.with_levels([optional], report)["KEP-1/optional"].level is level
