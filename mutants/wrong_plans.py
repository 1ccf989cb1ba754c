"""Builds EndpointSlice controllers with wrong plans. Each fault is a function that replaces `plan_service`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mutants.mutant import WRITTEN, Mutant
from reference.client import Client, Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.plan import SlicePlan, plan_service

Pods = Iterable[Object]
Nodes = Mapping[str, Object]
Planner = Callable[..., SlicePlan]
"""A function with the signature of `plan_service`."""

Write = Callable[[Object, Object], Object]
"""Returns the endpoint to write. The arguments are the Service and the planned endpoint."""


@dataclass(frozen=True, slots=True)
class PlanMutantRegistry:
    """Adds mutants to a list. With `about`, a planner is correct for Services that the fault does not affect."""

    mutants: list[Mutant]
    about: Callable[[Planner], Planner] = lambda plan: plan

    def of_controller(
        self,
        name: str,
        sentence: str,
        provenance: str,
        controller: Callable[..., EndpointSliceController],
        symptom: str = WRITTEN,
    ) -> None:
        """Add a mutant that has this controller."""
        self.mutants.append(Mutant(name, sentence, provenance, symptom, controller=controller))

    def misplans(
        self, name: str, sentence: str, provenance: str = "", symptom: str = WRITTEN
    ) -> Callable[[Planner], Planner]:
        """Create a mutant from a planner."""

        def register(plan: Planner) -> Planner:
            controller = partial(EndpointSliceController, plan=self.about(plan))
            self.of_controller(name, sentence, provenance, controller, symptom)
            return plan

        return register

    def remembers(
        self, name: str, sentence: str, provenance: str = ""
    ) -> Callable[[Callable[[], Planner]], Callable[[], Planner]]:
        """Create a mutant from a factory of planners. Each controller has a separate planner with separate memory."""

        def register(make: Callable[[], Planner]) -> Callable[[], Planner]:
            def controller(client: Client, **options: Any) -> EndpointSliceController:
                return EndpointSliceController(client, plan=self.about(make()), **options)

            self.of_controller(name, sentence, provenance, controller)
            return make

        return register

    def miswrites(self, name: str, sentence: str, provenance: str = "") -> Callable[[Write], Write]:
        """Create a mutant from a function that changes the endpoints to write."""

        def register(write: Write) -> Write:
            def plan(service: Object, *others: Any, **options: Any) -> SlicePlan:
                def changed(each: Object) -> Object:
                    return {**each, "endpoints": [write({**service, "slice": each}, one) for one in each["endpoints"]]}

                return rewritten(plan_service(service, *others, **options), changed)

            self.misplans(name, sentence, provenance)(plan)
            return write

        return register


def rewritten(plan: SlicePlan, change: Callable[[Object], Object]) -> SlicePlan:
    """Return the plan with `change` applied to each slice that the plan writes."""
    return replace(plan, create=tuple(map(change, plan.create)), update=tuple(map(change, plan.update)))


def with_spec(service: Object, **spec: Any) -> Object:
    """Return the Service with modified fields in its spec. The value None removes a field."""
    changed = {name: value for name, value in {**service["spec"], **spec}.items() if value is not None}
    return {**service, "spec": changed}


def distribution_of(service: Object) -> str:
    """Return the trafficDistribution of the Service, or ""."""
    return str(service["spec"].get("trafficDistribution") or "")


def without(obj: Object, *names: str) -> Object:
    """Return the object without these fields."""
    return {name: value for name, value in obj.items() if name not in names}
