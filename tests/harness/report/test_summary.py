"""Tests that the summary of a run is understandable for readers who do not know the project."""

from __future__ import annotations

from typing import Any

import pytest

from harness.judging.exit_codes import ExitCode, ExitConditions, exit_code
from harness.judging.results import CaseResult, Result
from harness.model.requirements import MAY, MUST, SHOULD, Feature, Level, Profile, Requirement
from harness.model.verdict_basis import JUDGES
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
                                  passed failed inconclusive warnings notes not run
service-proxy extended                 1      1            2        1     1       1

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

Causes
1. a1 reached b1
   1 requirement (1 MUST): KEP-3015/node-first
2. none
   1 requirement (1 SHOULD): KEP-3015/any-zone

1 MUST requirement is not met, by 1 cause (exit code 1): a1 reached b1.
MUST: 1 of 5 met, 1 not met, 2 could not be told, 1 not run; SHOULD: 0 of 1 met, 1 not met; MAY: 0 of 1 met, 1 could \
not be told.
Report: out/report.yaml
Page:   out/report.html"""
    )


def test_verdict_says_what_is_the_case() -> None:
    must, other = (result(each, "failed", message="a1 reached b1") for each in ("zone", "node"))
    should = result("any", "failed", level=SHOULD, message="no answer")
    met, unclear, skipped = (result(each, each, reason="unavailable") for each in ("passed", "inconclusive", "skipped"))
    known: list[tuple[tuple[Result, ...], ExitCode, str]] = [
        (
            (met, must, other, should),
            ExitCode.FAILED,
            "2 MUST requirements are not met, by 1 cause (exit code 1): a1 reached b1.",
        ),
        (
            (met, should),
            ExitCode.PASSED,
            "The only MUST requirement is met; 1 SHOULD requirement is not met, by 1 cause (exit code 0): no answer.",
        ),
        ((met, met), ExitCode.PASSED, "All 2 selected requirements are met."),
        (
            (met, unclear),
            ExitCode.INCONCLUSIVE,
            "No MUST failed, but 1 MUST requirement is inconclusive (exit code 10).",
        ),
        ((met, skipped), ExitCode.PARTIAL, "No MUST failed, but 1 MUST requirement is not run (exit code 11)."),
        ((must,), ExitCode.INTERRUPTED, "Interrupted (exit code 2)."),
    ]
    for results, code, said in known:
        assert said in text(*results, code=code).splitlines()


def test_verdict_names_the_shoulds_that_decide() -> None:
    said = text(result("zone", "passed"), result("node", "failed", level=SHOULD, message="none"), code=ExitCode.FAILED)
    assert (
        "The only MUST requirement is met; with --warnings-as-errors, 1 SHOULD requirement is not met (KEP-3015/node), "
        "by 1 cause (exit code 1): none."
    ) in said.splitlines()


def test_verdict_has_three_headlines_at_most() -> None:
    said = text(*(result(f"r{each}", "failed", message=f"m{each}") for each in range(5)), code=ExitCode.FAILED)
    assert "5 MUST requirements are not met, by 5 causes (exit code 1): m0; m1; m2; and 2 more." in said


def test_causes_are_listed_with_their_requirements() -> None:
    said = text(
        *(result(f"r{each}", "failed", message="none", rerun="again") for each in range(6)), code=ExitCode.FAILED
    )
    names = ", ".join(f"KEP-3015/r{each}" for each in range(4))
    assert f"Causes\n1. none\n   6 requirements (6 MUST): {names}, and 2 more\n   again\n" in said


def test_a_long_explanation_is_cut_on_the_terminal_only() -> None:
    said = text(result("long", "failed", explanation="\n".join(map(str, range(500)))), code=ExitCode.FAILED)
    assert "440 more lines in the evidence" in said


def test_exit_codes_have_a_precedence() -> None:
    everything = {"failed": True, "inconclusive": True, "not_run": True, "distrust": True, "selected": False}
    assert exit_code(ExitConditions(pytest_status=3, interrupted=True, **everything)) == 3
    assert exit_code(ExitConditions(pytest_status=4, interrupted=True, **everything)) == 4
    assert exit_code(ExitConditions(interrupted=True, **everything)) == 2
    assert exit_code(ExitConditions(**everything)) == 12
    assert exit_code(ExitConditions(**{**everything, "distrust": False})) == 1
    assert exit_code(ExitConditions(inconclusive=True, not_run=True)) == 10
    assert exit_code(ExitConditions(not_run=True)) == 11
    assert exit_code(ExitConditions(selected=False)) == 5
    assert exit_code(ExitConditions()) == 0


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
