"""Parse the metrics of a component. A table lists the Kubernetes releases that have each metric."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

_GATE = re.compile(r'^kubernetes_feature_enabled\{[^}]*?name="(?P<name>[^"]+)"[^}]*\} (?P<value>[01])', re.MULTILINE)


def enabled_gates(metrics: str) -> dict[str, bool]:
    return {found["name"]: found["value"] == "1" for found in _GATE.finditer(metrics)}


@dataclass(frozen=True, slots=True)
class MetricReleases:
    """The minor versions in which a metric was added and hidden, and the metric that replaces a hidden one."""

    since: int
    hidden: int | None = None
    successor: str = ""


METRIC_RELEASES: Mapping[str, MetricReleases] = {
    "endpoint_slice_controller_changes": MetricReleases(
        17, hidden=38, successor="endpoint_slice_controller_changes_total"
    ),
    "endpoint_slice_controller_changes_total": MetricReleases(38),
    "endpoint_slice_controller_desired_endpoint_slices": MetricReleases(17),
    "endpoint_slice_controller_endpoints_added_per_sync": MetricReleases(17),
    "endpoint_slice_controller_endpoints_desired": MetricReleases(17),
    "endpoint_slice_controller_endpoints_removed_per_sync": MetricReleases(17),
    "endpoint_slice_controller_endpointslices_changed_per_sync": MetricReleases(21),
    "endpoint_slice_controller_num_endpoint_slices": MetricReleases(17),
    "endpoint_slice_controller_services_count_by_traffic_distribution": MetricReleases(30),
    "endpoint_slice_controller_syncs": MetricReleases(21),
    "kubeproxy_proxy_healthz_total": MetricReleases(28),  # in 1.28, its name has no prefix "kubeproxy_"
    "kubeproxy_proxy_livez_total": MetricReleases(28),
    "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds": MetricReleases(17),
    "kubeproxy_sync_proxy_rules_last_timestamp_seconds": MetricReleases(17),
    "kubeproxy_sync_proxy_rules_no_local_endpoints_total": MetricReleases(24),
    "workqueue_adds_total": MetricReleases(17),
    "workqueue_depth": MetricReleases(17),
    "workqueue_work_duration_seconds": MetricReleases(17),
}
"""Every metric that the suite reads. Histograms are listed without `_sum`, `_count` and `_bucket`."""


class Metrics:
    """The samples of a text in the Prometheus exposition format. Raises `ValueError` for any other text."""

    def __init__(self, text: str) -> None:
        self.text = text
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]  # TYPE lines change names
        families = text_string_to_metric_families("\n".join([*lines, ""]))
        self.samples = [each for family in families for each in family.samples]  # names with `_bucket`, `_sum`, …

    def values(self, name: str, **labels: str) -> list[float]:
        """Return the values of all samples of this metric, or of its successor, that have at least these labels."""
        releases = METRIC_RELEASES.get(name)
        if releases and releases.successor and all(each.name != name for each in self.samples):
            name = releases.successor
        return [
            each.value
            for each in self.samples
            if each.name == name and all(each.labels.get(key) == value for key, value in labels.items())
        ]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of `values`. It is 0 without a sample, because components may omit unused counters."""
        return sum(self.values(name, **labels))
