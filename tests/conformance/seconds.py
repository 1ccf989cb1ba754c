"""The seconds of each requirement in the published run of the reference, so that tests can prefer quick ones."""

from __future__ import annotations

import functools
from pathlib import Path

import yaml

from harness.run.durations import TYPICAL
from tests.conformance.cases import SCENARIOS

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def seconds() -> dict[str, float]:
    """Return the seconds of every scenario; a typical time for one that is newer than the published run."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    known: dict[str, float] = {}
    for file in sorted((ROOT / "reports").glob("**/trafficdist-reference/*/report.yaml")):
        tests = yaml.load(file.read_text(encoding="utf-8"), Loader=loader)["tests"]
        known |= {test["id"]: test["durationSeconds"] for test in tests if test["verdict"] == "passed"}
    return {name: known.get(name, TYPICAL) for name in SCENARIOS}
