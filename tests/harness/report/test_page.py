"""Tests the HTML report in a browser.

The page must be complete, work offline, be accessible, and escape foreign names.
"""

from __future__ import annotations

import html
import itertools
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.commands.main import main
from harness.eventually import eventually
from harness.judging.history import sealed
from harness.judging.judge import JudgedRun
from harness.report.conformance import read_report
from harness.report.page import page as maker
from harness.report.page.rewrite import evidence_in
from tests.harness.report.browser import BrowserPage
from tests.harness.report.conftest import JUDGED

pytest_plugins = ["pytester"]

ODD = "<script>document.title = 'obeyed'</script><img src=x onerror=\"document.title = 'obeyed'\"> \\u202e"
HOSTILE = f"""
class Followed:
    def evidence(self):
        texts = {{"again.txt": "of components", "path-a1.txt": "  1. client <b>a1</b> sends"}}
        return texts | {{"path-a1.pcap": b"\\x4d\\0\\xff"}}

@pytest.fixture
def followed():
    return Followed()

@must("KEP-2/odd")
def test_odd(history, followed):
    made = history.window("", {{"a1": {{"a1"}}, {ODD!r}: {{"b1"}}}}, Rates(0.5, 0.1))
    made.observe("a1", [Reached({ODD!r})] * 8 + [TIMED_OUT])
    judgement = made.judge()
    raise_for(judgement, judgement.message)

@must("KEP-2/loses")
def test_loses(watch):
    watch.steady(*[Reached("a1")] * 20, *[TIMED_OUT] * 50, *[Reached("a1")] * 20)
    watch.window(*[Reached("a1")] * 7, TIMED_OUT)
"""


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run."""

    folder: Path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept") / "run"


@pytest.fixture
def run(kept: Path, tmp_path: Path, request: pytest.FixtureRequest) -> RunFolder:
    """Return a copy of a run. The run has requirements with each outcome, and names that contain markup."""
    if not kept.exists():
        certify = request.getfixturevalue("certify")
        made = certify("passes", "fails", "inconclusive", "unavailable", extra=JUDGED + HOSTILE)
        shutil.copytree(made.folder, kept)
    return RunFolder(Path(shutil.copytree(kept, tmp_path / "run")))


def text_of(run: RunFolder) -> str:
    return (run.folder / "report.html").read_text(encoding="utf-8")


def opened(chromium: BrowserPage, run: RunFolder, anchor: str = "") -> BrowserPage:
    chromium.errors.clear()
    chromium.requests.clear()
    chromium.open((run.folder / "report.html").as_uri() + anchor)
    return chromium


UNFOLD = """(async () => {
  for (let left = 1; left; ) {
    const folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((each) => { each.open = true; });
    await new Promise((done) => setTimeout(done, 50));
    left = folded.length + document.querySelectorAll("[data-packed]").length;
  }
  return document.querySelectorAll("details").length;
})()"""


def test_page_has_no_errors_requests_or_injected_markup(chromium: BrowserPage, run: RunFolder) -> None:
    page = opened(chromium, run)
    assert page.run(UNFOLD) > 10
    assert page.run("document.title").endswith("conformance report")
    assert page.run("document.querySelectorAll('main img, main script').length") == 0
    assert page.errors == []
    assert [each for each in page.requests if not each.startswith(("file:", "about:"))] == []
    assert html.escape("<img src=x onerror=") in page.run("document.getElementById('KEP-2/odd').innerHTML")
    assert "\u202e" not in page.run("document.documentElement.outerHTML")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_serious(chromium: BrowserPage, run: RunFolder, axe: str, dark: bool) -> None:
    chromium.size(1280, dark=dark)
    page = opened(chromium, run)
    page.run(UNFOLD)
    assert page.serious(axe) == []


@pytest.mark.parametrize("width", [390, 820, 1440])
def test_the_page_is_as_wide_as_its_window(chromium: BrowserPage, run: RunFolder, tmp_path: Path, width: int) -> None:
    chromium.size(width)
    page = opened(chromium, run)
    page.run(UNFOLD)
    assert page.run("document.documentElement.scrollWidth") <= width
    page.photograph(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_tables_that_are_cut_show_it_and_maps_wrap(chromium: BrowserPage, run: RunFolder) -> None:
    chromium.size(390)
    page = opened(chromium, run)
    page.run(UNFOLD)
    cut = [each for each in page.run(SCROLLED) if each["content"] > each["width"]]
    assert [each for each in cut if each["map"]] == []
    shadows = [(each["attachment"], each["image"].count("linear-gradient")) for each in cut]
    assert shadows
    assert set(shadows) == {("local, local, scroll, scroll", 4)}


SCROLLED = """[...document.querySelectorAll(".scroll")].map((each) => {
  const style = getComputedStyle(each);
  return { content: each.scrollWidth, width: each.clientWidth, map: each.querySelector(".map") !== null,
           attachment: style.backgroundAttachment, image: style.backgroundImage };
})"""


def test_headings_skip_no_level(chromium: BrowserPage, run: RunFolder) -> None:
    page = opened(chromium, run)
    page.run(UNFOLD)
    requirements = page.run(HEADINGS)
    assert {3, 4} <= {level for levels in requirements for level in levels}
    assert [each for each in requirements if any(low + 1 < high for low, high in itertools.pairwise([2, *each]))] == []


HEADINGS = """[...document.querySelectorAll(".requirement")].map((each) =>
  [...each.querySelectorAll("h1, h2, h3, h4, h5, h6")].map((heading) => Number(heading.tagName[1])))"""


def test_a_print_is_black_on_white_and_fits_the_paper(
    chromium: BrowserPage, run: RunFolder, request: pytest.FixtureRequest
) -> None:
    chromium.size(760, dark=True)
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    chromium.call("Emulation.setEmulatedMedia", media="print", features=[dark])
    page = opened(chromium, run)
    request.addfinalizer(lambda: chromium.size(1280))
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.run("getComputedStyle(document.querySelector('.filter')).display") == "none"
    assert page.run("document.documentElement.scrollWidth") <= 760


def test_an_address_opens_its_requirement(chromium: BrowserPage, run: RunFolder) -> None:
    page = opened(chromium, run, "#KEP-2/holds")
    eventually(lambda: page.run("!!document.querySelector('[id=\"KEP-2/holds\"][open] .map')"), within=5.0,
               describe="the map of what is folded in")  # fmt: skip
    assert page.run("document.activeElement.closest('details').id") == "KEP-2/holds"


def test_the_list_is_filtered_and_the_filter_stands_in_the_address(chromium: BrowserPage, run: RunFolder) -> None:
    page = opened(chromium, run)
    shown = "[...document.querySelectorAll('.requirement:not([hidden])')].map(each => each.id)"
    page.run("document.querySelector('[name=q]').focus()")
    page.call("Input.insertText", text="leaks")
    assert page.run(shown) == ["KEP-2/leaks"]
    address = page.run("location.href")
    opened(chromium, run)
    page.open(address)
    assert page.run(shown) == ["KEP-2/leaks"]
    assert page.run("document.querySelector('output').textContent").startswith("1 of ")


def test_long_content_is_collapsed(chromium: BrowserPage, run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maker, "MOST_OPEN", 0)
    assert CliRunner().invoke(main, ["report", str(run.folder)]).exit_code == 0
    assert 'class="map"' not in text_of(run)
    page = opened(chromium, run)
    page.run(UNFOLD)
    assert page.run("document.querySelectorAll('[id=\"KEP-2/loses\"] table.timeline').length") == 1
    assert page.run("document.querySelectorAll('[id=\"KEP-2/loses\"] .evidence pre').length") == 1
    assert page.errors == []


def test_a_summary_is_opened_by_keyboard(chromium: BrowserPage, run: RunFolder) -> None:
    page = opened(chromium, run)
    page.run("document.querySelector('[id=\"KEP-2/holds\"] summary').focus()")
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    assert page.run("document.getElementById('KEP-2/holds').open") is True


def test_a_failure_has_map_grid_timeline_evidence_and_command(run: RunFolder) -> None:
    entries = re.split('(?=<details class="requirement)', text_of(run))
    failed = next(each for each in entries if 'id="KEP-2/loses"' in each)
    for part in ('class="map"', 'class="timeline"', '<table class="grid">', 'class="numbers"', "::test_loses"):
        assert part in failed
    assert "204 ms" in failed  # 50 probes 4 ms apart, up to the answers before and after them
    assert "explanation.txt" in failed


def test_packet_path_is_open_before_other_evidence_and_links_its_capture(run: RunFolder) -> None:
    entries = re.split('(?=<details class="requirement)', text_of(run))
    evidence = next(each for each in entries if 'id="KEP-2/odd"' in each).split('class="evidence"')[1]
    shown, capture, other = (
        evidence.index(each) for each in ("  1. client &lt;b&gt;a1", "path-a1.pcap</a>", "again.txt")
    )
    assert "<summary>The path of the first wrong packet: path-a1.txt</summary><pre" in evidence
    assert shown < capture < other
    assert (run.folder / "evidence/KEP-2/odd/path-a1.pcap").read_bytes() == b"\x4d\0\xff"


def test_failures_come_first_and_are_open(run: RunFolder) -> None:
    outcomes = re.findall(r'<details class="requirement [a-z-]+" id="[^"]+" data-outcome="([^"]+)"', text_of(run))
    order = ["failure", "inconclusive", "warning", "note", "met", "not run"]
    assert outcomes == sorted(outcomes, key=order.index)
    assert set(outcomes) >= {"failure", "inconclusive", "met", "not run"}


def test_command_creates_the_same_page_from_a_stored_run(run: RunFolder) -> None:
    before = text_of(run)
    (run.folder / "report.html").unlink()
    done = CliRunner().invoke(main, ["report", str(run.folder)])
    assert done.exit_code == 0, done.output
    ids = re.compile(r'data-outcome="([^"]+)" data-profile="([^"]+)"|class="(map|timeline)"|class="said">([^<]+)')
    assert ids.findall(text_of(run)) == ids.findall(before)


def test_a_run_of_an_older_release_has_a_page_without_timelines(run: RunFolder) -> None:
    path = run.folder / "run.jsonl"
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]

    digest, written = b"", []
    for each in lines:
        for gone in ("digest", "flow", "of"):
            each.pop(gone, None)
        line, digest = sealed(each, digest)
        written.append(line)
    path.write_bytes(b"".join(written))
    done = CliRunner().invoke(main, ["report", str(run.folder), "--output", str(run.folder / "old.html")])
    assert done.exit_code == 0, done.output
    page = (run.folder / "old.html").read_text(encoding="utf-8")
    assert 'class="map"' in page
    assert 'class="timeline"' not in page


def test_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert done.exit_code == 4
    assert "has no run.jsonl" in done.output


def test_a_run_without_its_report_is_refused(run: RunFolder) -> None:
    (run.folder / "report.yaml").unlink()
    done = CliRunner().invoke(main, ["report", str(run.folder)])
    assert done.exit_code == 4
    assert "lacks run.jsonl or report.yaml" in done.output


def test_evidence_outside_of_the_folder_is_not_shown(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("outside of it")

    read: Callable[[str], str | None] = evidence_in(run.folder)
    (run.folder / "evidence/link.txt").symlink_to(tmp_path / "secret.txt")
    assert read("evidence/link.txt") is None
    assert read("../secret.txt") is None
    assert read("run.jsonl") is not None


def test_page_shows_judged_decisions_and_added_service_fields(run: RunFolder) -> None:
    report = read_report(str(run.folder))
    nothing = {"found": [], "read": evidence_in(run.folder)}
    assert "(decisions)" not in maker.as_html(report, [], JudgedRun(), {}, **nothing)
    told = {**report["environment"], "services": {"spec": {"note": "<b>"}}}
    shown = maker.as_html({**report, "judges": "decisions", "environment": told}, [], JudgedRun(), {}, **nothing)
    assert shown.count("(decisions)") == 2  # the title and the heading of the page
    assert "<dt>Judged by</dt><dd>decisions</dd>" in shown
    assert '<dt>Every Service has</dt><dd>{"spec": {"note": "\\u003cb\\u003e"}}</dd>' in shown
