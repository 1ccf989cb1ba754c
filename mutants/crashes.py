"""Components that crash or hang on unusual objects that an API server stores."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from mutants.mutant import Mutant
from reference.client import Client, Event, Key, Object
from reference.dns import DnsServer
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.plan import SlicePlan, plan_service
from reference.pod_locator import PodLocatorController
from reference.pod_locator.location import node_name
from reference.proxy import ServiceProxy

IsOdd = Callable[[Object], bool]

ENDED, HANGS = r"observed .* (?:has ended|exited unexpectedly)", r"observed .* has stopped processing changes"


class _CrashingComponent:
    """A component that crashes, or blocks until it is stopped if `hangs` is set."""

    def __init__(self, *arguments: Any, hangs: bool = False, **options: Any) -> None:
        self._hangs, self._over = hangs, threading.Event()
        super().__init__(*arguments, **options)

    def _wait_if_it_hangs(self) -> None:
        if self._hangs:
            self._over.wait()

    def stop(self) -> None:
        self._over.set()
        super().stop()  # type: ignore[misc]


class _CrashingProxy(_CrashingComponent, ServiceProxy):
    """Crashes on an unusual object of a resource. With `hangs`, it processes no later events instead."""

    def __init__(self, *arguments: Any, is_odd: IsOdd, resource: str = "endpointslices", **options: Any) -> None:
        self._is_odd, self._resource = is_odd, resource
        super().__init__(*arguments, **options)

    def _take(self, seconds: float | None) -> list[Event | None]:
        events = super()._take(seconds)
        if not any(each and each.resource == self._resource and self._is_odd(each.object) for each in events):
            return events
        self._wait_if_it_hangs()
        return [None]


class _CrashingController(_CrashingComponent, EndpointSliceController):
    """Crashes after a pod whose node does not exist. With `hangs`, it processes no later events instead."""

    def __init__(self, client: Client, **options: Any) -> None:
        super().__init__(client, plan=self._plan_and_end, **options)

    def _plan_and_end(self, service: Object, pods: Any, nodes: Any, existing: Any, **more: Any) -> SlicePlan:
        pods = list(pods)
        if {each["spec"].get("nodeName") for each in pods} - {None, "", *nodes}:
            self._wait_if_it_hangs()
            self._events.put(None)
        return plan_service(service, pods, nodes, existing, **more)


class _CrashingDns(_CrashingComponent, DnsServer):
    """Crashes on a slice of type FQDN. With `hangs`, it answers no later queries instead."""

    def _apply(self, event: Event) -> None:
        is_odd = event.resource == "endpointslices" and _of_names(event.object)
        if is_odd and threading.current_thread() is self._thread:  # `stop` runs what is left in its own thread
            self._wait_if_it_hangs()
            if not self._hangs:
                self._loop.stop()
        super()._apply(event)


class _CrashingPodLocators(_CrashingComponent, PodLocatorController):
    """Crashes on a pod whose node does not exist. With `hangs`, it processes no later events instead."""

    def _sync(self, key: Key) -> None:
        super()._sync(key)
        node = node_name(self._locations._pods.get(key, {}))
        if node and node not in self._locations._nodes:
            self._wait_if_it_hangs()
            self._events.put(None)


def _of_unknown_readiness(obj: Object) -> bool:
    return any("ready" not in (each.get("conditions") or {}) for each in obj.get("endpoints") or ())


def _of_names(obj: Object) -> bool:
    return bool(obj["addressType"] == "FQDN")


def _without_ports(obj: Object) -> bool:
    return not obj.get("ports")


def _with_source_ranges(obj: Object) -> bool:
    return bool(obj["spec"].get("loadBalancerSourceRanges"))


MUTANTS = [
    Mutant(
        "crashes-on-endpoints-without-conditions",
        "The proxy crashes on an endpoint without a ready condition.",
        "ingress-nginx#9550",
        ENDED,
        proxy=partial(_CrashingProxy, is_odd=_of_unknown_readiness),
    ),
    Mutant(
        "crashes-on-slices-of-names",
        "The proxy crashes on a slice of type FQDN.",
        symptom=ENDED,
        proxy=partial(_CrashingProxy, is_odd=_of_names),
    ),
    Mutant(
        "crashes-on-source-ranges",
        "The proxy crashes on a Service with loadBalancerSourceRanges.",
        symptom=ENDED,
        proxy=partial(_CrashingProxy, is_odd=_with_source_ranges, resource="services"),
    ),
    Mutant(
        "hangs-on-slices-without-ports",
        "The proxy stops processing changes after a slice without ports.",
        symptom=HANGS,
        proxy=partial(_CrashingProxy, is_odd=_without_ports, hangs=True),
    ),
    Mutant(
        "controller-crashes-on-pods-of-strange-nodes",
        "The controller crashes on a pod whose node does not exist.",
        "kubernetes#107927",
        ENDED,
        controller=_CrashingController,
    ),
    Mutant(
        "controller-hangs-on-pods-of-strange-nodes",
        "The controller stops processing changes after a pod whose node does not exist.",
        symptom=HANGS,
        controller=partial(_CrashingController, hangs=True),
    ),
    Mutant(
        "dns-crashes-on-slices-of-names",
        "The DNS server crashes on a slice of type FQDN.",
        symptom=HANGS,  # it runs in the suite's process, which detects that it hangs
        dns=_CrashingDns,
    ),
    Mutant(
        "dns-hangs-on-slices-of-names",
        "The DNS server stops answering after a slice of type FQDN.",
        symptom=HANGS,
        dns=partial(_CrashingDns, hangs=True),
    ),
    Mutant(
        "locator-controller-crashes-on-strange-nodes",
        "The PodLocator controller crashes on a pod whose node does not exist.",
        symptom=ENDED,
        pod_locators=_CrashingPodLocators,
    ),
    Mutant(
        "locator-controller-hangs-on-strange-nodes",
        "The PodLocator controller stops processing changes after a pod whose node does not exist.",
        symptom=HANGS,
        pod_locators=partial(_CrashingPodLocators, hangs=True),
    ),
]
