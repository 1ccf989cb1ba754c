"""Proxies that route correctly, but give wrong answers to health checks."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.mutant import WRITTEN, Mutant
from reference.client import Event
from reference.proxy import ServiceProxy
from reference.proxy.listeners import HEALTH_PORT
from reference.proxy.objects import health_check_port
from reference.proxy.state import Name, State
from reference.serving import Handler, Response

MUTANTS: list[Mutant] = []

COLLECTS = 1.0
"""The time in seconds to wait until another Service has the health check node port that a Service no longer has."""

UPLINK = b"eth0"
"""The interface of a node of the embedded cluster to other nodes and to external clients."""

Endpoints = Sequence[Mapping[str, Any]]


class _WrongHealthCounts(State):
    """The state of a proxy whose health checks count the wrong endpoints."""

    def __init__(self, *arguments: Any, see: Callable[[Endpoints, str, str], Endpoints], **parts: Any) -> None:
        super().__init__(*arguments, **parts)
        self._see = see

    def _check_health(self, name: Name, service: Any) -> None:
        place, slices = self._node.place, service.slices
        service.slices = {
            key: replace(each, raw=self._see(each.raw, place.node, place.zone)) for key, each in slices.items()
        }
        super()._check_health(name, service)
        service.slices = slices


class _NeverUpdatesHealthCount(State):
    """The state of a proxy whose health checks never update their first count that is not zero."""

    def _check_health(self, name: Name, service: Any) -> None:
        if service.checked is None or not any(service.checked[1].counts.values()):
            super()._check_health(name, service)


class _ClosesMovedPort(State):
    """The state of a proxy that closes a port that moves to another Service, although the other Service has it now."""

    def _was_taken_over(self, health_port: int, name: Name) -> bool:
        return False


class _BatchesThenClosesPort(ServiceProxy):
    """A proxy that batches changes until a removed port belongs to another Service, and then closes the port."""

    def _take(self, seconds: float | None) -> list[Event | None]:
        events = super()._take(seconds)
        end = time.monotonic() + COLLECTS
        while None not in events and self._lacks_an_heir(events) and (left := end - time.monotonic()) > 0:
            events += super()._take(left)
        return events

    def _lacks_an_heir(self, events: Sequence[Event | None]) -> bool:
        """Return whether `events` remove health check node ports from Services, and assign them to no other Service."""
        lost, gained = set(), set()
        for event in events:
            if event is None or event.resource != "services" or not event.object:
                continue
            metadata = event.object["metadata"]
            service = self._state._services.get((metadata["namespace"], metadata["name"]))
            before = service.health_port if service else 0
            port = 0 if event.type == "DELETED" else health_check_port(event.object)
            if port != before:
                lost.add(before)
                gained.add(port)
        lost.discard(0)
        return bool(lost) and lost.isdisjoint(gained)


class _KeepsHealthChecks(State):
    """The state of a proxy that continues to serve a health check that its Service no longer has."""

    def _check_health(self, name: Name, service: Any) -> None:
        if service.checked and service.ports:
            service.health_port = service.health_port or service.checked[0]
        super()._check_health(name, service)


def _everywhere(endpoints: Endpoints, node: str, zone: str) -> Endpoints:
    return [{**each, "nodeName": node} for each in endpoints]


def _hinted(endpoints: Endpoints, node: str, zone: str) -> Endpoints:
    def here(endpoint: Mapping[str, Any]) -> bool:
        zones = (endpoint.get("hints") or {}).get("forZones")
        return not zones or {"name": zone} in zones

    return [each for each in endpoints if here(each)]


def _leaving(endpoints: Endpoints, node: str, zone: str) -> Endpoints:
    def leaves(endpoint: Mapping[str, Any]) -> bool:
        conditions = endpoint.get("conditions") or {}
        return bool(conditions.get("terminating") and conditions.get("serving"))

    return [{**each, "conditions": {}} if leaves(each) else each for each in endpoints]


class _EditedHealthResponses(ServiceProxy):
    """A proxy with modified responses to /healthz and /livez. `change` receives the path and the correct response."""

    def __init__(self, *arguments: Any, change: Callable[[str, Response], Response], **options: Any) -> None:
        super().__init__(*arguments, **options)
        right = self._health.answer
        self._health.answer = lambda path: (  # type: ignore[method-assign]
            change(path, right(path)) if path in {"/healthz", "/livez"} else right(path)
        )


class _ServesHealthAtUplink(ServiceProxy):
    """A proxy that answers /healthz and /livez only at the uplink of its node, which pods on the node do not use."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        right = self._listeners.serve

        def serve(port: int, handler: Handler) -> None:
            right(port, handler)
            if port == HEALTH_PORT:
                for listener in self._listeners._open.get(port, ()):
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, UPLINK)

        self._listeners.serve = serve  # type: ignore[method-assign]


