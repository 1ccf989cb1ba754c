"""Tests that the Allure report of a run shows the same results as all other reports, with any number of workers."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.eventually import eventually
from harness.model.requirements import MUST, Feature, Profile, Requirement
from tests.harness.report.browser import BrowserPage
from tests.harness.report.npm import ALLURE, installed

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]

EVERYTHING = ("passes", "fails", "inconclusive", "breaks", "unavailable", "ineligible")
OPTIONS = ("--td-supported-features=Routing", "--td-skip-tests=KEP-2/left-out")
EXTRA = """
import allure

@pytest.mark.parametrize("family", ["IPv4", "IPv6", "both"])
@must("KEP-2/families")
def test_families(family):
    assert family != "IPv6", "wrong"

@pytest.mark.parametrize("zones", [1, 2, 3])
@must("KEP-2/zones")
def test_zones(zones):
    if zones < 3:
        raise IneligibleError("too few zones")

@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
@must("KEP-2/protocols", EXTENDED)
def test_protocols(protocol):
    pass

@must("KEP-2/left-out")
def test_left_out():
    pass

@must("KEP-2/should", level=SHOULD)
def test_should():
    assert False, "not quite"

@must("KEP-2/should-be-told", level=SHOULD)
def test_should_be_told():
    raise InconclusiveError("no route")

@must("KEP-2/may", level=MAY)
def test_may():
    assert False, "not at all"

@must("KEP-2/told")
def test_told():
    with allure.step("probe"):
        allure.attach("b1: 30", name="answers")
        with allure.step("judge"):
            print("judging")
            assert False, "client a1 reached b1, want a1\\n\\n30 of 30"
"""
WORDS = {
    "passed": "passed", "failed": "failed", "broken": "inconclusive", "unknown": "unmet", "skipped": "skipped",
}  # fmt: skip
WORST_FIRST = ("failed", "unmet", "inconclusive", "skipped", "passed")


class AllurePage:
    """The content of Allure's report, which is one HTML file."""

    def __init__(self, html: str) -> None:
        self._files = dict(re.findall(r'\bd\("([^"]+)"\s*,\s*"([^"]*)"\)', html))

    def text(self, name: str) -> str:
        return base64.b64decode(self._files[name]).decode()

    def widget(self, name: str) -> Any:
        return json.loads(self.text(f"widgets/{name}.json"))

    @property
    def results(self) -> list[Any]:
        return [json.loads(self.text(name)) for name in self._files if name.startswith("data/test-results/")]

    def result(self, name: str) -> Any:
        return next(each for each in self.results if each["fullName"] == name)

    def verdicts(self) -> dict[str, str]:
        return worst((each["groupedLabels"]["requirement"][0], WORDS[each["status"]]) for each in self.results)

    def tree(self) -> Iterator[tuple[str, ...]]:
        """Yield the path of each leaf: the names of its groups, then its own name up to the first colon."""
        tree = self.widget("tree")

        def below(group: Any, way: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
            for each in group.get("groups", ()):
                found = tree["groupsById"][each]
                yield from below(found, (*way, found["name"]))
            for each in group.get("leaves", ()):
                yield (*way, tree["leavesById"][each]["name"].partition(":")[0])

        return below(tree["root"], ())

    def categories(self) -> dict[str, int]:
        nodes = self.widget("categories")["nodes"].values()
        return {node["name"]: node["statistic"]["total"] for node in nodes if node["type"] == "category"}


def worst(cases: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for requirement, verdict in cases:
        found.setdefault(requirement, set()).add(verdict)
    return {each: next(verdict for verdict in WORST_FIRST if verdict in found[each]) for each in found}


def junit_verdicts(run: Any) -> dict[str, str]:
    words = {
        ("failure", None): "failed",
        ("error", None): "inconclusive",
        ("skipped", "trafficdist.warning"): "unmet",
        ("skipped", "trafficdist.note"): "unmet",
        ("skipped", "pytest.skip"): "skipped",
    }
    return worst(
        (
            f"{each.attrib['classname']}/{each.attrib['name'].partition('[')[0]}",
            next((words[part] for child in each if (part := (child.tag, child.get("type"))) in words), "passed"),
        )
        for each in ElementTree.parse(run.folder / "junit.xml").iter("testcase")
    )


def terminal_counts(run: Any) -> Counter[str]:
    """Return the sums of the table that a run prints at its end."""
    rows = re.findall(r"^[a-z-]+ (?:core|extended)" + 6 * r" +([\d.]+)" + "$", run.text, re.MULTILINE)
    verdicts = ("passed", "failed", "inconclusive", "unmet", "may", "skipped")
    return sum(
        (Counter({v: int(n) for v, n in zip(verdicts, row, strict=True) if n != "."}) for row in rows), Counter()
    )


def meaning(test: Any, verdict: str) -> str:
    """Return the verdict that Allure must show.

    Failed and inconclusive count only for a MUST or a test that did not start.
    """
    decides = test["level"] == "MUST" or test["message"].startswith("not run: ")
    return verdict if decides or verdict in ("passed", "skipped") else "unmet"


@pytest.fixture(scope="session")
def allure() -> Path:
    """Return the Allure that the documents name, installed once into the cache."""
    return installed("allure", ALLURE.partition("@")[2], ".bin/allure", what="Allure")


@pytest.fixture
def generate(allure: Path) -> Callable[[Any], AllurePage]:
    """Return a function that makes the report of a run as in docs/reports.md, with one download for all tests."""

    def generate(run: Any) -> AllurePage:
        subprocess.run([allure, "generate", "allure-results"], cwd=run.folder, check=True, capture_output=True)
        return AllurePage((run.folder / "allure-report/index.html").read_text(encoding="utf-8"))

    return generate


def test_all_files_name_the_same_allure_version() -> None:
    for name in (".github/workflows/nightly-kind.yml", "docs/reports.md"):
        assert set(re.findall(r"allure@[\d.]+", (ROOT / name).read_text(encoding="utf-8"))) == {ALLURE}, name


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (EVERYTHING, ("-n0",)),
        (EVERYTHING, ("-n2",)),
        pytest.param(EVERYTHING, ("-n4",), marks=pytest.mark.slow),
        (EVERYTHING, ("-n0", "--td-fail-fast")),
        (EVERYTHING, ("-n2", "-k", "passes or IPv6 or protocols")),
        pytest.param(("passes", "crashes", "fails"), ("-n2",), marks=pytest.mark.slow),
        (("passes", "interrupts", "fails"), ("-n0",)),
    ],
)
def test_every_report_gives_each_requirement_the_same_verdict(
    certify: Any, generate: Callable[[Any], AllurePage], names: tuple[str, ...], options: tuple[str, ...]
) -> None:
    run = certify(*names, extra=EXTRA, options=(*OPTIONS, *options))
    page = generate(run)
    reported = {test["id"]: meaning(test, test["verdict"]) for test in run.report["tests"]}
    assert page.verdicts() == reported
    assert junit_verdicts(run) == reported
    counted = terminal_counts(run)
    counted["unmet"] += counted.pop("may", 0)
    assert +counted == Counter(reported.values())
    cases = [(test, case) for test in run.report["tests"] for case in test.get("cases", [test])]
    counts = Counter(meaning(test, case["verdict"]) for test, case in cases)
    shown = page.widget("statistic")
    assert {WORDS[each]: shown[each] for each in WORDS if each in shown} == counts
    assert shown["total"] == len(cases) == len({each["historyId"] for each in page.results})
    assert "retries" not in shown


