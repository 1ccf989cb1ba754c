"""Forged reports, each with the name of the check that rejects it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.harness.report.forged_run import ForgedRun


def passes(test: Any) -> None:
    test.update(verdict="passed", reason="", message="")


def move_to_passed(forged: ForgedRun) -> None:
    """Present the failed test as passed and adapt the profile's numbers, like a careful forger."""
    passes(forged.tests["leaks"])
    level = forged.profile["core"]
    level["statistics"].update(Passed=level["statistics"]["Passed"] + 1, Failed=0)
    del level["failedTests"]
    level["result"] = "partial"


def drop(forged: ForgedRun, slug: str) -> None:
    forged.report["tests"] = [each for each in forged.report["tests"] if not each["id"].endswith(f"/{slug}")]


def declare(forged: ForgedRun, name: str, *, as_: bool) -> None:
    for each in forged.report["features"]:
        if each["name"] == name:
            each["declared"] = as_


def artifact(forged: ForgedRun, **changed: str) -> None:
    forged.report["artifacts"].append({**forged.report["artifacts"][0], **changed})


def steady(forged: ForgedRun) -> Any:
    return forged.report["transitions"][0]["clients"][0]


CAUSE = {"headline": "connections are refused", "level": "MUST", "requirements": ["KEP-2/holds"]}
QUICK = {"requirements": 2, "of": 9, "mutants": 3, "ofMutants": 8, "expectedSeconds": 30.0}

