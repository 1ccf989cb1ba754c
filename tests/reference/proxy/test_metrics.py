"""The proxy's metrics have kube-proxy's names, labels and types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from reference.features import Features
from reference.proxy.health import Health
from reference.proxy.metrics import Metrics
from reference.proxy.state import Dropped

if TYPE_CHECKING:
    import pytest

NONE: Mapping[Dropped, int] = Counter()
Sample = tuple[str, frozenset[tuple[str, str]]]


def made(version: int = 34, no_local: Mapping[Dropped, int] = NONE) -> Metrics:
    features = Features((1, version))
    return Metrics(features, Health(features), lambda: no_local)


def scraped(metrics: Metrics) -> dict[Sample, float]:
    """Return all samples as a client of /metrics parses them."""
    code, headers, body = metrics.answer("/metrics")
    assert (code, headers["Content-Type"][:10]) == (200, "text/plain")
    families = text_string_to_metric_families(body.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value for each in families for sample in each.samples
    }


def key(name: str, **labels: str) -> Sample:
    return f"kubeproxy_{name}", frozenset(labels.items())


def test_each_ip_family_has_its_series_since_1_33() -> None:
    metrics = made()
    metrics.last_synced.update(IPv4=7.0, IPv6=8.0)

    samples = scraped(metrics)

    name = "sync_proxy_rules_last_timestamp_seconds"
    assert samples[key(name, ip_family="IPv4")] == 7
    assert samples[key(name, ip_family="IPv6")] == 8
    assert key(name) not in samples


def test_before_1_33_one_series_covers_both_families() -> None:
    metrics = made(32)
    metrics.last_synced.update(IPv4=7.0, IPv6=8.0)
    metrics.failures.update(IPv4=2, IPv6=3)
    for histogram in metrics.durations.values():
        histogram.observe(0.003)

    samples = scraped(metrics)

    assert samples[key("sync_proxy_rules_last_timestamp_seconds")] == 8
    assert samples[key("sync_proxy_rules_nftables_sync_failures_total")] == 5
    assert samples[key("sync_proxy_rules_duration_seconds_count")] == 2
    assert not any("ip_family" in dict(labels) for _, labels in samples)


def test_buckets_are_cumulative_and_double_from_a_millisecond_on() -> None:
    metrics = made()
    for seconds in (0.0005, 0.001, 0.003, 1_000):
        metrics.durations["IPv4"].observe(seconds)

    samples = scraped(metrics)

    def bucket(end: str) -> float:
        return samples[key("sync_proxy_rules_duration_seconds_bucket", ip_family="IPv4", le=end)]

    assert [bucket(end) for end in ("0.001", "0.002", "0.004", "16.384", "+Inf")] == [2, 2, 3, 3, 4]
    assert samples[key("sync_proxy_rules_duration_seconds_sum", ip_family="IPv4")] == 1000.0045


def test_services_without_local_endpoint_are_a_gauge_by_policy() -> None:
    metrics = made(no_local=Counter({("IPv4", "internal"): 2, ("IPv6", "external"): 1}))

    samples = scraped(metrics)

    name = "sync_proxy_rules_no_local_endpoints_total"
    assert samples[key(name, traffic_policy="internal", ip_family="IPv4")] == 2
    assert samples[key(name, traffic_policy="external", ip_family="IPv4")] == 0
    assert samples[key(name, traffic_policy="external", ip_family="IPv6")] == 1
    assert f"# TYPE kubeproxy_{name} gauge" in metrics.answer("/metrics")[2].decode()


def test_changes_are_counted_as_pending_until_applied() -> None:
    metrics = made()
    metrics.seen["endpointslices"], metrics.done["endpointslices"] = 5, 3

    samples = scraped(metrics)

    assert samples[key("sync_proxy_rules_endpoint_changes_pending", ip_family="IPv4")] == 2
    assert samples[key("sync_proxy_rules_endpoint_changes_total", ip_family="IPv4")] == 5
    assert samples[key("sync_proxy_rules_service_changes_total", ip_family="IPv4")] == 0


def test_answers_of_the_health_port_are_counted() -> None:
    features = Features()
    health = Health(features)
    health.answer("/livez")

    samples = scraped(Metrics(features, health, lambda: NONE))

    assert samples[key("proxy_livez_total", code="200")] == 1
    assert samples[key("proxy_livez_total", code="503")] == 0
    assert samples[key("proxy_healthz_total", code="200")] == 0
    assert not any("created" in name for name, _ in samples)


def test_metrics_port_shows_the_mode() -> None:
    assert made().answer("/proxyMode")[2] == b"nftables"
    assert made().answer("/healthz")[0] == 200
    assert made().answer("/elsewhere")[0] == 404


def test_changes_since_the_start_are_measured_until_they_are_in_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reference.proxy.metrics.time.time", lambda: 1000.0)
    metrics = made()
    monkeypatch.setattr("reference.proxy.metrics.time.time", lambda: 1010.0)

    metrics.programmed([("IPv4", 1001.0), ("IPv4", 1009.75), ("IPv4", 999.0), ("IPv6", 1000.0)])

    samples = scraped(metrics)
    name = "network_programming_duration_seconds"
    assert samples[key(f"{name}_count", ip_family="IPv4")] == 2
    assert samples[key(f"{name}_sum", ip_family="IPv4")] == 9.25
    assert samples[key(f"{name}_bucket", ip_family="IPv4", le="0.25")] == 1
    assert samples[key(f"{name}_bucket", ip_family="IPv4", le="9")] == 2
    assert samples[key(f"{name}_count", ip_family="IPv6")] == 0
