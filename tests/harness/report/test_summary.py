"""Tests that the summary of a run is understandable for readers who do not know the project."""

from __future__ import annotations

from typing import Any

import pytest

from harness.judging.exit_codes import ExitCode, Situation, exit_code
from harness.judging.results import CaseResult, Result
from harness.model.judged import JUDGES
from harness.model.requirements import MAY, MUST, SHOULD, Feature, Level, Profile, Requirement
from harness.report.summary import header, summary
from harness.settings.options import resolve

FEATURE = Feature("PreferSameNode", Profile.SERVICE_PROXY, False, "")


def result(slug: str, verdict: str, *, level: Level = MUST, explanation: str = "", **said: Any) -> Result:
    requirement = Requirement(f"KEP-3015/{slug}", f"What {slug} says.", level, (FEATURE,), "KEP-3015, Design")
    case = CaseResult(f"t::{slug}", requirement.id, verdict=verdict, **said)
    case.explanation = explanation
    return Result(requirement, (case,))


def text(*results: Result, code: ExitCode) -> str:
    return "\n".join(
        line.text for line in summary(results, code=code, report="out/report.yaml", reasons=[], distrust=[])
    )


def test_summaries_equal_the_golden_files() -> None:
    said = text(
        result("node-first", "failed", message="a1 reached b1", explanation="a1 reached b1\n\n  grid"),
        result("zone-next", "passed"),
        result("cut-off", "inconclusive", message="not run: the run was interrupted", never_began=True),
        result("cut-off-too", "inconclusive", message="not run: the run was interrupted", never_began=True),
        result("any-zone", "failed", level=SHOULD, message="none", explanation="none"),
        result("any-way", "inconclusive", level=MAY, message="no route", explanation="no route"),
        result("not-here", "skipped", reason="unavailable", message="no IPv6"),
        code=ExitCode.FAILED,
    )
    assert (
        said
        == """\
                                  passed failed unclear warnings notes not run
service-proxy extended                 1      1       2        1     1       1

Not met
✗ KEP-3015/node-first  (MUST)
  What node-first says.
  KEP-3015, Design
    a1 reached b1

      grid

Inconclusive
? 2 requirements not run: the run was interrupted

Warnings: a SHOULD is not met or inconclusive
! KEP-3015/any-zone  (SHOULD)
  What any-zone says.
  KEP-3015, Design
    none

Notes: a MAY is not met or inconclusive
i KEP-3015/any-way  (MAY)
  What any-way says.
  KEP-3015, Design
    no route

Not run
\N{EN DASH} 1 unavailable: this machine or backend does not support it
    1 x no IPv6

1 MUST requirement is not met (exit code 1).
MUST: 1 of 5 met, 1 not met, 2 could not be told, 1 not run; SHOULD: 0 of 1 met, 1 not met; MAY: 0 of 1 met, 1 could \
not be told.
Report: out/report.yaml
Page:   out/report.html"""
    )


def test_summary_of_passed_musts_does_not_claim_more() -> None:
    said = text(result("zone", "passed"), result("node", "failed", level=SHOULD), code=ExitCode.PASSED)
    numbers = "MUST: 1 of 1 met; SHOULD: 0 of 1 met, 1 not met."
    assert f"a SHOULD that is not met is a warning (exit code 0).\n{numbers}" in said
    assert "All 1 selected requirements are met." in text(result("zone", "passed"), code=ExitCode.PASSED)


def test_a_long_explanation_is_cut_on_the_terminal_only() -> None:
    said = text(result("long", "failed", explanation="\n".join(map(str, range(500)))), code=ExitCode.FAILED)
    assert "440 more lines in the evidence" in said


def test_exit_codes_have_a_precedence() -> None:
    everything = {"failed": True, "inconclusive": True, "not_run": True, "distrust": True, "selected": False}
    assert exit_code(Situation(pytest_status=3, interrupted=True, **everything)) == 3
    assert exit_code(Situation(pytest_status=4, interrupted=True, **everything)) == 4
    assert exit_code(Situation(interrupted=True, **everything)) == 2
    assert exit_code(Situation(**everything)) == 12
    assert exit_code(Situation(**{**everything, "distrust": False})) == 1
    assert exit_code(Situation(inconclusive=True, not_run=True)) == 10
    assert exit_code(Situation(not_run=True)) == 11
    assert exit_code(Situation(selected=False)) == 5
    assert exit_code(Situation()) == 0


@pytest.mark.parametrize(
    ("options", "judged"),
    [
        ({}, "reference, mode nftables"),
        ({"mutant": "node-as-zone"}, "mutant node-as-zone, mode nftables"),
        (
            {"controller": "kube-controller-manager:1.34"},
            "control plane embedded, controller kube-controller-manager:1.34, proxy reference, mode nftables",
        ),
        (
            {"control-plane": "containers:1.34", "proxy": "kube-proxy", "mode": "iptables"},
            "control plane containers:1.34, controller kube-controller-manager, proxy kube-proxy, mode iptables",
        ),
    ],
)
def test_head_names_every_component_that_is_judged(options: dict[str, str], judged: str) -> None:
    lines = header(resolve(options, environment={}), version="0", reasons=[], folder="out")
    assert f"  judged       {judged}" in [line.text for line in lines]


@pytest.mark.parametrize("judges", JUDGES)
def test_head_shows_whether_packets_or_decisions_are_judged(judges: str) -> None:
    lines = header(resolve({"judges": judges}, environment={}), version="0", reasons=[], folder="out")
    assert f"  judged by    {judges}" in [line.text for line in lines]


def test_first_line_counts_the_shoulds_that_decide() -> None:
    said = text(result("zone", "passed"), result("node", "failed", level=SHOULD), code=ExitCode.FAILED)
    assert "1 SHOULD requirement is not met, and --warnings-as-errors is set (exit code 1)." in said
