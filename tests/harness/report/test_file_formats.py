"""Tests that report, JUnit, Allure and history of a run agree, and that each file has its expected format."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.report import causes

pytest_plugins = ["pytester"]

EVERYTHING = ("passes", "fails", "inconclusive", "breaks", "unavailable", "ineligible")
EXTRA = """
@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
@must("KEP-2/both-families", EXTENDED, level=SHOULD)
def test_both(family):
    '''A test may fail in one case.'''
    assert family == "IPv4", "\\x00 control characters"

@must("KEP-2/left-out", EXTENDED, level=MAY)
def test_left_out():
    pass
"""


OUTCOMES = {("SHOULD", "failed"): "warning"}  # the one requirement below MUST that fails


def allure_results(run: Any) -> list[Any]:
    files = (run.folder / "allure-results").glob("*-result.json")
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (EVERYTHING, ()),
        (EVERYTHING, ("-n2",)),
        (EVERYTHING, ("--td-fail-fast",)),
        (("passes", "interrupts", "fails"), ()),
        (("passes", "crashes", "fails"), ("-n2",)),
        (("passes", "distrusts", "fails"), ()),
        (EVERYTHING, ("-k", "passes or both")),
        (EVERYTHING, ("-k", "IPv4")),
        (EVERYTHING, ("-n2", "-k", "IPv4")),
    ],
)
def test_all_formats_count_the_same(certify: Any, names: tuple[str, ...], options: tuple[str, ...]) -> None:
    run = certify(*names, extra=EXTRA, options=("--td-skip-tests=KEP-2/left-out", *options))
    cases = [case for test in run.report["tests"] for case in test.get("cases", [test])]
    counts = Counter(
        OUTCOMES.get((test["level"], case["verdict"]), case["verdict"])
        for test in run.report["tests"]
        for case in test.get("cases", [test])
    )
    suite = ElementTree.parse(run.folder / "junit.xml").getroot()[0]
    junit = {key: int(suite.attrib[key]) for key in ("tests", "failures", "errors", "skipped")}
    assert junit == {
        "tests": len(cases),
        "failures": counts["failed"],
        "errors": counts["inconclusive"],
        "skipped": counts["skipped"] + counts["warning"],
    }
    words = {
        "passed": "passed", "failed": "failed", "broken": "inconclusive", "unknown": "warning", "skipped": "skipped",
    }  # fmt: skip
    assert Counter(words[result["status"]] for result in allure_results(run)) == counts


def test_junit_names_documents_and_slugs_and_explains(certify: Any) -> None:
    run = certify(*EVERYTHING, extra=EXTRA)
    found = {
        (each.attrib["classname"], each.attrib["name"]): each
        for each in ElementTree.parse(run.folder / "junit.xml").iter("testcase")
    }
    failure = found["KEP-1", "fails"].find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "client a1 reached b1, want a1"
    assert "The sentence of KEP-1/fails." in str(failure.text)
    assert "   0 30" in str(failure.text)
    error, skipped = found["KEP-1", "inconclusive"].find("error"), found["KEP-1", "ineligible"].find("skipped")
    assert error is not None
    assert error.attrib["message"] == "a1 has no route"
    assert skipped is not None
    assert skipped.attrib["message"] == "ineligible: one zone only"
    warning = found["KEP-2", "both-families[IPv6]"].find("skipped")
    assert warning is not None
    assert warning.attrib["type"] == "trafficdist.warning"
    assert warning.attrib["message"].startswith("warning, SHOULD failed: ")
    assert "The sentence of KEP-2/both-families." in str(warning.text)


@pytest.mark.parametrize("element", ["skipped", "failure"])
def test_viewers_of_junit_show_a_should_that_is_not_met_as_a_warning(certify: Any, element: str) -> None:
    options = () if element == "skipped" else ("--td-junit-warnings=failure",)
    run = certify("passes", extra=EXTRA, options=options)
    suite = ElementTree.parse(run.folder / "junit.xml").getroot()[0]
    warned = next(each for each in suite if each.attrib["name"] == "both-families[IPv6]")
    assert [each.tag for each in warned] == ["properties", element, "system-out"]
    named = {each.attrib["name"]: each.attrib["value"] for each in warned.iter("property")}
    assert named == {"trafficdist.level": "SHOULD", "trafficdist.outcome": "warning"}
    assert (warned.findtext("system-out") or "").startswith("warning, SHOULD failed: ")
    found = {each: len(list(suite.iter(each))) for each in ("skipped", "failure")}
    assert found == {"skipped": int(suite.attrib["skipped"]), "failure": int(suite.attrib["failures"])}
    assert run.code == 0  # warnings do not fail a run
    assert run.report["run"].get("junitWarnings", "skipped") == element


def test_artifacts_have_their_digests(certify: Any) -> None:
    run = certify("passes", "fails")
    artifacts = {each["path"]: each["sha256"] for each in run.report["artifacts"]}
    assert {"junit.xml", "report.html", "evidence/KEP-1/fails/explanation.txt"} <= artifacts.keys()
    files = sorted((run.folder / "allure-results").iterdir())
    summed = "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files
    )  # as sha256sum
    assert artifacts.pop("allure-results/") == hashlib.sha256(summed.encode()).hexdigest()
    for path, digest in artifacts.items():
        assert hashlib.sha256((run.folder / path).read_bytes()).hexdigest() == digest


def test_nothing_temporary_is_left(certify: Any) -> None:
    run = certify("passes", "fails", options=("-n2",))
    assert {path.name for path in run.folder.iterdir()} >= {"report.yaml", "junit.xml", "allure-results"}
    assert not [path for path in run.folder.rglob(".*") if path.name != ".trafficdist"]


def test_causes_are_grouped_once_at_the_end_of_a_run(certify: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    grouped, calls = causes.grouped, []
    monkeypatch.setattr(causes, "grouped", lambda results: calls.append(len(results)) or grouped(results))
    run = certify("passes", "fails")
    assert "by 1 cause" in run.text
    assert [each["requirements"] for each in run.report["causes"]] == [["KEP-1/fails"]]
    assert calls == [2]
