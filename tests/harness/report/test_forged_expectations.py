"""Tests that `verify` compares real runs with what the tests of the suite expect, and refuses runs that differ."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from harness.plugin.suite import rehearsed
from tests.harness.backends.compare_verdicts import trafficdist
from tests.harness.report.forged_run import ForgedRun

TRAFFIC, HINTS = "KEP-3015/node-then-zone-then-anywhere", "KEP-3015/prefer-same-zone-hints-the-own-zone"
FLOW, API = "SERVICE/udp-flow-leaves-a-removed-endpoint", "KEP-4444/api-stores-the-field"
COMPARED = {"limits", "expectations"}

Change = Callable[[dict[str, Any]], dict[str, Any] | None]


@pytest.fixture(scope="module", params=["1", "2"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ForgedRun:
    """Return a run of four requirements with the draws of a seed."""
    folder = tmp_path_factory.mktemp("run")
    chosen = [f"--run-test={each}" for each in (TRAFFIC, HINTS, FLOW, API)]
    ended = trafficdist("run", *chosen, "-n0", f"--seed={request.param}", f"--output-dir={folder}")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = yaml.safe_load((folder / "report.yaml").read_text(encoding="utf-8"))
    report["suite"]["revision"] = "a" * 40  # as of a checkout without changes
    return ForgedRun(folder, report, (folder / "run.jsonl").read_bytes().splitlines(keepends=True), *rehearsed())


@pytest.fixture
def run(original: ForgedRun) -> ForgedRun:
    return dataclasses.replace(original, history=b"")


def test_run_is_what_its_tests_expect(run: ForgedRun) -> None:
    assert COMPARED.isdisjoint(run.checks())
    assert TRAFFIC in {each["test"] for each in run.records("window")}
    assert {each["test"] for each in run.records("comparison")} == {TRAFFIC, HINTS, FLOW, API}


def replaced(old: str, new: str, *kinds: str) -> Change:
    """Return a change of a text in all records of these kinds."""

    def change(record: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(record)
        changed: dict[str, Any] = json.loads(text.replace(old, new)) if record["kind"] in kinds else record
        return changed

    return change


def exchanged(record: dict[str, Any]) -> dict[str, Any]:
    """Exchange two pods in what a window expects, and in the answers."""
    other = {"a1": "b1", "b1": "a1"}
    if record["kind"] == "window":
        expected = {client: [other.get(pod, pod) for pod in pods] for client, pods in record["expectation"].items()}
        return {**record, "expectation": expected}
    if record["kind"] == "observed":
        pods = {other.get(pod, pod): count for pod, count in record["tally"]["pods"].items()}
        return {**record, "tally": {**record["tally"], "pods": pods}}
    return record


def without(kind: str) -> Change:
    return lambda record: None if record.get("window") and record["kind"] in (kind, "observed", "judged") else record


def fitted(text: str, value: Any) -> Change:
    """Return a change of the expected and the observed value of comparisons with this text."""
    found = {"expected": value, "observed": value}
    return lambda record: {**record, **found} if record["kind"] == "comparison" and text in record["what"] else record


FITTED: dict[str, tuple[str, Change]] = {
    "a wrong pod answers and is expected": ("expectations", exchanged),
    "wrong hints are expected": ("expectations", replaced("zones=b", "zones=a", "comparison")),
    "the window is left out": ("expectations", without("window")),
    "the comparison is left out": (
        "expectations",
        lambda record: None if "endpoints and hints of" in record.get("what", "") else record,
    ),
    "hints change later and are expected to": ("expectations", fitted(", left alone", {"p1": "zones=c"})),
    "a change is late and is expected to be": ("expectations", fitted(" became as expected within ", False)),
    "a flow stays and is expected to": ("expectations", fitted("server of the flow ", "gone")),
    "a flow was never open": ("expectations", fitted("connection of ", "TimedOut")),
    "a refusal is expected": ("expectations", fitted("answer to ", "refused")),
    "a lost field is expected": ("expectations", fitted("read back", None)),
    "the window has a rate of other requirements": ("limits", replaced('"leak": 0.05', '"leak": 0.5', "window")),
}


@pytest.mark.parametrize(("check", "change"), FITTED.values(), ids=list(FITTED))
def test_history_that_fits_a_wrong_implementation_is_refused(run: ForgedRun, check: str, change: Change) -> None:
    run.rewrite(change)
    assert check in run.checks()
