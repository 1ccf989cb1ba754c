"""Prometheus histograms."""

from __future__ import annotations

from prometheus_client.core import HistogramMetricFamily

from reference.serving.histogram import Histogram


def exposed(histogram: Histogram, **labels: str) -> dict[tuple[str, str], float]:
    family = HistogramMetricFamily("size", "Sizes", labels=list(labels))
    histogram.add_to(family, list(labels.values()))
    assert all(labels.items() <= sample.labels.items() for sample in family.samples)
    return {(each.name, each.labels.get("le", "")): each.value for each in family.samples}


def counted(*values: float) -> Histogram:
    histogram = Histogram((0.5, 2, 4))
    for each in values:
        histogram.observe(each)
    return histogram


def test_each_bucket_counts_values_up_to_its_bound() -> None:
    assert exposed(counted(0.5, 2, 3, 9), place="here") == {
        ("size_bucket", "0.5"): 1,
        ("size_bucket", "2"): 2,
        ("size_bucket", "4"): 3,
        ("size_bucket", "+Inf"): 4,
        ("size_count", ""): 4,
        ("size_sum", ""): 14.5,
    }


def test_sum_of_two_histograms_changes_neither() -> None:
    one, other = counted(1, 9), counted(3)
    assert exposed(one + other) == exposed(counted(1, 9, 3))
    assert (exposed(one), exposed(other)) == (exposed(counted(1, 9)), exposed(counted(3)))


def test_empty_histogram_has_zero_counts() -> None:
    assert set(exposed(Histogram((1,))).values()) == {0}
