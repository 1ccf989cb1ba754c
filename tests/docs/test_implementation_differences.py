"""The page on differences between implementations agrees with the catalogue on requirements, levels and features."""

from __future__ import annotations

import re

from conformance import features
from tests.conformance.mutant_trials import SCENARIOS
from tests.docs.documented_commands import ROOT
from trafficdist import Feature

PAGE = (ROOT / "docs/implementation-differences.md").read_text(encoding="utf-8")
FEATURES = {each.name: each for each in vars(features).values() if isinstance(each, Feature)}
LEVELS = {each: scenario.requirement.level.name for each, scenario in SCENARIOS.items()}
ROW = re.compile(r"^\| `([A-Z]+(?:-\d+)?/[a-z0-9-]+)` \| (\w+) \|.*\| (.*) \|$", re.MULTILINE)


def test_requirements_on_the_page_have_their_levels() -> None:
    rows = {name: level for name, level, _ in ROW.findall(PAGE)}
    assert len(rows) > 50
    assert rows == {name: LEVELS.get(name) for name in rows}


def test_every_requirement_on_the_page_exists() -> None:
    named = set(re.findall(r"`([A-Z]+(?:-\d+)?/[a-z0-9-]+)`", PAGE))
    assert named - LEVELS.keys() == set()


def test_features_that_are_not_claimed_are_those_of_the_requirement() -> None:
    declared = {
        name: set(re.findall(r"(?:do not claim|exempt) `(\w+)`", declares)) for name, _, declares in ROW.findall(PAGE)
    }
    strange = {
        name: wanted - {each.name for each in SCENARIOS[name].requirement.named} for name, wanted in declared.items()
    }
    assert {name: features for name, features in strange.items() if features} == {}


def test_every_unmet_must_fails() -> None:
    assert [name for name, level, declares in ROW.findall(PAGE) if level == "MUST" and "warning" in declares] == []
