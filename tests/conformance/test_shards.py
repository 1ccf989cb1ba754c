"""The catalogue is divided evenly, and real runs of three shards give the same report as a run on one machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import conformance
from harness.judging.history import read
from harness.model import needs
from harness.model.needs import Needs
from harness.plugin.suite import rehearsed
from harness.report.verification import verify
from harness.run import durations
from harness.run.plan import reason_to_skip
from harness.run.random_values import draws_of
from harness.run.sharding import divide
from harness.settings.options import resolve
from tests.conformance.mutant_trials import SCENARIOS

COMMAND = "from harness.commands.main import main; main()"
SELECTION = ("KEP-2086/*",)  # of a proxy and of an API server
COUNT = 3


def declared(name: str) -> float:
    marks = getattr(SCENARIOS[name].test, "pytestmark", [])
    return next((mark.args[0] for mark in marks if mark.name == "takes"), 0.0)


@pytest.mark.parametrize("count", [2, 5, 20])
@pytest.mark.parametrize("options", [{}, {"profile": "service-proxy"}, {"proxy": "kube-proxy:1.37.2"}], ids=str)
def test_catalogue_is_divided_evenly(options: dict[str, str], count: int) -> None:
    settings = resolve({"backend": "netns", **options}, environment={})
    table = needs.read(Path(conformance.__file__).parent)
    seconds = {
        name: durations.estimate(each.requirement, table.get(name, Needs()), declared=declared(name))
        for name, each in SCENARIOS.items()
        if not reason_to_skip(each.requirement, settings)[0]
    }
    found = divide(seconds, f"1/{count}")
    loads = [sum(seconds[each] for each in found if found[each] == shard) for shard in set(found.values())]
    assert found.keys() == seconds.keys()
    assert len(loads) == count
    assert max(loads) < max(1.03 * sum(loads) / count, max(seconds.values()) + 0.01)


def test_random_values_do_not_depend_on_the_shard() -> None:
    known = [each.requirement for each in SCENARIOS.values()]
    whole = draws_of(known, resolve({"backend": "netns"}, environment={}))
    for shard in ("1/5", "3/5"):
        assert draws_of(known, resolve({"backend": "netns", "shard": shard}, environment={})) == whole


def trafficdist(*arguments: str) -> int:
    command = [sys.executable, "-c", COMMAND, *arguments]
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL, timeout=600).returncode


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory, netns_allowed: None) -> dict[str, Path]:
    """Run the selection on one machine and in three shards with different numbers of workers. Merge the shards."""
    place = tmp_path_factory.mktemp("shards")
    assert trafficdist("run", *SELECTION, "-n", "2", f"--output-dir={place}/whole") == 0
    shards = [f"{place}/{number}" for number in range(1, COUNT + 1)]
    for number, folder in enumerate(shards, 1):
        shard = (f"--shard={number}/{COUNT}", f"--output-dir={folder}")
        assert trafficdist("run", *SELECTION, "-n", str(number - 1 and 2), *shard) == 0
    assert trafficdist("merge", *reversed(shards), f"--output-dir={place}/merged") == 0
    return {"whole": place / "whole", "merged": place / "merged", "part": place / "1"}


def report(folder: Path) -> Any:
    return yaml.safe_load((folder / "report.yaml").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_verdicts_and_random_values_are_those_of_one_machine(reports: dict[str, Path]) -> None:
    found = {name: report(folder) for name, folder in reports.items()}
    keys = ("id", "verdict", "reason", "message", "level", "features", "draw")
    compared = {name: [[test.get(key) for key in keys] for test in each["tests"]] for name, each in found.items()}
    assert compared["merged"] == compared["whole"]
    assert len(compared["part"]) < len(compared["whole"])
    assert found["merged"]["profiles"] == found["whole"]["profiles"]
    assert found["merged"]["run"]["deselected"] == found["whole"]["run"]["deselected"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_verify_refuses_the_merged_report_only_for_its_selection(reports: dict[str, Path]) -> None:
    """A selection by --run-test and a version that was never released are refused on one machine, too."""
    suite = rehearsed()
    refused = {name: {str(each) for each in verify(folder, *suite)} for name, folder in reports.items()}
    assert refused["merged"] == refused["whole"]
    assert {each.partition(":")[0] for each in refused["merged"]} <= {"release", "suite", "run"}
    assert any("requirements are in shard 2/3, which the report lacks" in each for each in refused["part"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_history_has_the_observations_of_all_shards(reports: dict[str, Path]) -> None:
    measured = {
        name: {each["test"] for each in read(folder / "run.jsonl").records if each["kind"] == "window"}
        for name, folder in reports.items()
    }
    assert measured["part"] < measured["merged"] == measured["whole"]
