"""The summary says what happened in words for somebody who does not know the project."""

from __future__ import annotations

from typing import Any

import pytest

from harness.judging.exit_codes import ExitCode, Situation, exit_code
from harness.judging.results import CaseResult, Result
from harness.model.requirements import SHOULD, Feature, Profile, Requirement
from harness.report.summary import header, summary
from harness.settings.options import resolve

FEATURE = Feature("PreferSameNode", Profile.SERVICE_PROXY, False, "")


def result(slug: str, verdict: str, *, explanation: str = "", **said: Any) -> Result:
    requirement = Requirement(f"KEP-3015/{slug}", f"What {slug} says.", SHOULD, (FEATURE,), "KEP-3015, Design")
    case = CaseResult(f"t::{slug}", requirement.id, verdict=verdict, **said)
    case.explanation = explanation
    return Result(requirement, (case,))


def text(*results: Result, code: ExitCode) -> str:
    return "\n".join(
        line.text for line in summary(results, code=code, report="out/report.yaml", reasons=[], distrust=[])
    )


def test_golden() -> None:
    said = text(
        result("node-first", "failed", message="a1 reached b1", explanation="a1 reached b1\n\n  grid"),
        result("zone-next", "passed"),
        result("cut-off", "inconclusive", message="not run: the run was interrupted", never_began=True),
        result("cut-off-too", "inconclusive", message="not run: the run was interrupted", never_began=True),
        result("not-here", "skipped", reason="unavailable", message="no IPv6"),
        code=ExitCode.FAILED,
    )
    assert (
        said
        == """\
                                    passed  failed  unclear  not run
service-proxy extended                   1       1        2        1

Not met
✗ KEP-3015/node-first  (SHOULD)
  What node-first says.
  KEP-3015, Design
    a1 reached b1

      grid

Could not be told
? 2 requirements not run: the run was interrupted

Not run
\N{EN DASH} 1 unavailable: this machine or backend cannot do it
    1 x no IPv6

At least one requirement is not met (exit code 1).
Report: out/report.yaml"""
    )


def test_a_long_explanation_is_cut_on_the_terminal_only() -> None:
    said = text(result("long", "failed", explanation="\n".join(map(str, range(500)))), code=ExitCode.FAILED)
    assert "440 more lines in the evidence" in said


def test_precedence_of_exit_codes() -> None:
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
