"""The controller's metrics, with the names and labels that kube-controller-manager uses in the same release.

With `--follow kep`, changed slices also have the label `approach` (KEP-2433, Observability). Sources:
`endpoint_slice_controller_*` of kube-controller-manager; KEP-4444, Monitoring Requirements; KEP-2433, Observability.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from reference.client import Key
from reference.endpointslice.hints import CpuHeuristic, Mechanism, NoHints, PluginHeuristic, SameZoneOrNode
from reference.endpointslice.plan import SlicePlan
from reference.features import Features
from reference.serving import Histogram

Result = Literal["success", "stale", "failure"]

IMPLEMENTATION_SPECIFIC = "ImplementationSpecific"
"""The label value for all non-standard values of `trafficDistribution`, because each label value costs memory."""

_PREFIX = "endpoint_slice_controller_"
_POWERS_OF_TWO = tuple(float(2**exponent) for exponent in range(1, 16))
_DEFAULTS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # those of Prometheus' libraries

_Labels = tuple[tuple[str, str], ...]


class Metrics(Collector):
    """The metrics of one controller. Only the controller's thread writes them; any thread may read them."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._failure = "failure" if features.follows == "kep" else "error"
        self._added = Histogram(_POWERS_OF_TWO)
        self._removed = Histogram(_POWERS_OF_TWO)
        self._changed: dict[_Labels, Histogram] = {}
        self._changes: Counter[str] = Counter()
        self._syncs: Counter[str] = Counter()
        self._sizes: dict[Key, tuple[int, int, int]] = {}  # endpoints, slices, ideal number of slices
        self._totals: tuple[int, ...] = (0, 0, 0)
        self._distribution: dict[Key, str] = {}
        self._services: Counter[str] = Counter()

    def planned(self, key: Key, plan: SlicePlan) -> None:
        """Record the numbers of slices and endpoints in the plan of a Service, even if the writes fail later."""
        if not plan.families:
            return
        endpoints = slices = ideal = 0
        for family in plan.families.values():
            self._added.observe(family.added)
            self._removed.observe(family.removed)
            endpoints += sum(map(len, family.slices))
            slices += len(family.slices)
            ideal += family.ideal_slices
        self._resize(key, (endpoints, slices, ideal))
        self._distribute(key, self._counted_as(plan.mechanism))

    def wrote(self, operation: Literal["create", "update", "delete"]) -> None:
        self._changes[operation] += 1

    def applied(self, plan: SlicePlan) -> None:
        """Record the number of changed slices for each address family of a plan, even if the number is 0."""
        if not plan.families:
            return
        labels = self._change_labels(plan.mechanism)
        histogram = self._changed.get(labels)
        if histogram is None:
            histogram = self._changed[labels] = Histogram(_DEFAULTS)
        for family in plan.families.values():
            histogram.observe(family.changed_slices)

    def synced(self, result: Result) -> None:
        """Count a sync by its result. A sync is "stale" if the slices that it read were outdated."""
        self._syncs[self._failure if result == "failure" else result] += 1

    def forget(self, key: Key) -> None:
        self._resize(key, (0, 0, 0))
        self._sizes.pop(key, None)
        self._distribute(key, "")

    def collect(self) -> Iterable[Metric]:
        for name, histogram in (("added", self._added), ("removed", self._removed)):
            text = f"Number of endpoints {name} on each Service sync"
            yield _histograms(f"endpoints_{name}_per_sync", text, {(): histogram})
        endpoints, slices, ideal = self._totals
        yield GaugeMetricFamily(_PREFIX + "endpoints_desired", "Number of endpoints desired", endpoints)
        yield GaugeMetricFamily(_PREFIX + "num_endpoint_slices", "Number of EndpointSlices", slices)
        text = "Number of EndpointSlices that would exist with perfect endpoint allocation"
        yield GaugeMetricFamily(_PREFIX + "desired_endpoint_slices", text, ideal)
        changes = "changes_total" if self._features.at_least(38) else "changes"
        yield _counter(changes, "Number of EndpointSlice changes", "operation", self._changes)
        if self._features.at_least(21):
            text = "Number of EndpointSlices changed on each Service sync"
            yield _histograms("endpointslices_changed_per_sync", text, dict(self._changed))
            yield _counter("syncs", "Number of EndpointSlice syncs", "result", self._syncs)
        if self._features.at_least(30):
            text = "Number of Services using some specific trafficDistribution"
            name = _PREFIX + "services_count_by_traffic_distribution"
            family = GaugeMetricFamily(name, text, labels=["traffic_distribution"])
            for value, count in sorted(dict(self._services).items()):
                family.add_metric([value], count)
            yield family

    def _resize(self, key: Key, size: tuple[int, int, int]) -> None:
        before = self._sizes.get(key, (0, 0, 0))
        if size != before:
            self._sizes[key] = size
            changes = zip(self._totals, size, before, strict=True)
            self._totals = tuple(total + new - old for total, new, old in changes)

    def _distribute(self, key: Key, value: str) -> None:
        """Count the Service under `value`, unless it is "". A value that no Service uses any more keeps the count 0."""
        before = self._distribution.get(key, "")
        if value == before:
            return
        if before:
            self._services[before] -= 1
            del self._distribution[key]
        if value:
            self._services[value] += 1
            self._distribution[key] = value

    def _counted_as(self, mechanism: Mechanism) -> str:
        """Return the label value for a mechanism. Before 1.33, unknown values of trafficDistribution have one too."""
        if isinstance(mechanism, NoHints) and mechanism.unknown and not self._features.at_least(33):
            return IMPLEMENTATION_SPECIFIC if self._features.enabled("ServiceTrafficDistribution") else ""
        return _value(mechanism)

    def _change_labels(self, mechanism: Mechanism) -> _Labels:
        by_cpu = isinstance(mechanism, CpuHeuristic)
        labels = [("topology", "Auto" if by_cpu else "Disabled")]
        if self._features.at_least(30):
            labels.append(("traffic_distribution", _value(mechanism)))
        if self._features.follows == "kep":
            labels.append(("approach", "auto" if by_cpu else "random"))
        return tuple(labels)


def _value(mechanism: Mechanism) -> str:
    if isinstance(mechanism, PluginHeuristic):
        return IMPLEMENTATION_SPECIFIC
    return mechanism.value if isinstance(mechanism, SameZoneOrNode) else ""


class _CounterAsNamed(str):
    """A string that prints as "counter" but does not equal it, so prometheus_client appends no `_total` to the name."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def _counter(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    metric = Metric(_PREFIX + name, text, "counter")
    metric.type = _CounterAsNamed("counter")
    for value, count in sorted(dict(counts).items()):
        metric.add_sample(_PREFIX + name, {label: value}, count)
    return metric


def _histograms(name: str, text: str, histograms: Mapping[_Labels, Histogram]) -> Metric:
    """All `histograms` must have the same label names."""
    names = next(([label for label, _ in labels] for labels in histograms), [])
    family = HistogramMetricFamily(_PREFIX + name, text, labels=names)
    for labels, histogram in sorted(histograms.items()):
        histogram.add_to(family, [value for _, value in labels])
    return family
