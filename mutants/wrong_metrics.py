"""Components that work correctly, but have wrong metrics."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from mutants.mutant import WRITTEN, Mutant
from reference.client import Client, Key
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.hints import CpuHeuristic, Mechanism
from reference.endpointslice.metrics import Metrics
from reference.endpointslice.plan import SlicePlan
from reference.proxy import ServiceProxy
from reference.proxy.state import FAMILIES, Dropped, Name, State

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MUTANTS: list[Mutant] = []

Samples = list[Sample]


class _EditedMetrics(Collector):
    """Exposes another collector's samples with the modifications of `change`."""

    def __init__(self, inner: Collector, change: Callable[[Samples], Samples]) -> None:
        self._inner = inner
        self._change = change

    def collect(self) -> Iterable[Metric]:
        for metric in self._inner.collect():
            metric.samples = self._change(metric.samples)
            yield metric


def _registry(inner: Collector, change: Callable[[Samples], Samples]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_EditedMetrics(inner, change))
    return registry


def _nothing(samples: Samples) -> Samples:
    return [each._replace(value=0.0) for each in samples]


class _ControllerWithEditedMetrics(EndpointSliceController):
    """A controller with modified metrics."""

    def __init__(
        self, client: Client, *, change: Callable[[], Callable[[Samples], Samples]] | None = None, **options: Any
    ) -> None:
        super().__init__(client, **options)
        if change is not None:
            self.registry = _registry(self._metrics, change())


