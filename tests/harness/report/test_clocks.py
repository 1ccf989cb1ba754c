"""A whole report shows one event with one clock and one rounding.

This holds for the page, YAML, JUnit, Allure, the history, the lines that a run prints, and comparisons of reports.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from harness.judging.history import read
from harness.judging.judge import judge
from harness.judging.timeline import lossy_gaps
from harness.model.times import milliseconds, since_start
from harness.report.comparison import as_markdown

SUITE = """
from trafficdist import MUST, Cluster, Feature, Profile, endpoint, expect_no_loss, expect_traffic, requirement

ROUTING = Feature("Routing", Profile.SERVICE_PROXY, True, "Routes.")

@requirement("KEP-1/never-empty", "A Service is never empty.", level=MUST, features={ROUTING}, source="KEP-1")
def test_never_empty(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    expect_traffic(three_zones, service, {"a2": {a1}})
    with expect_no_loss(three_zones, service, from_=["a2"], allowed={a1, b1}) as flow:
        three_zones.publish(service, [])
        three_zones.settle()
        flow.wait_for_samples(300)
        three_zones.publish(service, [endpoint(b1)])
        expect_traffic(three_zones, service, {"a2": {b1}})
"""
ID = "KEP-1/never-empty"


@dataclass(frozen=True)
class RunFiles:
    folder: Path
    page: str
    """The text of the page, with | between its elements."""

    printed: str
    """What the run printed."""

    @property
    def report(self) -> dict[str, Any]:
        return dict(yaml.safe_load((self.folder / "report.yaml").read_text(encoding="utf-8")))

    @property
    def client(self) -> dict[str, Any]:
        """The numbers of the steady traffic's only client in the report."""
        (client,) = self.report["transitions"][0]["clients"]
        return dict(client)

    @property
    def explanation(self) -> str:
        """The text of the failure in JUnit."""
        (failure,) = ElementTree.parse(self.folder / "junit.xml").iter("failure")
        return failure.text or ""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, netns_allowed: None) -> RunFiles:
    """Run a requirement that is not met: a Service loses its only endpoint for more than a second."""
    place = tmp_path_factory.mktemp("clocks")
    (place / "pack").mkdir()
    (place / "pack" / "test_sample.py").write_text(SUITE, encoding="utf-8")
    program = "from harness.commands.main import main; from harness.report import summary; summary._SLOW = 0.0; main()"
    command = [sys.executable, "-c", program, "run", "--suite", "pack"]
    options = ["--draw", "plain", "--output-dir", "out"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=200, cwd=place)
    assert done.returncode == 1, done.stdout + done.stderr
    text = (place / "out" / "report.html").read_text(encoding="utf-8")
    return RunFiles(place / "out", html.unescape(re.sub(r"<[^>]*>", "|", text)), done.stdout + done.stderr)


def test_changes_have_one_zero_on_the_page_in_the_explanation_and_in_the_history(run: RunFiles) -> None:
    judged = judge(read(run.folder / "run.jsonl").records, run.folder)
    story = judged.stories[ID, ""]
    assert story.begun is not None
    by_history = [since_start(each.at - story.begun) for each in story.changes if each.what == "write slice"]
    told = re.findall(r"^ *(\S+ ms)  write slice", run.explanation, re.MULTILINE)
    drawn = re.findall(r"\|(\S+ ms)  write slice", run.page)
    assert told == by_history
    assert drawn == by_history[1:]  # those while the traffic lasted
    assert "after the start of the scenario" in run.page


def test_the_gap_has_one_length_and_one_beginning(run: RunFiles) -> None:
    story = judge(read(run.folder / "run.jsonl").records, run.folder).stories[ID, ""]
    (flow,) = [each for each in story.windows if each.flows]
    begin, end = max(lossy_gaps(flow.flows["a2"]), key=lambda gap: gap[1] - gap[0])
    length = milliseconds(end - begin)
    assert length > 1000
    assert story.begun is not None
    (counted,) = [each for each in run.report["tests"][0]["observed"].items() if "through changes" in each[0]]
    assert (run.client["longestGapMs"], counted[1]["a2"]["longestGapMs"]) == (length, length)
    assert flow.tallies["a2"].gap_ms == length
    whole = f"{length:,.0f} ms"
    assert re.findall(r"its longest gap is (\S+ ms)", run.explanation) == [whole]
    drawn = [gap for gap in re.findall(r"([\d,]+ ms) from (\S+ ms)", run.page) if gap[0] == whole]
    assert drawn == [(whole, since_start(begin - story.begun))]


def test_the_table_of_numbers_is_that_of_the_report(run: RunFiles) -> None:
    client = run.client
    (reaction,) = client["reactions"]
    values = [client["longestGapMs"], client["longestPauseMs"]]
    cells = [f"{each:,.0f}" for each in (*values, reaction["firstRightMs"], reaction["allRightMs"])]
    (row,) = re.findall(r"^\|+a2\|+(\d+\|.*)$", run.page, re.MULTILINE)
    found = [each for each in row.split("|") if each]
    assert [found[1], found[2], *found[-2:]] == cells


def test_a_comparison_has_the_numbers_of_the_page(run: RunFiles) -> None:
    (reaction,) = run.client["reactions"]
    (row,) = re.findall(rf"^\| {reaction['change']} \| (.*) \|$", as_markdown([run.report]), re.MULTILINE)
    until_right = f"{max(reaction['firstRightMs'], reaction['allRightMs']):,.0f}"
    assert row.split(" | ") == [until_right] * 2
    assert until_right in run.page.split("|")


def test_the_lines_of_a_run_have_the_durations_of_the_report(run: RunFiles) -> None:
    (test,) = run.report["tests"]
    assert re.findall(rf"{ID} +(\S+ s)$", run.printed, re.MULTILINE) == [f"{test['durationSeconds']:.1f} s"]
    (slowest,) = [each["slowestSeconds"] for each in test["observed"].values() if "slowestSeconds" in each]
    assert f"The slowest change took {slowest:.1f} s" in run.printed


def test_the_duration_is_one_value_in_all_files(run: RunFiles) -> None:
    (took,) = [each for each in read(run.folder / "run.jsonl").records if each["kind"] == "took"]
    seconds = round(took["seconds"], 3)
    (test,) = run.report["tests"]
    (case,) = ElementTree.parse(run.folder / "junit.xml").iter("testcase")
    (result,) = (
        json.loads(path.read_text(encoding="utf-8")) for path in (run.folder / "allure-results").glob("*-result.json")
    )
    assert test["durationSeconds"] == seconds
    assert case.attrib["time"] == f"{seconds:.3f}"
    assert result["stop"] - result["start"] == round(seconds * 1000)
    assert f"|{seconds:.1f} s|" in run.page
    lines = [each for each in run.explanation.splitlines() if " ms  " in each]
    assert lines
    assert all(each in run.page for each in lines)
