"""Each MUST has a sentence of a document or needs a claimed feature, and no other requirement is without a reason."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict

import pytest

from harness.errors import UsageError
from harness.model.requirements import MUST, Feature, Level, Profile, Requirement, requirement
from harness.plugin.suite import catalogue
from harness.report.environment import catalogue_digest
from harness.run.plan import Plan
from mutants import MUTANTS
from tests.conformance import levels
from tests.conformance.mutant_trials import SCENARIOS

CORE = Feature("Core", Profile.SERVICE_PROXY, True, "It is.")
MORE = Feature("More", Profile.SERVICE_PROXY, False, "It may be.")
TEXT = """
musts:
- {source: "KEP-1, Design", words: It will work., requirements: [KEP-1/works]}
others:
- {because: No text says it., requirements: [KEP-1/lasts]}
"""
SUITE = [
    Requirement("KEP-1/works", "It works.", MUST, (CORE,), "KEP-1, Design"),
    Requirement("KEP-1/lasts", "It lasts.", Level.SHOULD, (CORE,), "KEP-1, Design", must_if=MORE),
    Requirement("KEP-1/more", "It has more.", MUST, (CORE, MORE), "KEP-1, More"),
]
FLOOR = 560
"""The number of mutants that end a run with exit code 1, if the implementation claims every feature. Raise it only."""


def found(text: str, suite: Iterable[Requirement] = SUITE) -> list[str]:
    """Return the problems of a file of levels."""
    return list(levels.problems(levels.parse(text), suite))


def test_levels_of_the_suite_have_their_grounds() -> None:
    assert list(levels.problems(levels.load(), catalogue())) == []


def test_page_is_up_to_date() -> None:
    assert levels.PAGE.read_text(encoding="utf-8") == levels.page(levels.load(), catalogue())


def test_small_file_has_no_problems() -> None:
    assert found(TEXT) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("It will work.", "It should work.", "levels.yaml:3: the words require nothing: It should work."),
        ("KEP-1, Design", "KEP-1, Goals", "levels.yaml:3: KEP-1, Goals requires nothing"),
        (
            "[KEP-1/works]",
            "[KEP-1/more]",
            "levels.yaml: KEP-1/works is a MUST of the core features, but no sentence says so",
        ),
        ("[KEP-1/works]", "[KEP-1/works, KEP-1/gone]", "levels.yaml:3: the suite has no requirement KEP-1/gone"),
        ("[KEP-1/works]", "[KEP-1/works, KEP-1/lasts]", "levels.yaml:3: KEP-1/lasts is a SHOULD"),
        ("[KEP-1/lasts]", "[KEP-1/lasts, KEP-1/works]", "levels.yaml:5: KEP-1/works is a MUST"),
        ("[KEP-1/lasts]", "[]", "levels.yaml: KEP-1/lasts is a SHOULD, but no reason is given"),
    ],
)
def test_level_without_a_ground_is_a_problem(old: str, new: str, problem: str) -> None:
    assert found(TEXT.replace(old, new)) == [problem]


def test_malformed_file_is_refused() -> None:
    with pytest.raises(UsageError, match=r"levels.yaml:3: words is missing"):
        levels.parse(TEXT.replace("words: It will work., ", ""))


def test_quote_is_looked_for_in_the_text_of_a_document() -> None:
    small = levels.parse(TEXT)
    assert levels.misquoted(small, ["\n// It will\n\t// work. Or not."]) == []
    assert levels.misquoted(small, ["It works."]) == ["levels.yaml:3: KEP-1, Design: It will work."]


def test_page_shows_what_a_claim_changes() -> None:
    text = levels.page(levels.parse(TEXT), SUITE)
    assert "| `KEP-1/works` | MUST | Core | KEP-1, Design: “It will work.” |" in text
    assert "| `KEP-1/more` | MUST | More | KEP-1, More |" in text
    assert "| `KEP-1/lasts` | SHOULD, MUST with `More` | Core | No text says it. |" in text


def test_claim_raises_a_level() -> None:
    lasts = SUITE[1]
    assert lasts.bound(lambda feature: feature is MORE).level is MUST
    assert lasts.bound(lambda _: False) == lasts


def test_claim_changes_neither_the_catalogue_nor_the_written_form() -> None:
    bound = [each.bound(lambda _: True) for each in SUITE]
    assert bound != SUITE
    assert catalogue_digest(bound) == catalogue_digest(SUITE)
    plan = Plan({each.id: each for each in bound})
    assert Plan.from_json(json.loads(json.dumps(asdict(plan)))) == plan


@pytest.mark.parametrize(("level", "feature"), [(MUST, MORE), (Level.MAY, MORE), (Level.SHOULD, CORE)])
def test_only_a_should_and_an_extended_feature_make_a_must(level: Level, feature: Feature) -> None:
    with pytest.raises(UsageError, match="must_if requires a SHOULD"):
        requirement("KEP-1/a", "A.", level=level, features={CORE}, source="KEP-1", must_if=feature)


def test_enough_mutants_fail_a_must() -> None:
    bound = [each.requirement.bound(lambda _: True) for each in SCENARIOS.values()]
    failing = {name for each in bound if each.level is MUST for name in each.kills} & MUTANTS.keys()
    assert len(failing) >= FLOOR, sorted(MUTANTS.keys() - failing)
