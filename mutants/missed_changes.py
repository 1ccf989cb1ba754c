"""Proxies that miss changes: after many changes, in quick succession, or during an outage."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.client_wrappers import Filter, Sink
from mutants.dropped_updates import ANY, proxy_hears
from mutants.mutant import Mutant
from mutants.slice_updates import service_of
from reference.client import Client, Event, Key, key_of
from reference.proxy import ServiceProxy, uapi
from reference.proxy.decision import Family
from reference.proxy.netlink import NftSocket
from reference.proxy.nftables import KernelTable
from reference.proxy.ruleset import Ruleset

Left = dict[str, dict[Family, Ruleset]]
"""The rules that the last proxy on a node left, by IP family."""

BURST = 0.25  # seconds
RETURN = 1.0  # seconds

MUTANTS: list[Mutant] = []

_hears = partial(proxy_hears, MUTANTS)


def _after(changes: int) -> Filter:
    """Return a filter that delivers this many events of a Service and its slices, and all deletions."""

    def through(sink: Sink) -> Sink:
        heard: Counter[tuple[str, str]] = Counter()

        def filtered(event: Event) -> None:
            if event.resource in ("services", "endpointslices") and event.type == "MODIFIED":
                namespace, name = key_of(event.object)
                service = name if event.resource == "services" else service_of(event.object)
                heard[namespace, service] += 1
                if heard[namespace, service] > changes:
                    return
            sink(event)

        return filtered

    return through


for _name, _number in (("freezes-after-fifty-changes", 50), ("freezes-after-nine-hundred-changes", 900)):
    _hears(_name, f"The proxy follows only the first {_number} changes to a Service.", symptom=ANY)(_after(_number))


@_hears(
    "first-of-a-burst-counts",
    f"The proxy misses a change to an object within {BURST:g} s of the previous change.",
    symptom=ANY,
)
def first_of_a_burst_counts(sink: Sink) -> Sink:
    last: dict[tuple[str, Key], float] = {}

    def filtered(event: Event) -> None:
        if event.resource in ("services", "endpointslices") and event.type == "MODIFIED":
            now, key = time.monotonic(), (event.resource, key_of(event.object))
            before = last.get(key, 0.0)
            last[key] = now
            if now - before < BURST:
                return
        sink(event)

    return filtered


@_hears(
    "second-of-a-name-is-missed",
    "The proxy misses a Service or slice that is recreated with the same name soon after its deletion.",
    symptom=ANY,
)
def second_of_a_name_is_missed(sink: Sink) -> Sink:
    gone: dict[tuple[str, Key], float] = {}

    def filtered(event: Event) -> None:
        key = (event.resource, key_of(event.object)) if event.type != "SYNCED" else None
        if key is not None and event.type == "DELETED":
            gone[key] = time.monotonic()
        elif key is not None and time.monotonic() - gone.get(key, 0.0) < BURST:
            return
        sink(event)

    return filtered


@_hears(
    "misses-deletions-at-a-return",
    f"Objects deleted within {RETURN:g} s of the API server's return stay, because the new list is not compared with "
    "known objects.",
)
def misses_deletions_at_a_return(sink: Sink) -> Sink:
    listed: list[float] = []

    def filtered(event: Event) -> None:
        if event.type == "SYNCED":
            listed.append(time.monotonic())
        elif event.type == "DELETED" and len(listed) > 1 and time.monotonic() - listed[-1] < RETURN:
            return
        sink(event)

    return filtered


class _AddsToPreviousRules(KernelTable):
    """Adds its rules to the rules of the previous proxy on the node."""

    def __init__(self, nft: NftSocket, family: Family, *, left: Mapping[Family, Ruleset]) -> None:
        super().__init__(nft, family)
        self._left = left.get(family)

    def load(self, ruleset: Ruleset) -> None:
        if self._left is not None and self._nft.exists(uapi.NFT_MSG_GETTABLE, self._messages.table):
            services = {**self._left.services, **ruleset.services}
            ruleset = replace(ruleset, services=services, external={**self._left.external, **ruleset.external})
        super().load(ruleset)


class _KeepsPreviousRules(ServiceProxy):
    """Starts with the rules of the previous proxy on the node."""

    def __init__(self, node_name: str, client: Client, *, left: Left, **options: Any) -> None:
        self._all_left, former = left, left.get(node_name, {})
        super().__init__(node_name, client, kernel_table=partial(_AddsToPreviousRules, left=former), **options)

    def stop(self) -> None:
        super().stop()
        self._all_left[self._node_name] = {each.family: each for each in self._kernel.rulesets()}


MUTANTS.append(
    Mutant(
        "keeps-what-went-while-it-was-away",
        "On start, a proxy adds its rules to the existing ones.",
        proxy=partial(_KeepsPreviousRules, left={}),
    )
)
