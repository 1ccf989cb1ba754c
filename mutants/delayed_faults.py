"""EndpointSlice controllers whose output is correct at first, and becomes wrong later."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from mutants.client_wrappers import controller_through
from mutants.delayed_watches import DelayedClient
from mutants.mutant import WRITTEN, Mutant
from mutants.wrong_plans import Planner, distribution_of, with_spec
from reference.client import Client, Event, Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.plan import SlicePlan, plan_service

LATER = 0.3  # seconds


def _late(resource: str, kind: str, plan: Planner) -> Callable[..., EndpointSliceController]:
    """Return a controller with the planner `plan` that receives some events late but reports that it is up to date."""

    def lateness(event: Event) -> float:
        return LATER if (event.resource, event.type) == (resource, kind) else 0.0

    return controller_through(partial(DelayedClient, lateness=lateness), plan=plan)


class _DropsHintsLater(EndpointSliceController):
    """Syncs a Service again some time after it is created, and from then on plans no hints."""

    def __init__(self, client: Client, **options: Any) -> None:
        super().__init__(client, plan=self._plan, **options)
        self._due: dict[str, float] = {}  # by the UID of a Service

    def _plan(self, service: Object, *others: Any, **options: Any) -> SlicePlan:
        if not distribution_of(service):
            return plan_service(service, *others, **options)
        now, metadata = time.monotonic(), service["metadata"]
        if metadata["uid"] not in self._due:
            self._due[metadata["uid"]] = now + LATER
            self._work.add_at((metadata["namespace"], metadata["name"]), now + LATER)
        late = now >= self._due[metadata["uid"]]
        return plan_service(with_spec(service, trafficDistribution=None) if late else service, *others, **options)


def _ends_at_local(service: Object, *others: Any, **options: Any) -> SlicePlan:
    local = service["spec"].get("internalTrafficPolicy") == "Local"
    return plan_service(with_spec(service, trafficDistribution=None) if local else service, *others, **options)


MUTANTS: list[Mutant] = [
    Mutant(
        "takes-hints-back",
        f"Hints are removed {LATER:g} s after a Service is created, although nothing has changed.",
        symptom=WRITTEN,
        controller=_DropsHintsLater,
    ),
    Mutant(
        "local-policy-ends-hints-later",
        f"A Service that gets internalTrafficPolicy Local loses its hints {LATER:g} s later.",
        symptom=WRITTEN,
        controller=_late("services", "MODIFIED", _ends_at_local),
    ),
]
