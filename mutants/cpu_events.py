"""Controllers with correct hints by CPU (KEP-2433), but wrong Events or metrics about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mutants.mutant import Mutant
from mutants.service_conditions import writing_events
from mutants.wrong_plans import PlanMutantRegistry
from reference.client import Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.hints import CpuHeuristic, NoHints
from reference.endpointslice.metrics import Metrics
from reference.endpointslice.plan import SlicePlan

MUTANTS: list[Mutant] = []

_faults = PlanMutantRegistry(MUTANTS)


def _telling(tell: Callable[[Object], Object | None]) -> Callable[..., EndpointSliceController]:
    """Return a controller that changes or drops its Events about hints."""
    return writing_events(lambda event: tell(event) if "TopologyAware" in event["reason"] else event)


def _tells(name: str, sentence: str, provenance: str = "") -> Callable[[Callable[[Object], Object | None]], None]:
    """Create a mutant that writes wrong Events about hints. The decorated function returns the Event to write."""

    def register(tell: Callable[[Object], Object | None]) -> None:
        _faults.of_controller(name, sentence, provenance, _telling(tell))

    return register


@_tells(
    "tells-nobody-of-hints", "The controller writes no Event when hints are added or withheld.", "kubernetes#103888"
)
def tells_nobody_of_hints(event: Object) -> Object | None:
    return None


@_tells("tells-of-trouble-only", "The controller writes Events only for problems.")
def tells_of_trouble_only(event: Object) -> Object | None:
    return event if event["type"] == "Warning" else None


@_tells("tells-without-a-cause", "Events report that there are no hints, but not the cause.", "kubernetes#119990")
def tells_without_a_cause(event: Object) -> Object | None:
    return {**event, "message": "Topology Aware Hints has changed"}


def _once(client: Any, **options: Any) -> EndpointSliceController:
    told: set[str] = set()

    def tell(event: Object) -> Object | None:
        uid = event["involvedObject"]["uid"]
        if uid in told:
            return None
        told.add(uid)
        return event

    return _telling(tell)(client, **options)


_faults.of_controller(
    "tells-the-first-news-only", "The controller writes only the first Event about a Service's hints.", "", _once
)


def _after_hints(client: Any, **options: Any) -> EndpointSliceController:
    hinted: set[str] = set()

    def tell(event: Object) -> Object | None:
        uid = event["involvedObject"]["uid"]
        if event["type"] != "Warning":
            hinted.add(uid)
        return event if uid in hinted else None

    return _telling(tell)(client, **options)


_faults.of_controller(
    "tells-nobody-of-the-first-refusal",
    "The controller writes no Event about a Service that never had hints.",
    "",
    _after_hints,
)


class _MetricsWithoutAuto(Metrics):
    def applied(self, plan: SlicePlan) -> None:
        by_cpu = isinstance(plan.mechanism, CpuHeuristic)
        super().applied(replace(plan, mechanism=NoHints("")) if by_cpu else plan)


class _CountsAutoAsDisabled(EndpointSliceController):
    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        self.registry.unregister(self._metrics)
        self._metrics = _MetricsWithoutAuto(self._features)
        self.registry.register(self._metrics)


_faults.of_controller(
    "auto-counts-as-disabled",
    "The metric counts slices that are changed for hints by CPU under topology Disabled.",
    "",
    _CountsAutoAsDisabled,
)
