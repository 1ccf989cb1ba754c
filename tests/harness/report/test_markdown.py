"""Tests the summary for a pull request. Failures come first, the Mermaid diagram is valid, and names are escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.commands.main import main
from harness.judging.results import CaseResult, Result
from harness.judging.verdict import CellMark, GridCell, GridRow
from harness.model.requirements import MUST, Feature, Profile, Requirement
from harness.report.markdown import as_markdown
from harness.report.page.cluster_map import MOST_ARROWS, TIMES, as_mermaid, map_of
from tests.harness.report.browser import BrowserPage
from tests.harness.report.conftest import JUDGED
from tests.harness.report.npm import installed

pytest_plugins = ["pytester"]

GITHUB = 65_536
"""Maximum length of a comment on GitHub, in characters."""
MERMAID = "11.12.0"
NODES = (("a1", "a"), ("a2", "a"), ("b1", "b"))
ODD = 'a1"] --> x<script>#`|;%%\n\u202e'
FAILS = """
@must("KEP-2/reaches-others")
def test_reaches_others(history):
    made = history.window("", {"a1": {"a1"}, "outside via a2": {"b1"}}, Rates(0.5, 0.1))
    made.observe("a1", [Reached("a1")] * 6 + [Reached("b1")] * 2)
    made.observe("outside via a2", [TIMED_OUT] * 9)
    judgement = made.judge()
    raise_for(judgement, judgement.message)
"""


def drawn(*rows: GridRow, pods: tuple[str, ...] = ("a1", "b1")) -> str:
    return as_mermaid(map_of(NODES, pods, rows))


def row(client: str, **cells: GridCell) -> GridRow:
    return GridRow(client, "", cells)


def test_clients_and_pods_are_inside_their_nodes_and_wrong_answers_are_thick_red() -> None:
    found = drawn(
        row("a2", a1=GridCell(6, CellMark.RIGHT), b1=GridCell(2, CellMark.WRONG)),
        row("node b1", a1=GridCell(0, CellMark.UNSEEN)),
    )
    assert (
        found
        == f"""\
flowchart TB
  subgraph z0["zone a"]
    subgraph n0["a1"]
      p0["a1"]
    end
    subgraph n1["a2"]
      c0(["client a2"])
    end
  end
  subgraph z2["zone b"]
    subgraph n2["b1"]
      c1(["node b1"])
      p1["b1"]
    end
  end
  c0 -->|"6{TIMES}"| p0
  linkStyle 0 stroke:#1c7a4a
  c1 -.->|"never"| p0
  linkStyle 1 stroke:#9a6700
  c0 ==>|"2{TIMES}"| p1
  linkStyle 2 stroke:#d1242f,stroke-width:4px"""
    )


def test_with_many_arrows_right_answers_are_left_out() -> None:
    pods = tuple(f"a1-{number}" for number in range(MOST_ARROWS + 1))
    cells = {pod: GridCell(3, CellMark.RIGHT) for pod in pods}
    found = drawn(GridRow("a1", "", cells), row("a2", **{pods[0]: GridCell(1, CellMark.WRONG)}), pods=pods)
    assert found.count("-->") == 0
    assert found.count("==>") == 1


@pytest.fixture(scope="session")
def mermaid() -> str:
    """Return the script of Mermaid, which is installed once into the cache."""
    return installed("mermaid", MERMAID, "mermaid/dist/mermaid.min.js", what="Mermaid").read_text(encoding="utf-8")


@pytest.fixture
def picture(chromium: BrowserPage, mermaid: str, tmp_path: Path) -> Callable[[str], str]:
    """Render a text with Mermaid in strict mode, as GitHub does. Return all words in the diagram."""
    (tmp_path / "page.html").write_text("<title>Mermaid</title><body></body>")
    chromium.open((tmp_path / "page.html").as_uri())
    chromium.run(mermaid)

    def make(text: str) -> str:
        chromium.run("mermaid.initialize({startOnLoad: false, securityLevel: 'strict'})")
        script = f"mermaid.render('m', {json.dumps(text)}).then(made => {{ document.body.innerHTML = made.svg }})"
        chromium.run(script)
        return str(chromium.run("document.body.innerText"))

    return make


def test_mermaid_shows_foreign_names_unchanged(picture: Callable[[str], str], chromium: BrowserPage) -> None:
    nodes = ((ODD, ODD), ("b1", "b"))
    shown = map_of(
        nodes,
        [ODD, "b1"],
        [GridRow(ODD, "", {"b1": GridCell(2, CellMark.WRONG), "timed out": GridCell(3, CellMark.WRONG)})],
    )
    words = picture(as_mermaid(shown))
    assert words.count('a1"] --> x<script>#`|;%%') >= 3
    assert "timed out" in words
    assert chromium.run("document.querySelectorAll('script').length") == 0


def summary(run: Any) -> str:
    done = CliRunner().invoke(main, ["report", str(run.folder), "--markdown"])
    assert done.exit_code == 0, done.output
    return done.output


def test_failures_come_first_each_with_its_diagram(
    certify: Any, picture: Callable[[str], str], tmp_path: Path, chromium: BrowserPage
) -> None:
    said = summary(certify("passes", "inconclusive", "unavailable", extra=JUDGED + FAILS))
    headings = re.findall(r"^### (.+)$", said, re.MULTILINE)
    assert headings == ["Causes", "✗ Not met (2)", "? Inconclusive (2)"]
    told = said.partition("**`KEP-2/reaches-others`** (MUST): ")[2]
    assert "\n> a1 reached b1 in 2 of 8 probes, where a1 is expected (and 2 more)\n" in told
    text = told.partition("```mermaid\n")[2].partition("\n```")[0]
    words = picture(text)
    assert f"2{TIMES}" in words
    assert "outside via a2" in words
    chromium.photograph(tmp_path / "picture.png")
    assert "</details>" in told


def test_a_summary_of_hundreds_of_failures_fits_a_comment() -> None:
    feature = Feature("Routing", Profile.SERVICE_PROXY, True, "")
    results = []
    for number in range(400):
        requirement = Requirement(f"KEP-1/r-{number}", "It holds. " * 20, MUST, (feature,), "KEP-1")
        case = CaseResult("t", requirement.id, verdict="failed", message="m" * 900, explanation="```\n" * 900)
        results.append(Result(requirement, (case,)))
    said = as_markdown(REPORT, results, {})
    assert len(said) < GITHUB
    assert re.search(r"^- and 3\d\d more, in report.yaml and report.html$", said, re.MULTILINE)
    assert "````text\n```\n" in said


REPORT = {
    "environment": {"nodes": []}, "implementation": {"project": "<b>p</b>", "version": "1"}, "mode": "x",
    "run": {}, "tests": [],
}  # fmt: skip


def test_foreign_names_are_escaped() -> None:
    assert as_markdown(REPORT, [], {}).startswith("## &lt;b&gt;p&lt;/b&gt; 1 x\n")


def test_markdown_option_excludes_output() -> None:
    done = CliRunner().invoke(main, ["report", "latest", "--markdown", "--output", "page.html"])
    assert done.exit_code == 4
    assert "--markdown prints a summary, and cannot be combined with --output" in done.output
