"""Tests that the right check rejects each forged report. The forgeries are based on a real report."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.commands.main import main
from harness.report.verification import CHECKS, verify
from tests.harness.report.forged_folders import FOLDERS
from tests.harness.report.forged_histories import HISTORIES
from tests.harness.report.forged_reports import REPORTS
from tests.harness.report.forged_run import ForgedRun

pytest_plugins = ["pytester"]


def test_unchanged_report_is_accepted(forged: ForgedRun) -> None:
    assert [str(each) for each in verify(forged.folder, forged.requirements, forged.foreseen)] == []
    assert forged.checks() == []


@pytest.mark.parametrize(("check", "forge"), REPORTS.values(), ids=list(REPORTS))
def test_a_changed_report_is_refused(forged: ForgedRun, check: str, forge: Callable[[ForgedRun], Any]) -> None:
    forge(forged)
    assert check in forged.checks()


@pytest.mark.parametrize(("check", "forge"), HISTORIES.values(), ids=list(HISTORIES))
def test_a_changed_history_is_refused(forged: ForgedRun, check: str, forge: Callable[[ForgedRun], Any]) -> None:
    forge(forged)
    if not forged.history:
        (forged.folder / "run.jsonl").write_bytes(b"")
        forged.lines = []
    assert check in forged.checks()


@pytest.mark.parametrize(("change", "said"), FOLDERS.values(), ids=list(FOLDERS))
def test_a_changed_folder_is_refused(forged: ForgedRun, change: Callable[[ForgedRun], Any], said: str) -> None:
    change(forged)
    assert said in forged.refusals()


def test_each_key_that_is_deleted_is_missed(forged: ForgedRun) -> None:
    whole, unmissed = forged.report, []
    failed = next(each for each in whole["tests"] if each["verdict"] == "failed")
    for key, within in [*((key, whole) for key in whole), *((key, failed) for key in failed)]:
        forged.report = copy.deepcopy(whole)
        del (forged.report if within is whole else forged.tests["leaks"])[key]
        unmissed += [] if forged.checks() else [key]
    assert unmissed == []


def test_duplicate_key_is_refused(forged: ForgedRun) -> None:
    path = forged.folder / "report.yaml"
    path.write_text(path.read_text() + "mode: ipvs\n")
    (refused,) = verify(forged.folder, forged.requirements)
    assert refused.check == "schema"
    assert "duplicate key 'mode'" in refused.text


def test_every_check_has_a_forged_report() -> None:
    checks = {check for check, _ in (*REPORTS.values(), *HISTORIES.values())}
    assert checks | {said.partition(":")[0] for _, said in FOLDERS.values()} == {"schema", "derived", *CHECKS}
    assert len(REPORTS) + len(HISTORIES) >= 40


def test_the_command_shows_each_reason_and_ends_with_13(forged: ForgedRun) -> None:
    forged.report["run"]["retries"] = 1
    forged.checks()
    result = CliRunner().invoke(main, ["verify", str(forged.folder)])
    assert result.exit_code == 13
    assert "run: 1 tests were repeated" in result.output
    assert "suite: its catalogue is not that of the installed suite" in result.output


def test_command_refuses_a_folder_that_is_not_a_run(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["verify", str(tmp_path)])
    assert result.exit_code == 4
    assert "has no run.jsonl" in result.output
