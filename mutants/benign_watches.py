"""Benign timing of watches: one or all watches are late, or changes arrive in batches or twice.

Each variant reports that it is up to date only after its own watches have received all changes, like a canary on the
same path. Until then its behaviour is unspecified, because no scenario may depend on the order of changes from two
watches.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from mutants.delayed_watches import DelayedClient, Lateness
from mutants.mutant import Mutant
from reference.client import Client, Event
from reference.endpointslice import EndpointSliceController
from reference.proxy import ServiceProxy

LATE = 10.0  # seconds
BATCHES = 0.25  # seconds
RESYNC = 2.0  # seconds
INFORMERS = "components that watch each resource separately"


LATE_WATCHES = (
    "proxy-hears-of-services-0-1-s-late",
    "proxy-hears-of-services-1-s-late",
    "proxy-hears-of-services-3-s-late",
    "proxy-hears-of-endpointslices-0-1-s-late",
    "proxy-hears-of-endpointslices-1-s-late",
    "proxy-hears-of-endpointslices-3-s-late",
    "proxy-hears-of-nodes-0-1-s-late",
    "proxy-hears-of-nodes-1-s-late",
    "proxy-hears-of-nodes-3-s-late",
    "controller-hears-of-services-0-1-s-late",
    "controller-hears-of-services-1-s-late",
    "controller-hears-of-services-3-s-late",
    "controller-hears-of-endpointslices-0-1-s-late",
    "controller-hears-of-endpointslices-1-s-late",
    "controller-hears-of-endpointslices-3-s-late",
    "controller-hears-of-nodes-0-1-s-late",
    "controller-hears-of-nodes-1-s-late",
    "controller-hears-of-nodes-3-s-late",
    "controller-hears-of-pods-0-1-s-late",
    "controller-hears-of-pods-1-s-late",
    "controller-hears-of-pods-3-s-late",
)


class _DelayedProxy(ServiceProxy):
    def __init__(
        self, node_name: str, client: Client, *, lateness: Lateness, resync: float = 0.0, **options: Any
    ) -> None:
        self._late = DelayedClient(client, lateness, resync=resync)
        super().__init__(node_name, self._late, **options)

    def synced(self) -> bool:
        return self._late.is_idle() and super().synced()


class _DelayedController(EndpointSliceController):
    def __init__(self, client: Client, *, lateness: Lateness, resync: float = 0.0, **options: Any) -> None:
        self._late = DelayedClient(client, lateness, resync=resync)
        super().__init__(self._late, **options)

    def synced(self) -> bool:
        return self._late.is_idle() and super().synced()


def _by_resource(seconds: Mapping[str, float], event: Event) -> float:
    return seconds.get(event.resource, 0.0)


def _until_the_next_batch(_: Event) -> float:
    return BATCHES - time.monotonic() % BATCHES


def _always(seconds: float, _: Event) -> float:
    return seconds


def _of_one_watch(name: str) -> Mutant:
    """Return the component with one late watch, for an entry of LATE_WATCHES."""
    component, _, _, resource, *digits, _, _ = name.split("-")
    seconds = float(".".join(digits))
    sentence = f"The {component} receives changes to {resource} {seconds:g} s late."
    lateness = partial(_by_resource, {resource: seconds})
    if component == "proxy":
        return Mutant(name, sentence, INFORMERS, proxy=partial(_DelayedProxy, lateness=lateness))
    return Mutant(name, sentence, INFORMERS, controller=partial(_DelayedController, lateness=lateness))


BENIGN: list[Mutant] = [
    *map(_of_one_watch, LATE_WATCHES),
    Mutant("ten-seconds-late", f"The proxy receives all changes {LATE:g} s late.",
           "control planes with slow connections", proxy=partial(_DelayedProxy, lateness=partial(_always, LATE)),
           unmet=frozenset({"SERVICE/changes-reach-packets-in-seconds"})),
    Mutant("controller-ten-seconds-late", f"The controller receives all changes {LATE:g} s late.",
           "full work queues", controller=partial(_DelayedController, lateness=partial(_always, LATE))),
    Mutant("hears-in-batches", "Components receive changes in batches, four times a second.",
           "kube-proxy --iptables-min-sync-period",
           proxy=partial(_DelayedProxy, lateness=_until_the_next_batch),
           controller=partial(_DelayedController, lateness=_until_the_next_batch)),
    Mutant("hears-everything-again", "Components receive all objects again every two seconds.", "informers that resync",
           proxy=partial(_DelayedProxy, lateness=partial(_always, 0.0), resync=RESYNC),
           controller=partial(_DelayedController, lateness=partial(_always, 0.0), resync=RESYNC)),
]  # fmt: skip
