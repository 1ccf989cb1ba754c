"""Components with wrong times of changes, in the annotations of slices or in the metrics of proxies."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from mutants.mutant import WRITTEN, Mutant
from mutants.wrong_metrics import ProxyWithEditedMetrics, Samples
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.plan import SlicePlan
from reference.objects.timestamps import timestamp
from reference.objects.trigger_times import ANNOTATION
from reference.proxy import ServiceProxy


class _WritesNoTime(EndpointSliceController):
    def _apply(self, namespace: str, plan: SlicePlan, time: str = "") -> None:
        super()._apply(namespace, plan)


class _WritesTheTimeOfTheWrite(EndpointSliceController):
    def _apply(self, namespace: str, plan: SlicePlan, time: str = "") -> None:
        super()._apply(namespace, plan, timestamp())


class _KeepsOldTimes(EndpointSliceController):
    """Does not remove the annotation of a slice when the change has no time."""

    def _apply(self, namespace: str, plan: SlicePlan, time: str = "") -> None:
        annotations = [each["metadata"].get("annotations") or {} for each in plan.update]
        old = next((each[ANNOTATION] for each in annotations if ANNOTATION in each), "")
        super()._apply(namespace, plan, time or old)


class _CountsNoChange(ServiceProxy):
    def _report(self) -> None:
        self._state.triggered.clear()
        super()._report()


class _MeasuresFromTheEvent(ServiceProxy):
    """Measures from the time when the proxy gets the slice."""

    def _report(self) -> None:
        self._state.triggered = [(family, time.time()) for family, _ in self._state.triggered]
        super()._report()


class _MeasuresOldChanges(ServiceProxy):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._metrics._started = 0.0


def _milliseconds(samples: Samples) -> Samples:
    return [
        each._replace(value=each.value * 1000) if each.name.endswith("programming_duration_seconds_sum") else each
        for each in samples
    ]


MUTANTS = [
    Mutant(
        "slices-without-trigger-time",
        "The controller does not write the time of the change to slices.",
        symptom=WRITTEN,
        controller=_WritesNoTime,
    ),
    Mutant(
        "trigger-time-of-the-write",
        "The controller writes the time of its own write as the time of the change.",
        symptom=WRITTEN,
        controller=_WritesTheTimeOfTheWrite,
    ),
    Mutant(
        "keeps-old-trigger-times",
        "The controller keeps the time of an earlier change in slices that it writes for another reason.",
        symptom=WRITTEN,
        controller=_KeepsOldTimes,
    ),
    Mutant(
        "programming-time-is-never-counted",
        "The metric of the network programming time never changes.",
        symptom=WRITTEN,
        proxy=_CountsNoChange,
    ),
    Mutant(
        "programming-time-from-the-event",
        "The metric of the network programming time does not include the time before the proxy gets the slice.",
        symptom=WRITTEN,
        proxy=_MeasuresFromTheEvent,
    ),
    Mutant(
        "programming-time-in-milliseconds",
        "The metric of the network programming time is in milliseconds.",
        symptom=WRITTEN,
        proxy=partial(ProxyWithEditedMetrics, change=lambda: _milliseconds),
    ),
    Mutant(
        "measures-changes-before-its-start",
        "The metric of the network programming time counts changes from before the start of the proxy.",
        symptom=WRITTEN,
        proxy=_MeasuresOldChanges,
    ),
]