def test_skipped_requirement_is_grey_and_in_the_category_of_its_reason(
    certify: Any, generate: Callable[[Any], AllurePage]
) -> None:
    page = generate(certify(*EVERYTHING, extra=EXTRA, options=OPTIONS))
    assert page.categories() == {
        "Requirement not met": 3,
        "Inconclusive": 2,
        "Warning: SHOULD not met": 2,
        "Note: MAY not met": 1,
        "Not claimed": 2,
        "Cluster not suited": 3,
        "Not available here": 1,
    }
    skipped = ("KEP-1/unavailable", "KEP-1/ineligible", "KEP-2/protocols[TCP]")
    assert {page.result(name)["status"] for name in skipped} == {"skipped"}
    page = generate(certify("fails", extra=EXTRA, options=(*OPTIONS, "--td-fail-fast")))
    assert page.result("KEP-2/told")["status"] == "skipped"
    assert page.categories() == {"Requirement not met": 1, "Deselected": 10, "Not claimed": 2}


def test_unmet_should_is_neither_green_nor_red(certify: Any, generate: Callable[[Any], AllurePage]) -> None:
    page = generate(certify("passes", extra=EXTRA, options=(*OPTIONS, "-k", "passes or should or may")))
    assert page.widget("statistic") == {"passed": 1, "unknown": 3, "total": 4}
    should, told, may = (page.result(f"KEP-2/{each}") for each in ("should", "should-be-told", "may"))
    assert {each["status"] for each in (should, told, may)} == {"unknown"}
    assert [each["groupedLabels"]["severity"] for each in (should, told, may)] == [["normal"], ["normal"], ["minor"]]
    assert should["error"]["message"] == "warning, SHOULD failed: not quite"
    assert told["error"]["message"] == "warning, SHOULD inconclusive: no route"


