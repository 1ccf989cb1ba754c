"""Compares the verdicts of the same requirements on two backends, with the `trafficdist` command.

A requirement that is inconclusive with several workers runs again alone. If it stays inconclusive, for example on a
busy machine, it is not compared.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from harness.judging.exit_codes import ExitCode
from tests.machine_load import crowding

RUN = [sys.executable, "-c", "from harness.commands.main import main; main()"]
UNTOLD = "could not be told beside this load"
JUDGED = {ExitCode.PASSED, ExitCode.FAILED, ExitCode.INCONCLUSIVE, ExitCode.PARTIAL}


def trafficdist(*arguments: str, seconds: float = 1500) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *arguments], capture_output=True, text=True, timeout=seconds, check=False)


def verdicts(folder: Path, *options: str) -> dict[str, str]:
    """Return the verdict of each requirement that ran."""
    found = run(folder, *options)
    if unclear := [f"--run-test={each}" for each, verdict in found.items() if verdict == "inconclusive"]:
        others = [each for each in options if not each.startswith("--run-test=")]
        found |= run(folder.with_name(f"{folder.name}-alone"), *others, "-n0", *unclear)
    crowded = crowding() > 1
    return {each: UNTOLD if crowded and verdict == "inconclusive" else verdict for each, verdict in found.items()}


def run(folder: Path, *options: str) -> dict[str, str]:
    done = trafficdist("run", *options, f"--output-dir={folder}")
    assert done.returncode in JUDGED, done.stdout + done.stderr
    tests = yaml.safe_load((folder / "report.yaml").read_text())["tests"]
    return {each["id"]: each["verdict"] for each in tests if each["verdict"] != "skipped"}


def unlike(one: dict[str, str], other: dict[str, str]) -> dict[str, set[str | None]]:
    """Return the requirements whose verdicts differ. Inconclusive ones are left out."""
    both = {each: {one.get(each), other.get(each)} for each in {**one, **other}}
    return {each: said for each, said in both.items() if len(said) > 1 and UNTOLD not in said}
