"""Tests that metrics are read without changing their names, and that labels select series."""

from __future__ import annotations

import pytest

from harness.model.metrics import Metrics

TEXT = """\
# HELP syncs Number of syncs
# TYPE syncs counter
syncs{result="success"} 7
syncs{result="stale"} 2
# TYPE changed histogram
changed_bucket{le="1"} 3
changed_bucket{le="+Inf"} 4
changed_sum 5.5
changed_count 4
# TYPE dropped_total gauge
dropped_total{policy="internal",family="IPv4"} 1
dropped_total{policy="internal",family="IPv6"} 2
dropped_total{policy="external",family="IPv4"} 0
"""


@pytest.fixture
def metrics() -> Metrics:
    """Return a counter, a histogram and a gauge with the names that Kubernetes uses."""
    return Metrics(TEXT)


def test_counter_keeps_its_name_without_total(metrics: Metrics) -> None:
    assert metrics.total("syncs", result="success") == 7
    assert metrics.total("syncs_total") == 0


def test_gauge_may_end_in_total(metrics: Metrics) -> None:
    assert metrics.total("dropped_total", policy="internal") == 3


def test_series_are_chosen_by_any_of_their_labels(metrics: Metrics) -> None:
    assert metrics.values("dropped_total", family="IPv4") == [1, 0]
    assert metrics.values("dropped_total", family="IPv5") == []


def test_parts_of_a_histogram_have_names_of_their_own(metrics: Metrics) -> None:
    assert metrics.values("changed_bucket", le="+Inf") == [4]
    assert (metrics.total("changed_sum"), metrics.total("changed_count")) == (5.5, 4)


def test_unexposed_metric_is_known_to_be_missing(metrics: Metrics) -> None:
    assert metrics.values("changed_sum")
    assert not metrics.values("changed")


@pytest.mark.parametrize("text", ["syncs{result=success} 7", "syncs seven", "<html>not found</html>"])
def test_invalid_metric_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Metrics(text)