class ProxyWithEditedMetrics(ServiceProxy):
    """A proxy with modified metrics."""

    def __init__(
        self, *arguments: Any, change: Callable[[], Callable[[Samples], Samples]] | None = None, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        if change is not None:
            self.registry = self._metrics.registry = _registry(self._metrics, change())


class _CountsRefusedRules(ServiceProxy):
    """Takes a refused write for a sync."""

    def _write(self) -> bool:
        written = super()._write()
        self._metrics.last_synced |= dict.fromkeys(FAMILIES, time.time())
        return written


def _relabelled(name: str, label: str, values: Mapping[str, str]) -> Callable[[], Callable[[Samples], Samples]]:
    """Change a label of samples whose name has this suffix. Samples whose labels become equal are added."""

    def change(samples: Samples) -> Samples:
        found: dict[str, Sample] = {}
        for each in samples:
            if each.name.endswith(name) and label in each.labels:
                value = each.labels[label]
                each = each._replace(labels={**each.labels, label: values.get(value, value)})  # noqa: PLW2901
            key = f"{each.name} {sorted(each.labels.items())}"
            found[key] = each._replace(value=each.value + found[key].value) if key in found else each
        return list(found.values())

    return lambda: change


def _milliseconds(samples: Samples) -> Samples:
    return [
        each._replace(value=each.value * 1000) if each.name.endswith("timestamp_seconds") else each for each in samples
    ]


def _now(samples: Samples) -> Samples:
    return [
        each._replace(value=time.time()) if each.name.endswith("rules_last_timestamp_seconds") else each
        for each in samples
    ]


def _only_growing() -> Callable[[Samples], Samples]:
    """Prevent gauges of the controller from decreasing."""
    most: dict[str, float] = {}

    def change(samples: Samples) -> Samples:
        found = []
        for each in samples:
            most[each.name] = max(each.value, most.get(each.name, 0.0))
            gauge = each.name.endswith(("_endpoint_slices", "_endpoints_desired"))
            found.append(each._replace(value=most[each.name]) if gauge else each)
        return found

    return change


class _CountsFirstValue(_ControllerWithEditedMetrics):
    """Always counts a Service under its first value."""

    def _follow(self, key: Key, plan: SlicePlan) -> None:
        if key not in self._plans_seen:
            self._plans_seen[key] = plan
        super()._follow(key, replace(plan, mechanism=self._plans_seen[key].mechanism))

    def __init__(self, client: Client, **options: Any) -> None:
        self._plans_seen: dict[Key, SlicePlan] = {}
        super().__init__(client, **options)


class _KeepsCountWithAnnotation(_ControllerWithEditedMetrics):
    """Keeps the count of a Service unchanged when the Service receives the annotation."""

    def __init__(self, client: Client, **options: Any) -> None:
        self._before: dict[Key, Mechanism] = {}
        super().__init__(client, **options)

    def _follow(self, key: Key, plan: SlicePlan) -> None:
        if not isinstance(plan.mechanism, CpuHeuristic):
            self._before[key] = plan.mechanism
        super()._follow(key, replace(plan, mechanism=self._before.get(key, plan.mechanism)))


class _CountsChangedSyncs(EndpointSliceController):
    def __init__(self, client: Client, **options: Any) -> None:
        super().__init__(client, **options)
        self.registry.unregister(self._metrics)
        self._metrics = _ChangedSyncMetrics(self._features)
        self.registry.register(self._metrics)


class _ChangedSyncMetrics(Metrics):
    def applied(self, plan: SlicePlan) -> None:
        families = {
            address_type: replace(each, changed_slices=min(1, each.changed_slices))
            for address_type, each in plan.families.items()
        }
        super().applied(replace(plan, families=families))


class _CountsEmptyServices(State):
    """Counts Services with a `Local` policy that have no endpoint at all."""

    def _compute_service(self, name: Name, service: Any) -> None:
        super()._compute_service(name, service)
        if not any(each.raw for each in service.slices.values()):
            counted: set[Dropped] = {
                (family, "internal") for family, ports in service.ports.items() if any(p.internal_local for p in ports)
            }
            self.dropped.update(counted)
            service.dropped = frozenset(counted)


def _swapped() -> Callable[[Samples], Samples]:
    names = {"added": "removed", "removed": "added"}

    def swapped(name: str) -> str:
        return re.sub("added|removed", lambda found: names[found[0]], name)

    return lambda samples: [each._replace(name=swapped(each.name)) for each in samples]


_SAME_RESULT = {"failure": "success", "error": "success"}

MUTANTS += [
    Mutant(
        "controller-metrics-never-change",
        "The metrics of the controller are always 0.",
        symptom=WRITTEN,
        controller=partial(_ControllerWithEditedMetrics, change=lambda: _nothing),
    ),
    Mutant(
        "proxy-metrics-never-change",
        "The metrics of the proxy are always 0.",
        symptom=WRITTEN,
        proxy=partial(ProxyWithEditedMetrics, change=lambda: _nothing),
    ),
    Mutant(
        "failures-count-as-successes",
        "The controller counts a failed sync as a success.",
        symptom=WRITTEN,
        controller=partial(_ControllerWithEditedMetrics, change=_relabelled("_syncs", "result", _SAME_RESULT)),
    ),
    Mutant(
        "successes-count-as-failures",
        "The controller counts a successful sync as a failure.",
        symptom=WRITTEN,
        controller=partial(
            _ControllerWithEditedMetrics, change=_relabelled("_syncs", "result", {"success": "failure"})
        ),
    ),
    Mutant(
        "changed-slices-without-labels",
        "The metric of changed slices has an empty traffic_distribution label.",
        symptom=WRITTEN,
        controller=partial(
            _ControllerWithEditedMetrics,
            change=_relabelled("", "traffic_distribution", {"PreferClose": "", "PreferSameNode": ""}),
        ),
    ),
    Mutant(
        "changed-slices-without-approach",
        "The metric of changed slices has an empty approach label.",
        symptom=WRITTEN,
        controller=partial(
            _ControllerWithEditedMetrics, change=_relabelled("", "approach", {"auto": "", "random": ""})
        ),
    ),
    Mutant(
        "counts-changed-syncs",
        "The metric of changed slices counts a sync that changes several slices as one change.",
        symptom=WRITTEN,
        controller=_CountsChangedSyncs,
    ),
    Mutant(
        "forgets-to-uncount",
        "The metrics still count removed slices and endpoints.",
        symptom=WRITTEN,
        controller=partial(_ControllerWithEditedMetrics, change=_only_growing),
    ),
    Mutant(
        "added-counts-as-removed",
        "The metrics count added endpoints as removed, and removed endpoints as added.",
        symptom=WRITTEN,
        controller=partial(_ControllerWithEditedMetrics, change=_swapped),
    ),
    Mutant(
        "counts-services-at-first-sight",
        "The metric always counts a Service under its first value.",
        symptom=WRITTEN,
        controller=_CountsFirstValue,
    ),
    Mutant(
        "counts-annotated-services",
        "When a Service gets the annotation, the metric still counts the Service under its trafficDistribution.",
        symptom=WRITTEN,
        controller=_KeepsCountWithAnnotation,
    ),
    Mutant(
        "timestamps-in-milliseconds",
        "Metrics in seconds are reported in milliseconds.",
        symptom=WRITTEN,
        proxy=partial(ProxyWithEditedMetrics, change=lambda: _milliseconds),
    ),
    Mutant(
        "last-sync-is-now",
        "The time of the last sync is the time of the scrape.",
        symptom=WRITTEN,
        proxy=partial(ProxyWithEditedMetrics, change=lambda: _now),
    ),
    Mutant(
        "refused-rules-count-as-synced",
        "The time of the last sync also moves on when the kernel refuses the rules.",
        symptom=WRITTEN,
        proxy=_CountsRefusedRules,
    ),
    Mutant(
        "drops-counted-for-the-other-policy",
        "The metrics count Services whose internal traffic is dropped as external, and vice versa.",
        symptom=WRITTEN,
        proxy=partial(
            ProxyWithEditedMetrics,
            change=_relabelled(
                "_no_local_endpoints_total", "traffic_policy", {"internal": "external", "external": "internal"}
            ),
        ),
    ),
    Mutant(
        "refusals-counted-as-drops",
        "The metric for dropped traffic also counts a Service without any endpoint.",
        symptom=WRITTEN,
        proxy=partial(ServiceProxy, state=_CountsEmptyServices),
    ),
]
