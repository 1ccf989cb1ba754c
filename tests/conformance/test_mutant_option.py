"""The output and the report of a run against a mutant always name the mutant."""

from __future__ import annotations

from pathlib import Path

import pytest

import mutants
from harness.errors import UsageError
from harness.report.environment import implementation
from harness.report.summary import header
from harness.run.plan import Plan, not_certifiable
from harness.settings.options import resolve


def test_unknown_mutant_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(UsageError, match="unknown mutant 'ignores-zone-hint'; did you mean ignores-zone-hints"):
        resolve({"backend": "netns", "mutant": "ignores-zone-hint"})


def test_report_names_the_mutant_for_any_project_name() -> None:
    settings = resolve({"backend": "netns", "mutant": "skips-zone-tier", "project": "acme-proxy"})
    assert implementation(settings)["project"] == "mutant skips-zone-tier"


def test_benign_variant_is_reported_as_a_mutant_and_not_certifiable() -> None:
    settings = resolve({"backend": "netns", "mutant": "takes-turns"})
    assert not_certifiable(settings, Plan(), whole_suite=True) == ["mutant takes-turns was judged"]


def test_header_says_that_a_mutant_is_judged() -> None:
    settings = resolve({"backend": "netns", "mutant": "skips-zone-tier"})
    lines = [line.text for line in header(settings, version="1", reasons=[], folder="out")]
    assert any("mutant skips-zone-tier" in line for line in lines)


def test_name_of_each_mutant_is_a_literal_in_its_source() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(*mutants.__path__).glob("*.py"))
    assert [name for name in (*mutants.MUTANTS, *mutants.BENIGN) if f'"{name}"' not in sources] == []
