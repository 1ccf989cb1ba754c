"""The table of metric lives covers every metric that the suite and the harness ask for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.model.metrics import METRIC_RELEASES, Metrics
from reference.endpointslice.metrics import Metrics as ControllerMetrics
from reference.features import LAST, NEWEST, OLDEST, Features

ROOT = Path(__file__).parents[3]
NAME = re.compile(r"\b(?:endpoint_slice_controller|kubeproxy|workqueue)_[a-z_]+[a-z]\b")
OF_HISTOGRAM = re.compile(r"_(sum|count|bucket)$")


def test_every_metric_that_is_asked_for_has_its_releases() -> None:
    files = [file for folder in ("conformance", "harness", "explain") for file in (ROOT / folder).rglob("*.py")]
    asked = {OF_HISTOGRAM.sub("", name) for file in files for name in NAME.findall(file.read_text())}
    assert asked - METRIC_RELEASES.keys() <= {"kubeproxy_proxy", "endpoint_slice_controller_changes"}
    assert len(asked & METRIC_RELEASES.keys()) > 10


def test_hidden_metrics_have_a_successor_that_lives_on() -> None:
    for name, releases in METRIC_RELEASES.items():
        if releases.hidden is not None:
            successor = METRIC_RELEASES[releases.successor]
            assert successor.since <= releases.hidden, name
            assert successor.hidden is None, name


@pytest.mark.parametrize("minor", range(OLDEST[1], LAST[1] + 1))
def test_controller_of_each_release_has_the_metrics_that_live_then(minor: int) -> None:
    emitted = {OF_HISTOGRAM.sub("", each.name) for each in ControllerMetrics(Features((1, minor))).collect()}
    alive = {
        name
        for name, releases in METRIC_RELEASES.items()
        if name.startswith("endpoint_slice") and releases.since <= minor < (releases.hidden or minor + 1)
    }
    assert emitted == alive


def test_successor_counts_where_the_old_name_is_hidden() -> None:
    old = 'endpoint_slice_controller_changes{operation="create"} 3\n'
    new = 'endpoint_slice_controller_changes_total{operation="create"} 5\n'
    name = "endpoint_slice_controller_changes"
    assert Metrics(old).total(name, operation="create") == 3
    assert Metrics(new).total(name, operation="create") == 5
    assert Metrics(old + new).total(name, operation="create") == 3
    assert Metrics(new).total("endpoint_slice_controller_syncs") == 0


def test_default_release_is_final() -> None:
    assert OLDEST < NEWEST < LAST
