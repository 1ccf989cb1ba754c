"""An interrupted matrix continues, and the page shows its content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.judging.exit_codes import ExitCode
from mutants import MUTANTS
from mutants.wrong_plans import Planner
from reference.endpointslice.zones import ZoneTable
from reference.features import Features
from reference.proxy.decision import Behaviour
from reference.proxy.state import State
from tests.reference.endpointslice.objects import NODES, apply, make_service, plan, pods_on
from tests.upstream_e2e import matrix, page, records, run_specs
from tests.upstream_e2e.records import NO_FAULT, FastestRequirement, FaultGroup, SpecTrial
from tests.upstream_e2e.specs import PASSED, SKIPPED, SpecResult

ZONE = "[sig-network] Traffic Distribution should route traffic to an endpoint in the same zone when using PreferClose"
HINTS = "[sig-network] Topology Hints should distribute endpoints evenly"
GROUPS = [FaultGroup("Whether it works", ("skips-zone-tier", "node-as-zone", "zone-before-node"))]

SLICE = {
    "metadata": {"namespace": "default", "name": "web-x", "labels": {"kubernetes.io/service-name": "web"}},
    "addressType": "IPv4",
    "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
}


def trial(mutant: str, noticed: Mapping[str, float] | None = None) -> SpecTrial:
    return SpecTrial(mutant, "1.37.2", "abc", "2026-11-24", seed=1, specs=7, noticed=noticed or {})


def test_each_fault_is_possible_with_a_real_control_plane_and_killed_by_this_suite() -> None:
    names = [name for group in records.groups() for name in group.mutants]
    assert len(names) == len(set(names))
    assert [name for name in names if name not in MUTANTS or not records.in_real_plane(name)] == []
    assert set(names) <= set(records.ours())


def _states() -> Iterator[tuple[str, Callable[..., State]]]:
    for name in (mutant for group in records.groups() for mutant in group.mutants):
        parts: Mapping[str, Any] = getattr(MUTANTS[name].proxy, "keywords", {})
        if "state" in parts:
            yield name, parts["state"]


@pytest.mark.parametrize("made", [pytest.param(made, id=name) for name, made in _states()])
def test_proxy_mutants_accept_slices_with_null_endpoints(made: Callable[..., State]) -> None:
    state = made("a1", Behaviour.of(Features()))
    for endpoints in (None, [{"addresses": ["10.244.1.2"], "conditions": {"ready": True}}], None):
        state.receive("endpointslices", {**SLICE, "endpoints": endpoints}, deleted=False)
    state.compute()
    assert state.unreadable == {}


def _planners() -> Iterator[tuple[str, Planner]]:
    for name in (mutant for group in records.groups() for mutant in group.mutants):
        parts: Mapping[str, Any] = getattr(MUTANTS[name].controller, "keywords", {})
        if "plan" in parts:
            yield name, parts["plan"]


@pytest.mark.parametrize("planned", [pytest.param(made, id=name) for name, made in _planners()])
def test_controller_mutants_accept_slices_with_null_endpoints(planned: Planner) -> None:
    service = make_service(trafficDistribution="PreferClose")
    existing = [{**each, "endpoints": None} for each in apply(plan(service))]
    planned(service, pods_on("abc"), NODES, existing, features=Features(), zones=ZoneTable(Features(), NODES))


def test_skipped_spec_is_recorded_as_detected_with_its_reason() -> None:
    ends = [SpecResult(ZONE, SKIPPED, 1.0, "need\nthree zones"), SpecResult(HINTS, PASSED, 9.0)]
    trial = records.trial_of("x", ends, kubernetes="1.37.2", commit="abc", date="2026-11-24", seed=1)
    assert (dict(trial.noticed), trial.specs, trial.why) == (
        {ZONE.removeprefix("[sig-network] "): 1.0},
        2,
        "need three zones",
    )


def test_finished_trial_is_not_repeated_with_the_same_version() -> None:
    known = {"leaks-five-percent": trial("leaks-five-percent")}
    assert "leaks-five-percent" not in list(records.left(known, "1.37.2"))
    assert "leaks-five-percent" in list(records.left(known, "1.38.0"))
    assert list(records.left(known, "1.37.2", ["leaks-five-percent"])) == ["leaks-five-percent"]
    assert NO_FAULT not in list(records.left({}, "1.37.2"))


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The faults that the command runs, recorded in a separate matrix. One fault cannot run."""
    tried: list[str] = []
    known: dict[str, SpecTrial] = {}

    def one(suite: run_specs.CompiledSpecs, specs: object, fault: str) -> SpecTrial | None:
        tried.append(fault)
        return None if fault == "node-as-zone" else trial(fault)

    suite = run_specs.CompiledSpecs("1.37.2", tmp_path, tmp_path)
    monkeypatch.setattr(run_specs.CompiledSpecs, "of", lambda version, seed: suite)
    monkeypatch.setattr(run_specs.CompiledSpecs, "names", lambda self, groups: [ZONE])
    monkeypatch.setattr(matrix, "_try", one)
    monkeypatch.setattr(records, "groups", lambda: GROUPS)
    monkeypatch.setattr(records, "read", lambda: known)
    monkeypatch.setattr(records, "write", known.update)
    monkeypatch.setattr(page, "write", lambda known: None)
    return tried


