"""The duration of each requirement in the published run of the reference. Tests prefer fast requirements."""

from __future__ import annotations

import functools
from pathlib import Path

import yaml

from harness.run.durations import TYPICAL
from tests.conformance.mutant_trials import SCENARIOS

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def seconds() -> dict[str, float]:
    """Return the seconds of each scenario. A scenario that is newer than the published run gets a typical duration."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    known: dict[str, float] = {}
    for file in sorted((ROOT / "reports").glob("**/trafficdist-reference/*/report.yaml")):
        tests = yaml.load(file.read_text(encoding="utf-8"), Loader=loader)["tests"]
        known |= {test["id"]: test["durationSeconds"] for test in tests if test["verdict"] == "passed"}
    return {name: known.get(name, TYPICAL) for name in SCENARIOS}
