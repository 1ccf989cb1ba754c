"""The proxy's metrics under kube-proxy's names. Before 1.33, one series covers both IP families.

They are plain numbers until collection: prometheus_client's counters are slow and add a `_created` series.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from operator import add

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from reference.features import Features
from reference.proxy.decision import Family
from reference.proxy.health import Health
from reference.proxy.state import FAMILIES, Dropped
from reference.serving import Histogram, Response, not_found, plain

BOUNDS = tuple(0.001 * 2**step for step in range(15))
"""Upper bounds of the buckets for synchronisation times, in seconds, as in kube-proxy."""

PROGRAMMING_BOUNDS = (0.25, 0.5, *range(1, 60), *range(60, 120, 5), *range(120, 301, 30))
"""Upper bounds of the buckets for the time from a change of a pod or Service to the kernel, as in kube-proxy."""

_CHANGES = {"endpointslices": "endpoint", "services": "service"}


class Metrics:
    """The metrics of one proxy, which are registered in `registry`. Times are in seconds since 1970."""

    def __init__(self, features: Features, health: Health, no_local: Callable[[], Mapping[Dropped, int]]) -> None:
        self.seen = dict.fromkeys(("services", "endpointslices", "nodes", "podlocators", ""), 0)
        self.done = dict(self.seen)
        self.durations: dict[Family, Histogram] = {family: Histogram(BOUNDS) for family in FAMILIES}
        self.programming = {family: Histogram(PROGRAMMING_BOUNDS) for family in FAMILIES}
        self.failures: dict[Family, int] = dict.fromkeys(FAMILIES, 0)
        self.last_queued = 0.0
        self.last_synced: dict[Family, float] = dict.fromkeys(FAMILIES, 0.0)
        self.registry = CollectorRegistry()
        self._started = time.time()
        self._health = health
        self._no_local = no_local
        self._by_family = features.at_least(33)
        self._knows_livez = features.at_least(28)
        self.registry.register(self)

    def programmed(self, triggered: Iterable[tuple[Family, float]]) -> None:
        """Observe the ages of changes that the kernel now has. Changes before the start of the proxy are left out."""
        now = time.time()
        for family, begun in triggered:
            if begun > self._started:
                self.programming[family].observe(now - begun)

    def answer(self, path: str) -> Response:
        """Answer requests to port 10249: /metrics, and kube-proxy's /proxyMode and /healthz."""
        match path:
            case "/metrics":
                return 200, {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}, generate_latest(self.registry)
            case "/proxyMode":
                return plain(200, "nftables")
            case "/healthz":
                return plain(200, "ok")
            case _:
                return not_found(path)

    def collect(self) -> Iterator[Metric]:
        yield self._histogram("sync_proxy_rules_duration_seconds", "Time to update the rules", self.durations)
        text = "Time from a change of a pod or Service until the rules are updated"
        yield self._histogram("network_programming_duration_seconds", text, self.programming)
        synced, queued = self.last_synced, dict.fromkeys(FAMILIES, self.last_queued)
        yield self._gauge("sync_proxy_rules_last_timestamp_seconds", "Time of the last update of the rules", synced)
        yield self._gauge("sync_proxy_rules_last_queued_timestamp_seconds", "Time of the last change", queued)
        yield self._counter("sync_proxy_rules_nftables_sync_failures_total", "Rules that the kernel refused")
        yield from self._changes()
        yield self._no_local_endpoints()
        yield from self._probes()

    def _series(self) -> list[tuple[list[str], tuple[Family, ...]]]:
        """Return the values of the label ip_family, if the label exists, and the IP families that each value covers."""
        return [([family], (family,)) for family in FAMILIES] if self._by_family else [([], FAMILIES)]

    @property
    def _labels(self) -> list[str]:
        return ["ip_family"] if self._by_family else []

    def _histogram(self, name: str, text: str, histograms: Mapping[Family, Histogram]) -> Metric:
        metric = HistogramMetricFamily(f"kubeproxy_{name}", text, labels=self._labels)
        for labels, families in self._series():
            reduce(add, (histograms[each] for each in families)).add_to(metric, labels)
        return metric

    def _gauge(self, name: str, text: str, values: Mapping[Family, float]) -> Metric:
        metric = GaugeMetricFamily(f"kubeproxy_{name}", text, labels=self._labels)
        for labels, families in self._series():
            metric.add_metric(labels, max(values[each] for each in families))
        return metric

    def _counter(self, name: str, text: str) -> Metric:
        metric = CounterMetricFamily(f"kubeproxy_{name}", text, labels=self._labels)
        for labels, families in self._series():
            metric.add_metric(labels, sum(self.failures[each] for each in families))
        return metric

    def _changes(self) -> Iterator[Metric]:
        """As in kube-proxy, each event is counted in both IP families."""
        for resource, word in _CHANGES.items():
            name, seen = f"kubeproxy_sync_proxy_rules_{word}_changes", self.seen[resource]
            text, labels = f"Changes of {resource}", self._labels
            waiting = GaugeMetricFamily(f"{name}_pending", f"{text} not yet in the kernel", labels=labels)
            total = CounterMetricFamily(f"{name}_total", text, labels=labels)
            for values, _ in self._series():
                waiting.add_metric(values, seen - self.done[resource])
                total.add_metric(values, seen)
            yield from (waiting, total)

    def _no_local_endpoints(self) -> Metric:
        name = "kubeproxy_sync_proxy_rules_no_local_endpoints_total"
        text = "Services whose traffic this node drops, because it has no local endpoint"
        metric = GaugeMetricFamily(name, text, labels=["traffic_policy", *self._labels])
        counts = self._no_local()
        for labels, families in self._series():
            metric.add_metric(["internal", *labels], max(counts[each, "internal"] for each in families))
            metric.add_metric(["external", *labels], max(counts[each, "external"] for each in families))
        return metric

    def _probes(self) -> Iterator[Metric]:
        for name in ("healthz", "livez") if self._knows_livez else ("healthz",):
            metric = CounterMetricFamily(f"kubeproxy_proxy_{name}_total", f"Answers of /{name}", labels=["code"])
            for code, count in self._health.codes[name].items():
                metric.add_metric([str(code)], count)
            yield metric
