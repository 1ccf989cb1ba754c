"""Tests for parsing ginkgo's reports, selecting specs, and exempting specs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from tests.upstream_e2e.spec_table import table
from tests.upstream_e2e.specs import (
    FAILED,
    PASSED,
    SKIPPED,
    ExemptSpec,
    SpecResult,
    chosen,
    focus,
    group_of,
    read_exempt,
    results,
    short,
    unmet,
)

ZONE = "[sig-network] Traffic Distribution should route traffic to an endpoint in the same zone when using PreferClose"
AFFINITY = "[sig-network] Services should have session affinity work [LinuxOnly] [Conformance]"
DISRUPTIVE = "[sig-network] Services should work after restarting kube-proxy [Disruptive]"


def entry(name: str, state: str, *, why: str = "", kind: str = "It", seconds: float = 1.0) -> Mapping[str, Any]:
    marks, _, leaf = name.partition(" should")
    return {
        "ContainerHierarchyTexts": [marks] if kind == "It" else None,
        "LeafNodeText": f"should{leaf}" if kind == "It" else "",
        "LeafNodeType": kind,
        "State": state,
        "RunTime": seconds * 1e9,
        **({"Failure": {"Message": why}} if why else {}),
    }


def report(*entries: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [{"SuiteDescription": "Kubernetes e2e suite", "SpecReports": entries}]


def test_unselected_spec_has_no_result_and_skipped_spec_has_one() -> None:
    told = results(report(entry(ZONE, "passed", seconds=9.04), entry(AFFINITY, "skipped")))
    assert told == [SpecResult(ZONE, PASSED, 9.0)]
    assert results(report(entry(ZONE, "skipped", why="need 3 zones"))) == [
        SpecResult(ZONE, SKIPPED, 1.0, "need 3 zones")
    ]


@pytest.mark.parametrize("state", ["failed", "panicked", "timedout", "interrupted", "aborted", "pending"])
def test_any_other_ginkgo_state_is_a_failure(state: str) -> None:
    assert results(report(entry(ZONE, state, why="words")))[0] == SpecResult(ZONE, FAILED, 1.0, "words")


def test_only_failed_setup_is_reported() -> None:
    entries = (
        entry("", "failed", why="no nodes", kind="SynchronizedBeforeSuite"),
        entry("", "passed", kind="AfterSuite"),
    )
    assert results(report(*entries)) == [SpecResult("SynchronizedBeforeSuite", FAILED, 1.0, "no nodes")]


def test_serial_specs_are_excluded_and_topology_specs_are_always_selected() -> None:
    marked = f"{ZONE} [Feature:Traffic Distribution]"
    dry = report(*(entry(each, "passed") for each in (AFFINITY, marked, DISRUPTIVE)))
    assert chosen(dry, ["Traffic Distribution", "Services"]) == sorted([AFFINITY, marked])
    assert chosen(dry, ["Topology Hints"]) == []


def test_names_without_labels_are_the_same_in_all_versions() -> None:
    assert short(AFFINITY) == "Services should have session affinity work"
    assert (group_of(ZONE), group_of("[sig-network] [Feature:X] Services should x"), group_of("DNS should x")) == (
        "Traffic Distribution",
        "Services",
        "",
    )


def test_focus_selects_exactly_one_spec() -> None:
    assert focus("[a] b=c (d)") == r"--ginkgo.focus=\[a\]\ b=c\ \(d\)$"


def test_only_service_specs_can_be_exempt_and_a_skip_is_not_a_pass() -> None:
    ends = [SpecResult(ZONE, SKIPPED, 0.0, "few nodes"), SpecResult(AFFINITY, FAILED, 1.0, "late")]
    exempt = [ExemptSpec(short(ZONE), "never"), ExemptSpec(short(AFFINITY), "why", ("reference",))]
    assert [each.spec for each in unmet("reference", ends, exempt)] == [ZONE]
    assert [each.spec for each in unmet("kube-proxy nftables", ends, exempt)] == [ZONE, AFFINITY]


def test_table_has_one_row_per_spec_and_shows_errors() -> None:
    ran = {
        "reference": [SpecResult(ZONE, PASSED, 31.0), SpecResult(AFFINITY, FAILED, 4.0, "late\n  indeed")],
        "kube-proxy nftables": [SpecResult(ZONE, FAILED, 130.0, "wrong zone")],
    }
    lines = table(ran, [ExemptSpec(short(AFFINITY), "why")]).splitlines()
    assert [re.split("  +", line) for line in lines[:3]] == [
        ["SPEC", "REFERENCE", "KUBE-PROXY NFTABLES"],
        [short(ZONE), "passed 31 s", "failed 130 s"],
        [short(AFFINITY), "failed 4 s (exempt)", "not run"],
    ]
    assert "reference: Traffic Distribution 1 of 1, Services 0 of 1" in lines
    assert lines[-1] == f"kube-proxy nftables: {short(ZONE)}: failed: wrong zone"


def test_each_exemption_has_a_reason_and_is_of_services() -> None:
    for each in read_exempt():
        assert group_of(each.spec) == "Services"
        assert len(each.reason.split()) > 3
        assert each.spec == short(each.spec)


def test_file_of_another_form_is_refused(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text("a: [")
    with pytest.raises(UsageError):
        read_exempt(tmp_path / "odd.yaml")
