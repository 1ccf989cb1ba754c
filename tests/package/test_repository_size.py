"""The repository is small enough to clone in seconds, and its wheel is small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.package.wheel_environment import ROOT

MEGABYTE = 1_000_000
REPORTS = ROOT / "reports"


def files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


def test_reports_keep_their_budget() -> None:
    found = files(REPORTS)
    assert len(found) <= 300
    assert sum(each.stat().st_size for each in found) <= 8 * MEGABYTE


@pytest.mark.parametrize("folder", sorted(each.parent for each in REPORTS.rglob("report.yaml")), ids=str)
def test_a_report_is_yaml_a_page_a_packed_history_and_short_evidence(folder: Path) -> None:
    sizes = {each.name: each.stat().st_size for each in files(folder)}
    assert sizes.pop("evidence.txt", 0) <= 100_000
    assert sizes.keys() == {"README.md", "report.yaml", "run.jsonl.xz"}


def test_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size <= 2 * MEGABYTE


def test_source_distribution_is_small(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, timeout=100, capture_output=True)
    [made] = tmp_path.glob("*.tar.gz")
    assert made.stat().st_size <= 3 * MEGABYTE
