"""The page on past bugs names mutants, requirements and drawn values that exist."""

from __future__ import annotations

import re

from harness.variation.axes import parse_draw
from mutants import MUTANTS
from tests.conformance.mutant_trials import SCENARIOS
from tests.docs.documented_commands import ROOT

FEWEST = 60
PAGE = (ROOT / "docs/past-bugs.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \[([\w-]+#\d+)\]\((\S+)\) \| (.+) \| (.+) \| (.+) \|$", PAGE, flags=re.MULTILINE)
FINDERS = {each for row in ROWS for each in re.findall(r"`([^`]+)`", row[3])}
NAMED = {each for row in ROWS for each in re.findall(r"`([^`]+)`", row[4])}


def test_page_has_enough_rows_and_each_bug_once() -> None:
    bugs = [row[0] for row in ROWS]
    assert len(bugs) >= FEWEST
    assert len(bugs) == len(set(bugs))
    assert len(bugs) == sum(line.startswith("| [") for line in PAGE.splitlines())


def test_links_lead_to_the_issue_that_they_name() -> None:
    wrong = [link for bug, link, *_ in ROWS if re.sub(r"(issues|pull)/", "", link).split("/")[-2:] != bug.split("#")]
    assert wrong == []


def test_mutants_exist() -> None:
    assert NAMED - MUTANTS.keys() == set()


def test_requirements_and_drawn_values_exist() -> None:
    drawn = {each for each in FINDERS if "=" in each}
    for each in drawn:
        parse_draw(each)
    assert FINDERS - drawn - SCENARIOS.keys() == set()