class _NoWeightHeader(ServiceProxy):
    """A proxy whose health check node ports send no header with the number of endpoints."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        make = self._listeners._check

        def check(*which: Any) -> Callable[[str], Response]:
            right = make(*which)

            def answer(path: str) -> Response:
                code, headers, body = right(path)
                return code, {name: value for name, value in headers.items() if "Weight" not in name}, body

            return answer

        self._listeners._check = check  # type: ignore[assignment, method-assign]


def _always_eligible(_: str, response: Response) -> Response:
    return 200, response[1], response[2].replace(b'"nodeEligible": false', b'"nodeEligible": true')


class _LivezFollowsHealthz(_EditedHealthResponses):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, change=self._as_healthz, **options)

    def _as_healthz(self, path: str, response: Response) -> Response:
        eligible = self._health._eligible
        return response if eligible else (503, response[1], response[2])


def _checks(name: str, sentence: str, provenance: str = "", **parts: Any) -> Mutant:
    return Mutant(name, sentence, provenance, WRITTEN, **parts)


MUTANTS += [
    _checks(
        "never-healthy",
        "/healthz and /livez always report a failure.",
        proxy=partial(_EditedHealthResponses, change=lambda _, response: (503, *response[1:])),
    ),
    _checks(
        "unhealthy-for-its-own-pods",
        "A proxy does not answer requests for /healthz and /livez from pods on its own node.",
        proxy=_ServesHealthAtUplink,
    ),
    _checks(
        "healthy-until-it-is-gone",
        "A proxy reports healthy on a node that is about to be deleted.",
        "kube-proxy before 1.28",
        proxy=partial(_EditedHealthResponses, change=_always_eligible),
    ),
    _checks(
        "dead-when-it-is-about-to-go",
        "On a node that is about to be deleted, /livez fails like /healthz, so the proxy is restarted.",
        proxy=_LivezFollowsHealthz,
    ),
    _checks(
        "health-port-counts-all-endpoints",
        "Health check node ports count the endpoints of all nodes.",
        proxy=partial(ServiceProxy, state=partial(_WrongHealthCounts, see=_everywhere)),
    ),
    _checks(
        "health-port-counts-hinted-endpoints",
        "Health check node ports count only endpoints that are hinted for the node's zone.",
        proxy=partial(ServiceProxy, state=partial(_WrongHealthCounts, see=_hinted)),
    ),
    _checks(
        "health-port-counts-terminating-endpoints",
        "Health check node ports count terminating endpoints.",
        proxy=partial(ServiceProxy, state=partial(_WrongHealthCounts, see=_leaving)),
    ),
    _checks(
        "health-port-counts-once",
        "Health check node ports always report the first number of endpoints.",
        proxy=partial(ServiceProxy, state=_NeverUpdatesHealthCount),
    ),
    _checks(
        "health-port-outlives-its-policy",
        "A Service whose externalTrafficPolicy is no longer Local still answers on its health check node port.",
        proxy=partial(ServiceProxy, state=_KeepsHealthChecks),
    ),
    _checks(
        "health-port-closes-behind-its-heir",
        "A health check node port that moves from one Service to another closes if its proxy receives both changes at "
        "once.",
        proxy=partial(_BatchesThenClosesPort, state=_ClosesMovedPort),
    ),
    _checks(
        "health-port-without-weight",
        "Responses of health check node ports have no header for the number of endpoints.",
        "kube-proxy before 1.28",
        proxy=_NoWeightHeader,
    ),
]