def test_as_many_references_come_first_as_faults_run_at_once(tried: list[str]) -> None:
    assert matrix.main(["--at-once", "2", "--mutant", "skips-zone-tier"]) == ExitCode.PASSED
    assert tried == [NO_FAULT, NO_FAULT, "skips-zone-tier"]


def test_untestable_fault_is_left_out_and_others_are_tried(tried: list[str]) -> None:
    assert matrix.main([]) == ExitCode.DISTRUST
    assert tried == [NO_FAULT, *GROUPS[0].mutants]
    assert list(records.left(records.read(), "1.37.2")) == ["node-as-zone"]


def test_no_fault_is_tried_where_the_reference_fails(tried: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "_try", lambda suite, specs, fault: tried.append(fault) or trial(fault, {"x": 1.0}))
    assert matrix.main([]) == ExitCode.FAILED
    assert tried == [NO_FAULT]


def test_matrix_round_trips_through_its_file(tmp_path: Path) -> None:
    known = {name: trial(name, {"Topology Hints should x": 30.2}) for name in (NO_FAULT, "skips-zone-tier")}
    known["node-as-zone"] = replace(trial("node-as-zone"), why="x: 'y'")
    records.write(known, tmp_path / "new/matrix.yaml")
    assert records.read(tmp_path / "new/matrix.yaml") == known
    assert records.read(tmp_path / "none.yaml") == {}


def test_page_shows_passed_detected_and_missing_trials() -> None:
    noticed = {"Topology Hints should distribute endpoints evenly": 31.0, ZONE.removeprefix("[sig-network] "): 8.6}
    known = {
        NO_FAULT: trial(NO_FAULT),
        "skips-zone-tier": trial("skips-zone-tier", noticed),
        "node-as-zone": trial("node-as-zone"),
    }
    text = page.text(known, GROUPS, {"node-as-zone": FastestRequirement("KEP-3015/x", 0.6)})
    counted = "**1 of 2 faults pass all seven specs**; trafficdist detects all of them. Not tested yet: 1."
    assert counted in text
    assert (
        "Measured on 2026-11-24 with Kubernetes 1.37.2 and ginkgo's seed 1. Without a fault, 7 of 7 specs pass." in text
    )
    assert "| [Whether it works](#whether-it-works) | 2 | 1 | 1 |" in text
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows[0].endswith("| PreferClose fails after 9 s, and 1 other spec fails | - |")
    assert rows[1].endswith("| **pass** | `KEP-3015/x`, 600 ms |")
    assert rows[2].endswith("| not tested yet | - |")


def test_seven_specs_have_distinct_short_names() -> None:
    name = "Traffic Distribution should route traffic {} when using {}"
    assert page._words(name.format("correctly between pods on multiple nodes", "PreferSameZone")) == (
        "PreferSameZone on multiple nodes"
    )
    goes = name.format("to an endpoint on the same node", "PreferSameNode and fall back when it becomes unavailable")
    assert page._words(goes) == "PreferSameNode with a removed endpoint"
    assert page._words("Topology Hints should distribute endpoints evenly") == "Topology Hints"


def test_page_equals_the_generated_one() -> None:
    known, ours = records.read(), records.ours()
    again = "make it again: python -m tests.upstream_e2e.page"
    written, compared = (each.read_text(encoding="utf-8") for each in (page.PAGE, page.COMPARISON))
    assert _without_ours(written) == _without_ours(page.text(known, records.groups(), ours)), again
    assert _without_ours(compared) == _without_ours(page.comparison(compared, known, records.groups(), ours)), again


def _without_ours(text: str) -> str:
    """Return a page without its last column, which changes with each new measurement of a requirement."""
    return re.sub(r"\| [^|]* \|$", "|", text, flags=re.MULTILINE)


def test_draft_states_what_would_detect_each_passing_fault() -> None:
    draft = (records.ROOT / "docs/upstream-proposal.md").read_text(encoding="utf-8")
    passing = [name for name, each in records.read().items() if not each.noticed and name != NO_FAULT]
    assert [name for name in passing if f"`{name}`" not in draft] == []


def test_every_trial_has_a_passing_reference() -> None:
    known = records.read()
    assert not known or known[NO_FAULT].noticed == {}
    assert all(each in MUTANTS or each == NO_FAULT for each in known)
