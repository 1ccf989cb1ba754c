"""Tests the comparison of two nightly reports."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from harness.commands.main import main
from harness.report.changes import MOST_ISSUES, VerdictChange, as_markdown, changes, issues, new_ones, not_compared

pytest_plugins = ["pytester"]


def report(revision: str = "a" * 40, **verdicts: str) -> dict[str, Any]:
    """Return a report in which each requirement has this verdict."""
    return {
        "kubernetesVersion": "v1.37.0",
        "suite": {"version": "0.1.0", "revision": revision},
        "tests": [
            {"id": f"K/{name}", "level": "MUST", "verdict": verdict, "message": f"{name} said"}
            for name, verdict in verdicts.items()
        ],
    }


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("passed", "passed", False),
        ("passed", "failed", True),
        ("failed", "passed", True),
        ("passed", "inconclusive", True),
        ("passed", "skipped", True),
        ("failed", "failed", False),
    ],
)
def test_change_is_another_verdict(before: str, after: str, changed: bool) -> None:
    found = changes({"here": report(x=before)}, {"here": report(x=after)})
    assert [(each.before, each.after) for each in found] == ([(before, after)] if changed else [])


@pytest.mark.parametrize(
    ("verdict", "changed"), [("passed", False), ("skipped", False), ("failed", True), ("inconclusive", True)]
)
def test_new_requirement_counts_when_it_is_not_met(verdict: str, changed: bool) -> None:
    found = changes({"here": report()}, {"here": report(x=verdict)})
    assert [each.before for each in found] == ["absent"] * changed


def test_requirement_that_has_vanished_is_a_change() -> None:
    [found] = changes({"here": report(x="passed", y="passed")}, {"here": report(y="passed")})
    assert (found.requirement, found.before, found.after) == ("K/x", "passed", "absent")


def test_requirements_left_out_by_a_quick_run_are_not_changes() -> None:
    whole, quick = report(x="passed", y="passed", z="failed"), {**report(y="failed"), "run": {"quick": {}}}
    assert [(each.requirement, each.after) for each in changes({"here": whole}, {"here": quick})] == [("K/y", "failed")]
    back = changes({"here": quick}, {"here": whole})
    assert [(each.requirement, each.before) for each in back] == [("K/y", "failed")]
    assert new_ones({"here": quick}, {"here": whole}) == []


@pytest.mark.parametrize(
    ("reason", "changed"),
    [
        ("not named by --run-test", ["K/y"]),
        ("named by --skip-tests", ["K/y"]),
        ("profile dns is not selected", ["K/y"]),
        ("profile cluster is not selected", ["K/x", "K/y", "K/z"]),
    ],
)
def test_requirements_left_out_by_a_selection_are_not_changes(reason: str, changed: list[str]) -> None:
    whole, some = report(x="passed", y="passed", z="failed"), {**report(y="failed"), "run": {"deselected": {reason: 2}}}
    for test in whole["tests"]:
        test["profile"] = "DNS"
    old, new = {"here": whole}, {"here": some}
    assert [each.requirement for each in changes(old, new)] == changed
    assert [each.requirement for each in changes(new, old)] == [each for each in changed if each != "K/x"]
    assert new_ones(new, old) == [each for each in changed if each != "K/y"]
    assert not_compared(old, new) == not_compared(new, old) == 3 - len(changed)


def test_new_requirements_are_named() -> None:
    before, after = {"here": report(x="passed")}, {"here": report(x="passed", y="passed"), "there": report(z="passed")}
    assert new_ones(before, after) == ["K/y"]
    assert as_markdown(changes(before, after), ["K/y"]) == "No verdict changed.\n\nNew: `K/y`."


def test_configuration_without_an_old_report_has_no_changes() -> None:
    assert changes({"there": report(x="passed")}, {"here": report(x="failed")}) == []


def test_version_differences_are_shown_with_the_change() -> None:
    [change] = changes({"here": report(x="passed")}, {"here": report("b" * 40, x="failed")})
    assert change.versions == "suite 0.1.0 aaaaaaaaaa → 0.1.0 bbbbbbbbbb"
    assert "x said · suite 0.1.0 aaaaaaaaaa → 0.1.0 bbbbbbbbbb" in as_markdown([change])


def test_requirement_has_one_issue_for_all_configurations() -> None:
    old = {place: report(x="passed", y="failed") for place in ("one", "two")}
    new = {place: report(x="failed", y="failed") for place in ("one", "two")}
    [issue] = issues(changes(old, new))
    assert issue.title == "Verdict changed: K/x"
    assert "| one | passed | failed | x said |\n| two | passed | failed | x said |" in issue.body


def test_many_changes_are_one_issue() -> None:
    found = [VerdictChange(f"K/{number}", "here", "passed", "failed") for number in range(MOST_ISSUES + 1)]
    assert len(issues(found[:-1])) == MOST_ISSUES
    [issue] = issues(found)
    assert issue.title == "Verdicts changed: many requirements"
    assert all(f"`{each.requirement}`" in issue.body for each in found)


def test_message_does_not_break_its_table() -> None:
    row = as_markdown([VerdictChange("K/x", "here", "passed", "failed", "a | b\n\nc")]).splitlines()[-1]
    assert row == "| `K/x` | here | passed | failed | a \\| b c |"


@pytest.fixture
def nights(certify: Any, tmp_path: Path) -> Path:
    """Return a folder with three runs. `old` and `new` are equal, and `worse` has one different verdict."""
    run = certify("passes", "fails")
    for night in ("old", "new", "worse"):
        shutil.copytree(run.folder, tmp_path / night / "1.37-nftables")
    path = tmp_path / "worse/1.37-nftables/report.yaml"
    changed = yaml.safe_load(path.read_text(encoding="utf-8"))
    next(test for test in changed["tests"] if test["id"] == "KEP-1/passes")["verdict"] = "inconclusive"
    path.write_text(yaml.safe_dump(changed), encoding="utf-8")
    return tmp_path


def test_exit_code_shows_whether_anything_changed(nights: Path) -> None:
    same = CliRunner().invoke(main, ["compare", "--changes", str(nights / "old"), str(nights / "new")])
    assert (same.exit_code, same.output.splitlines()[0]) == (0, "No verdict changed.")
    assert f"- Not verified: {nights}/old/1.37-nftables (suite: " in same.output
    chosen = nights / "chosen/1.37-nftables"
    shutil.copytree(nights / "new/1.37-nftables", chosen)
    part = yaml.safe_load((chosen / "report.yaml").read_text(encoding="utf-8"))
    part["tests"] = [test for test in part["tests"] if test["id"] != "KEP-1/passes"]
    part["run"]["deselected"] = {"named by --skip-tests": 1}
    (chosen / "report.yaml").write_text(yaml.safe_dump(part), encoding="utf-8")
    some = CliRunner().invoke(main, ["compare", "--changes", str(nights / "old"), str(nights / "chosen")])
    assert (some.exit_code, some.output.splitlines()[0]) == (0, "No verdict changed.")
    assert "Requirements that are not compared, because options of one run excluded them: 1." in some.output
    worse = ["compare", str(nights / "old"), str(nights / "worse"), "--issues", str(nights / "issues")]
    result = CliRunner().invoke(main, worse)
    assert (result.exit_code, "| `KEP-1/passes` | 1.37-nftables | passed |" in result.output) == (1, True), (
        result.output
    )
    [issue] = (nights / "issues").iterdir()
    assert issue.read_text(encoding="utf-8").startswith("Verdict changed: KEP-1/passes\n\n| where |")


AMBIGUOUS: dict[str, tuple[Callable[[Any], object], str]] = {
    **{
        f"{key} twice": (lambda report, key=key: report[key].append(dict(report[key][0])), f"key {key}: .* twice")
        for key in ("tests", "features", "profiles", "artifacts")
    },
    **{
        f"a file at {path!r}": (
            lambda report, path=path: report["artifacts"][0].update(path=path),
            "outside the report",
        )
        for path in ("../../etc/passwd", "/etc/passwd", "evidence\\..\\x", "a\0b", "x" * 5000)
    },
}


@pytest.mark.parametrize(("change", "said"), AMBIGUOUS.values(), ids=list(AMBIGUOUS))
def test_ambiguous_or_misplaced_report_is_a_usage_error(
    certify: Any, tmp_path: Path, change: Callable[[Any], object], said: str
) -> None:
    path = certify("passes").folder / "report.yaml"
    changed = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(changed)
    (tmp_path / "report.yaml").write_text(yaml.safe_dump(changed), encoding="utf-8")
    for command in (["compare"], ["compare", "--changes", str(path)]):
        result = CliRunner().invoke(main, [*command, str(tmp_path / "report.yaml")])
        assert result.exit_code == 4, result.output
        assert re.search(said, result.output)
        assert len(result.output) < 1000


def test_folder_without_a_report_is_a_usage_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["compare", "--changes", str(tmp_path), str(tmp_path)])
    assert (result.exit_code, "no report.yaml in this folder" in result.output) == (4, True)


@pytest.mark.parametrize("option", ["--changes", "--issues=x"])
def test_changes_take_two_reports(option: str) -> None:
    result = CliRunner().invoke(main, ["compare", option, "one"])
    assert (result.exit_code, "need two reports, not 1" in result.output) == (4, True)
