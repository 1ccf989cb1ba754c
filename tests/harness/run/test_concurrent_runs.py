"""Tests that runs that start at the same time end with the right verdicts, however busy they make the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.judging.exit_codes import ExitCode

REQUIREMENT = "INTERACTIONS/node-port-hints"
MUTANT = "ignores-zone-hints"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("runs", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_runs_that_start_at_once_have_the_right_verdicts(runs: int, tmp_path: Path) -> None:
    """Every other run judges an implementation that is wrong."""
    command = [sys.executable, "-m", "trafficdist", "run", REQUIREMENT, "-n0", "--draw=plain"]
    started = []
    for number in range(runs):
        mutant = [f"--mutant={MUTANT}"] * (number % 2)
        folder = f"--output-dir={tmp_path / str(number)}"
        with (tmp_path / f"{number}.txt").open("wb") as output:
            started.append(subprocess.Popen([*command, *mutant, folder], stdout=output, stderr=subprocess.STDOUT))
    codes = [each.wait() for each in started]
    said = [(tmp_path / f"{number}.txt").read_text() for number in range(runs)]
    expected = [ExitCode.FAILED if number % 2 else ExitCode.PASSED for number in range(runs)]
    assert codes == expected, "\n".join(said)
    for number in range(runs):
        (test,) = yaml.safe_load((tmp_path / str(number) / "report.yaml").read_text())["tests"]
        assert test["verdict"] == ("failed" if number % 2 else "passed")
    assert not any("INTERNALERROR" in text or "Traceback" in text for text in said)