REPORTS: dict[str, tuple[str, Callable[[ForgedRun], Any]]] = {
    "failed is passed": ("verdicts", lambda f: passes(f.tests["leaks"])),
    "failed is passed, with its numbers": ("verdicts", move_to_passed),
    "failed is inconclusive": ("verdicts", lambda f: f.tests["leaks"].update(verdict="inconclusive")),
    "skipped is passed": ("verdicts", lambda f: passes(f.tests["unavailable"])),
    "not claimed is passed": ("verdicts", lambda f: passes(f.tests["not-claimed"])),
    "unavailable is not claimed": ("verdicts", lambda f: f.tests["unavailable"].update(reason="unsupported")),
    "a message is milder": ("verdicts", lambda f: f.tests["leaks"].update(message="a little late")),
    "a case failed": ("verdicts", lambda f: f.tests["each-family"]["cases"][0].update(verdict="failed")),
    "a case is gone": ("verdicts", lambda f: f.tests["each-family"]["cases"].pop()),
    "the failed test is gone": ("catalogue", lambda f: drop(f, "leaks")),
    "a passed test is gone": ("catalogue", lambda f: drop(f, "holds")),
    "a test is there twice": ("schema", lambda f: f.report["tests"].append(dict(f.tests["holds"]))),
    "a test is made up": ("catalogue", lambda f: f.report["tests"].append({**f.tests["holds"], "id": "KEP-2/x"})),
    "a test is renamed": ("catalogue", lambda f: f.tests["leaks"].update(id="KEP-2/seeps")),
    "MUST is SHOULD": ("catalogue", lambda f: f.tests["leaks"].update(level="SHOULD")),
    "another profile": ("catalogue", lambda f: f.tests["leaks"].update(profile="CLUSTER")),
    "a feature is gone": ("catalogue", lambda f: f.tests["each-family"].update(features=["Routing"])),
    "the reading is another": ("catalogue", lambda f: f.tests["holds"].update({"as": "released"})),
    "more have passed": ("statistics", lambda f: f.profile["core"]["statistics"].update(Passed=99)),
    "none failed": ("statistics", lambda f: f.profile["core"]["statistics"].update(Failed=0)),
    "the level succeeded": ("statistics", lambda f: f.profile["core"].update(result="success")),
    "the list of failed tests is empty": ("schema", lambda f: f.profile["core"].update(failedTests=[])),
    "the summary says otherwise": ("statistics", lambda f: f.profile.update(summary="All tests succeeded.")),
    "it rests on more": ("statistics", lambda f: f.profile["core"].update(restsOn="MUST: 9 of 9 met")),
    "a cause is made up": ("causes", lambda f: f.report.update(causes=[CAUSE])),
    "a profile is gone": ("statistics", lambda f: f.report["profiles"].clear()),
    "a profile is added": ("statistics", lambda f: f.report["profiles"].append({**f.profile, "name": "DNS"})),
    "a feature more is supported": ("statistics", lambda f: f.profile["extended"]["supportedFeatures"].append("Other")),
    "a feature is declared": ("identity", lambda f: declare(f, "Other", as_=True)),
    "a feature that was tried is not declared": ("features", lambda f: declare(f, "PreferSameNode", as_=False)),
    "a core feature is not declared": ("features", lambda f: declare(f, "Routing", as_=False)),
    "a feature is made up": ("features", lambda f: f.report["features"].append({"name": "Z", "declared": True})),
    "another version of the implementation": ("identity", lambda f: f.report["implementation"].update(version="2.0")),
    "another implementation": ("identity", lambda f: f.report["implementation"].update(project="q")),
    "no organization": ("identity", lambda f: f.report["implementation"].update(organization="")),
    "another mode": ("identity", lambda f: f.report.update(mode="iptables")),
    "packets are said to be decisions": ("identity", lambda f: f.report.update(judges="decisions")),
    "another Kubernetes": ("identity", lambda f: f.report.update(kubernetesVersion="v1.38")),
    "another kernel": ("identity", lambda f: f.report["environment"].update(kernel="7.0")),
    "another seed": ("identity", lambda f: f.report["run"].update(seed=2)),
    "other arguments": ("identity", lambda f: f.report["run"].update(arguments=["trafficdist", "run"])),
    "a suite that is not released": ("release", lambda f: f.report["suite"].update(version="1.0.dev1")),
    "a suite of another release": ("suite", lambda f: f.report["suite"].update(harness="9.9.9")),
    "a changed checkout": ("suite", lambda f: f.report["suite"].update(revision=f"{'a' * 40}-dirty")),
    "another catalogue": ("suite", lambda f: f.report["suite"].update(catalogueDigest=f"sha256:{'0' * 64}")),
    "repeated tests": ("run", lambda f: f.report["run"].update(retries=1)),
    "requirements were left out": ("run", lambda f: f.report["run"].update(deselected={"named by --skip-tests": 1})),
    "not certifiable": ("run", lambda f: f.report["run"].update(certifiable=False, certifiableReasons=["a mutant"])),
    "certifiable, and why not": ("schema", lambda f: f.report["run"].update(certifiableReasons=["a mutant"])),
    "interrupted": ("run", lambda f: f.report["run"].update(interrupted=True)),
    "longer times": ("run", lambda f: f.report["run"].update(timeScale=9.0)),
    "made today": ("times", lambda f: f.report.update(date="2031-01-01T00:00:00Z")),
    "begun later": ("times", lambda f: f.report["run"].update(startTime="2031-01-01T00:00:00Z")),
    "quicker": ("times", lambda f: f.report["run"].update(durationSeconds=900.0)),
    "no history listed": ("artifacts", lambda f: f.report["artifacts"].clear()),
    "a file that is not there": ("artifacts", lambda f: artifact(f, path="evidence/none.txt")),
    "a file listed twice": ("schema", artifact),
    "a file outside": ("schema", lambda f: artifact(f, path="../../etc/passwd")),
    "an absolute path": ("schema", lambda f: artifact(f, path="/etc/passwd")),
    "another digest of the history": ("artifacts", lambda f: f.report["artifacts"][-1].update(sha256="0" * 64)),
    "a field that no report has": ("schema", lambda f: f.report.update(certified=True)),
    "no tests": ("schema", lambda f: f.report.pop("tests")),
    "an unknown verdict": ("schema", lambda f: f.tests["leaks"].update(verdict="waived")),
    "a quicker test": (
        "tests",
        lambda f: f.tests["holds"].update(durationSeconds=f.tests["holds"]["durationSeconds"] / 2),
    ),
    "a slower case": ("tests", lambda f: f.tests["each-family"]["cases"][1].update(durationSeconds=60.0)),
    "other counts": ("tests", lambda f: f.tests["leaks"]["observed"]["1. TCP"]["a1"].update(a1=8)),
    "other counts of a case": (
        "tests",
        lambda f: f.tests["each-family"]["cases"][0]["observed"]["1. TCP"]["a1"].update(a1=1),
    ),
    "no counts": ("tests", lambda f: f.tests["leaks"].pop("observed")),
    "a window more": ("tests", lambda f: f.tests["holds"]["observed"].update({"3. TCP": {"a1": {"a1": 99}}})),
    "another measurement": ("tests", lambda f: f.tests["holds"]["observed"]["measured 1. gap"].update(seconds=0.0)),
    "taken up at once": ("tests", lambda f: f.tests["holds"]["observed"]["convergence"].update(slowestSeconds=0.1)),
    "a stricter plan": ("tests", lambda f: f.tests["holds"]["check"].update(samples=100_000)),
    "no plan": ("tests", lambda f: f.tests["holds"].pop("check")),
    "a shorter gap": ("transitions", lambda f: steady(f).update(longestGapMs=0.5)),
    "fewer lost": ("transitions", lambda f: steady(f).update(lost={"refused": 1})),
    "no gaps": ("transitions", lambda f: f.report.pop("transitions")),
    "gaps of another test": ("transitions", lambda f: f.report["transitions"][0].update(test="KEP-2/holds")),
    "another command": ("tests", lambda f: f.tests["leaks"].update(rerun="true")),
    "no evidence": ("tests", lambda f: f.tests["leaks"]["evidence"].clear()),
    "evidence of a test that is not listed": (
        "tests",
        lambda f: f.report["artifacts"].remove(next(each for each in f.report["artifacts"] if "leaks" in each["path"])),
    ),
    "a mutant in the arguments": ("run", lambda f: f.report["run"]["arguments"].append("--mutant=drops-all")),
    "a choice in the arguments": ("run", lambda f: f.report["run"]["arguments"].extend(["--td-run-test", "KEP-2/*"])),
    "a quick run in the arguments": ("run", lambda f: f.report["run"]["arguments"].append("--quick")),
    "a quick run, said to be certifiable": ("run", lambda f: f.report["run"].update(quick=QUICK)),
    "another name in the arguments": ("identity", lambda f: f.report["run"]["arguments"].append("--td-project=q")),
    "no day": ("schema", lambda f: f.report.update(date="2026-99-99T00:00:00Z")),
    "an endless duration": ("schema", lambda f: f.tests["leaks"].update(durationSeconds=float("inf"))),
}
