"""The example package of docs/own-suites.md runs from any folder and appears in the report."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.docs.documented_commands import ROOT

GOOD, WRONG = "ACME-1/shops-stay-in-the-zone", "ACME-1/shops-use-zone-a"
QUICK = "0.3"  # shorter time limits: the failing requirement waits for traffic that never arrives

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the suite. The package of the page is found only through PYTHONPATH."""
    page = (ROOT / "docs/own-suites.md").read_text(encoding="utf-8")
    for name, text in re.findall(r"^```python\n# (\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        file = tmp_path / "site" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (tmp_path / "site/acme_suite/__init__.py").touch()
    (tmp_path / "work").mkdir()

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [Path(sys.executable).with_name(program), *arguments],
            cwd=tmp_path / "work",
            env={**os.environ, "PYTHONPATH": str(tmp_path / "site"), "TRAFFICDIST_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def verdicts(folder: Path) -> dict[str, str]:
    """Return the verdict of each requirement in the report."""
    report = yaml.safe_load((folder / "report.yaml").read_text(encoding="utf-8"))
    return {test["id"]: test["verdict"] for test in report["tests"]}


def test_own_requirements_are_listed(run: Run) -> None:
    listed = json.loads(run("trafficdist", "list", "--suite", "acme_suite", "--format", "json").stdout)
    assert [each["id"] for each in listed["requirements"]] == [GOOD, WRONG]


@pytest.mark.slow
@pytest.mark.usefixtures("netns_allowed")
def test_own_requirements_are_judged_and_reported_and_judged_again(run: Run, tmp_path: Path) -> None:
    done = run("trafficdist", "run", "--suite", "acme_suite", "-n", "0", "--", f"--td-time-scale={QUICK}")
    results = tmp_path / "work/trafficdist-results/latest"
    assert done.returncode == 1, done.stdout + done.stderr
    assert verdicts(results) == {GOOD: "passed", WRONG: "failed"}
    assert f"trafficdist run --suite acme_suite --run-test {WRONG}" in done.stdout
    assert (results / "evidence" / WRONG).is_dir()
    assert list(results.glob("allure-results/*-result.json"))
    assert "2 derived again from observations, 0 as stated" in run("trafficdist", "judge", "latest").stdout


@pytest.mark.slow
@pytest.mark.usefixtures("netns_allowed")
def test_pytest_runs_own_requirements(run: Run, tmp_path: Path) -> None:
    done = run(
        "pytest", "--pyargs", "acme_suite", "--td-backend=netns", f"--td-time-scale={QUICK}", "--td-output-dir=o"
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert verdicts(tmp_path / "work/o") == {GOOD: "passed", WRONG: "failed"}
