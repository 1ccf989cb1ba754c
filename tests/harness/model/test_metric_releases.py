"""The table of metric lives covers every metric that the suite and the harness ask for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.model.metrics import SUCCESSORS, Metrics
from reference.endpointslice.metrics import Metrics as ControllerMetrics
from reference.features import LAST, NEWEST, OLDEST, Features

ROOT = Path(__file__).parents[3]
NAME = re.compile(r"\b(?:endpoint_slice_controller|kubeproxy|workqueue)_[a-z_]+[a-z]\b")
OF_HISTOGRAM = re.compile(r"_(sum|count|bucket)$")


@dataclass(frozen=True, slots=True)
class MetricReleases:
    """The minor versions in which a metric was added and hidden."""

    since: int
    hidden: int | None = None


METRIC_RELEASES: Mapping[str, MetricReleases] = {
    "endpoint_slice_controller_changes": MetricReleases(17, hidden=38),
    "endpoint_slice_controller_changes_total": MetricReleases(38),
    "endpoint_slice_controller_desired_endpoint_slices": MetricReleases(17),
    "endpoint_slice_controller_endpoints_added_per_sync": MetricReleases(17),
    "endpoint_slice_controller_endpoints_desired": MetricReleases(17),
    "endpoint_slice_controller_endpoints_removed_per_sync": MetricReleases(17),
    "endpoint_slice_controller_endpointslices_changed_per_sync": MetricReleases(21),
    "endpoint_slice_controller_num_endpoint_slices": MetricReleases(17),
    "endpoint_slice_controller_services_count_by_traffic_distribution": MetricReleases(30),
    "endpoint_slice_controller_syncs": MetricReleases(21),
    "kubeproxy_network_programming_duration_seconds": MetricReleases(17),
    "kubeproxy_proxy_healthz_total": MetricReleases(28),
    "kubeproxy_proxy_livez_total": MetricReleases(28),
    "kubeproxy_sync_proxy_rules_duration_seconds": MetricReleases(17),
    "kubeproxy_sync_proxy_rules_endpoint_changes_pending": MetricReleases(17),
    "kubeproxy_sync_proxy_rules_iptables_restore_failures_total": MetricReleases(17),
    "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds": MetricReleases(17),
    "kubeproxy_sync_proxy_rules_last_timestamp_seconds": MetricReleases(17),
    "kubeproxy_sync_proxy_rules_nftables_sync_failures_total": MetricReleases(31),
    "kubeproxy_sync_proxy_rules_no_local_endpoints_total": MetricReleases(24),
    "kubeproxy_sync_proxy_rules_service_changes_pending": MetricReleases(17),
    "workqueue_adds_total": MetricReleases(17),
    "workqueue_depth": MetricReleases(17),
    "workqueue_work_duration_seconds": MetricReleases(17),
}
"""Every metric that the suite or a recipe reads. Histograms are listed without `_sum`, `_count` and `_bucket`."""


def test_every_metric_that_is_asked_for_has_its_releases() -> None:
    files = [file for folder in ("conformance", "harness", "explain") for file in (ROOT / folder).rglob("*.py")]
    files += (ROOT / "implementations").rglob("*.yaml")
    asked = {OF_HISTOGRAM.sub("", name) for file in files for name in NAME.findall(file.read_text())}
    assert asked - METRIC_RELEASES.keys() <= {"kubeproxy_proxy", "endpoint_slice_controller_changes"}
    assert len(asked & METRIC_RELEASES.keys()) > 10


def test_hidden_metrics_have_a_successor_that_lives_on() -> None:
    for name, releases in METRIC_RELEASES.items():
        if releases.hidden is not None:
            successor = METRIC_RELEASES[SUCCESSORS[name]]
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