def test_tree_is_document_section_requirement(certify: Any, generate: Callable[[Any], AllurePage]) -> None:
    page = generate(certify("passes", extra=EXTRA, options=OPTIONS))
    ways = set(page.tree())
    assert ("KEP-1", "Design", "KEP-1/passes") in ways
    assert ("KEP-2", "KEP-1, Design", "KEP-2/families[IPv6]") in ways
    assert len(ways) == page.widget("statistic")["total"]


def test_failure_has_all_its_evidence(certify: Any, generate: Callable[[Any], AllurePage]) -> None:
    run = certify("passes", extra=EXTRA, options=("-n2", *OPTIONS))
    page = generate(run)
    told = page.result("KEP-2/told")
    assert told["error"]["message"] == "client a1 reached b1, want a1"
    assert "30 of 30" in told["error"]["trace"]
    assert told["links"] == [{"name": "KEP-1, Design", "url": "https://kep.k8s.io/1", "type": "link"}]
    assert told["duration"] == told["stop"] - told["start"]
    assert told["groupedLabels"]["thread"][0] in ("gw0", "gw1")
    assert told["groupedLabels"]["tag"] == ["MUST", "Routing"]
    probe, *attached = told["steps"]
    assert (probe["name"], probe["status"]) == ("probe", "failed")
    assert [each.get("name", each.get("link", {}).get("name")) for each in probe["steps"]] == ["judge", "answers"]
    assert [each["link"]["name"] for each in attached] == ["explanation.txt", "stdout"]
    evidence = (run.folder / "evidence/KEP-2/told/explanation.txt").read_text(encoding="utf-8")
    link = attached[0]["link"]
    assert page.text(f"data/attachments/{link['id']}{link['ext']}") == evidence
    parameters = {each["name"]: each["value"] for each in page.result("KEP-2/families[IPv6]")["parameters"]}
    assert parameters == {
        "case": "IPv6",
        "backend": "netns",
        "proxy": "reference",
        "mode": "nftables",
        "topology": "three_zones",
    }


def results(run: Any) -> list[Any]:
    files = (run.folder / "allure-results").glob("*-result.json")
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


def test_page_contacts_nobody_after_the_documented_command(
    certify: Any, generate: Callable[[Any], AllurePage], chromium: BrowserPage
) -> None:
    run = certify("passes")
    generate(run)
    page = run.folder / "allure-report/index.html"
    assert "googletagmanager.com" in page.read_text(encoding="utf-8")  # otherwise, docs/reports.md need not remove it
    [command] = re.findall("^    (sed .*)$", (ROOT / "docs/reports.md").read_text(encoding="utf-8"), re.MULTILINE)
    subprocess.run(command.split(), cwd=run.folder, check=True)
    chromium.requests.clear()
    chromium.open(page.as_uri())
    eventually(lambda: "KEP-1" in chromium.run("document.body.innerText"), within=30.0, describe="Allure's page")
    assert [each for each in chromium.requests if not each.startswith(("file:", "about:", "data:", "blob:"))] == []


def test_history_does_not_depend_on_the_run(certify: Any) -> None:
    first = {each["fullName"]: each["historyId"] for each in results(certify("passes", extra=EXTRA))}
    options = ("--td-seed=7", "--td-time-scale=2", "-n2")
    again = results(certify("passes", extra=EXTRA, options=options))
    assert {each["fullName"]: each["historyId"] for each in again} == first


def test_allure_has_environment_and_executor(certify: Any) -> None:
    folder = certify("passes", options=("--td-seed=7",)).folder / "allure-results"
    assert "seed = 7\n" in (folder / "environment.properties").read_text()
    assert json.loads((folder / "executor.json").read_text())["name"]


@pytest.mark.parametrize(
    ("source", "section"),
    [
        ("KEP-7, Design", "Design"),
        ("KEP-7, User Stories, Story 2 (a word, another; a third)", "User Stories, Story 2"),
        ("KEP-7, Design; released behaviour differs since 1.21 (one threshold)", "Design"),
        ("KEP-7, Unit Tests: one zone, two nodes", "Unit Tests"),
        ("KEP-7 (2022), Design (aside)", "KEP-7 (2022), Design"),
        ("core/v1 ServiceSpec.type (NodePort)", "core/v1 ServiceSpec.type"),
    ],
)
def test_section_is_the_heading_that_the_source_names(source: str, section: str) -> None:
    features = (Feature("Routing", Profile.SERVICE_PROXY, True, "Routes."),)
    assert Requirement("KEP-7/one", "A sentence.", MUST, features, source).section == section
