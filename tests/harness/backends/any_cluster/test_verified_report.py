"""Tests that `trafficdist verify` accepts the report of a run through the API of a cluster.

On such a cluster some scenarios learn only from a client's answer that they cannot be judged, after they have judged
other windows. The rules of the reference's proxy block datagrams, and agnhost does not report whether they were dropped
or rejected.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from emulator import cluster_state
from emulator.kubelet.images import REGISTRY
from harness.judging.conclusion import VerdictCause
from harness.plugin.suite import rehearsed
from harness.report.verification import verify
from tests.harness.backends.compare_verdicts import JUDGED, trafficdist

NAME = f"verified-report-{os.getpid()}"
LATE = ("SERVICE/unready-endpoints-are-refused", "SERVICE/endpoints-that-become-unready-get-nothing")
FEW = (*LATE, "KEP-4444/zone-hints-keep-traffic-in-the-zone")
INEVITABLE = {"release", "run", "suite"}
"""The checks that refuse the run of a checkout, or of chosen requirements."""


@pytest.fixture
def kubeconfig(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    identity = {"ORGANIZATION": "o", "PROJECT": "p", "VERSION": "1"}
    for name, value in {"IMAGE_REGISTRY": REGISTRY, **identity}.items():
        monkeypatch.setenv(f"TRAFFICDIST_{name}", value)
    up = trafficdist("cluster", "up", "--name", NAME)
    assert up.returncode == 0, up.stderr
    yield f"--kubeconfig={cluster_state.folder_of(NAME) / 'kubeconfig'}"
    trafficdist("cluster", "down", "--name", NAME)


def causes_of_skips(kubeconfig: str, folder: Path, *options: str) -> dict[str, str]:
    """Run, check that `verify` accepts the report, and return the cause of each skip in the middle of a test."""
    ran = trafficdist("run", "--backend=kubeconfig", kubeconfig, f"--output-dir={folder}", *options)
    assert ran.returncode in JUDGED, ran.stdout + ran.stderr
    assert [str(each) for each in verify(folder, *rehearsed()) if each.check not in INEVITABLE] == []
    records = map(json.loads, (folder / "run.jsonl").read_text(encoding="utf-8").splitlines())
    return {
        each["test"]: each["cause"] for each in records if each["kind"] == "verdict" and each["verdict"] == "skipped"
    }


def test_requirements_that_are_skipped_later_are_verified(kubeconfig: str, tmp_path: Path) -> None:
    found = causes_of_skips(kubeconfig, tmp_path / "run", "-n2", *[f"--run-test={each}" for each in FEW])
    assert found == dict.fromkeys(LATE, VerdictCause.SKIPPED_LATER)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_whole_profile_is_verified_and_skips_what_doctor_counts(
    kubeconfig: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "10000")  # no id is broken into two lines
    doctor = trafficdist("doctor", kubeconfig, "--profile=service-proxy", "-v")
    found = causes_of_skips(kubeconfig, tmp_path / "run", "--profile=service-proxy")
    assert {each: found.get(each) for each in LATE} == dict.fromkeys(LATE, VerdictCause.SKIPPED_LATER)
    assert set(found.values()) == {
        VerdictCause.SKIPPED_LATER,
        VerdictCause.NOT_TRIED,
    }  # some learn it in their first window
    tests = yaml.safe_load((tmp_path / "run" / "report.yaml").read_text(encoding="utf-8"))["tests"]
    skipped = {each["id"] for each in tests if each["reason"] in ("unavailable", "ineligible")}
    named = set(re.findall(r"[A-Z0-9-]+/[a-z0-9-]+(?=,| *$)", doctor.stdout, re.MULTILINE))  # a table pads its lines
    assert named == skipped - found.keys()
    assert f"Together: at least {len(skipped - found.keys())} of" in doctor.stdout
