"""Components that end, or do nothing any more, when they are given something odd that an API server stores."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from mutants.mutant import WRITTEN, Mutant
from reference.client import Client, Event, Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.plan import Plan, plan_service
from reference.proxy import ServiceProxy
from reference.proxy.state import State

IsOdd = Callable[[Object], bool]


class _Crashing(State):
    """Ends its thread at an odd slice."""

    def __init__(self, *arguments: Any, is_odd: IsOdd) -> None:
        super().__init__(*arguments)
        self._is_odd = is_odd

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if resource == "endpointslices" and self._is_odd(obj):
            raise SystemExit
        super().receive(resource, obj, deleted=deleted)


class _Hanging(ServiceProxy):
    """Takes no event any more after an odd slice."""

    def __init__(self, *arguments: Any, is_odd: IsOdd, **options: Any) -> None:
        self._is_odd, self._stopped = is_odd, threading.Event()
        super().__init__(*arguments, **options)

    def _take(self, seconds: float | None) -> list[Event | None]:
        events = super()._take(seconds)
        if any(each and each.resource == "endpointslices" and self._is_odd(each.object) for each in events):
            self._stopped.wait()
            return [None]
        return events

    def stop(self) -> None:
        self._stopped.set()
        super().stop()


def _controller(client: Client, **options: Any) -> EndpointSliceController:
    """Return a controller that ends at a pod whose node does not exist."""

    def plan(service: Object, pods: Any, nodes: Any, existing: Any, **more: Any) -> Plan:
        pods = list(pods)
        if {each["spec"].get("nodeName") for each in pods} - {None, "", *nodes}:
            raise SystemExit
        return plan_service(service, pods, nodes, existing, **more)

    return EndpointSliceController(client, plan=plan, **options)


def _of_unknown_readiness(obj: Object) -> bool:
    return any("ready" not in (each.get("conditions") or {}) for each in obj.get("endpoints") or ())


def _of_names(obj: Object) -> bool:
    return bool(obj["addressType"] == "FQDN")


def _without_ports(obj: Object) -> bool:
    return not obj.get("ports")


MUTANTS = [
    Mutant(
        "crashes-on-endpoints-without-conditions",
        "A proxy ends at an endpoint without ready condition.",
        "ingress-nginx#9550",
        WRITTEN,
        proxy=partial(ServiceProxy, state=partial(_Crashing, is_odd=_of_unknown_readiness)),
    ),
    Mutant(
        "crashes-on-slices-of-names",
        "A proxy ends at a slice of type FQDN.",
        symptom=WRITTEN,
        proxy=partial(ServiceProxy, state=partial(_Crashing, is_odd=_of_names)),
    ),
    Mutant(
        "hangs-on-slices-without-ports",
        "A proxy works on nothing any more after a slice without ports.",
        symptom=WRITTEN,
        proxy=partial(_Hanging, is_odd=_without_ports),
    ),
    Mutant(
        "controller-crashes-on-pods-of-strange-nodes",
        "The controller ends at a pod whose node does not exist.",
        "kubernetes#107927",
        WRITTEN,
        controller=_controller,
    ),
]
