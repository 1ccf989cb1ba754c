"""Proxies with one fault each in how they read PodLocators (KEP-536, beta)."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from mutants.client_wrappers import ProxyOfAllNodes
from mutants.mutant import NO_ANSWER, REACHED, REFUSED, WRITTEN, Mutant
from reference.client import Event, Object
from reference.objects.topology_keys import Labels
from reference.proxy import ServiceProxy
from reference.proxy.node_labels import NONE, NodeLabels, PodLocatorLabels

ANY = f"{REACHED}|{NO_ANSWER}|{REFUSED}"


class _WithLabels(ServiceProxy):
    """A proxy that finds the labels of endpoints with another class, if its PodLocator gate is on."""

    def __init__(self, *arguments: Any, labels: type[PodLocatorLabels], **options: Any) -> None:
        super().__init__(*arguments, **options)
        if isinstance(self._state._labels, PodLocatorLabels):
            self._state._labels = labels()


class _BelievesNodes(ProxyOfAllNodes):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._state._labels = NodeLabels()


class _NeedsNodeName(PodLocatorLabels):
    def of_endpoint(self, endpoint: Mapping[str, Any]) -> Labels:
        return super().of_endpoint(endpoint) if endpoint.get("nodeName") else NONE


class _ReadsOnce(PodLocatorLabels):
    def receive_locator(self, locator: Object, *, deleted: bool) -> AbstractSet[str]:
        known = (locator["metadata"]["namespace"], locator["metadata"]["name"]) in self._located
        return frozenset() if known else super().receive_locator(locator, deleted=deleted)


def _make_nothing(event: Event) -> None:
    """Ignore an event."""


class _WatchesPods(ServiceProxy):
    def start(self) -> None:
        self._client.subscribe(["pods"], _make_nothing)
        super().start()


MUTANTS = [
    Mutant(
        "believes-nodes-before-locators",
        "The proxy takes the location of an endpoint from its Node, and not from its PodLocator.",
        symptom=ANY,
        proxy=_BelievesNodes,
    ),
    Mutant(
        "locators-need-a-node-name",
        "The proxy uses the PodLocator of an endpoint only if the endpoint has a nodeName.",
        symptom=ANY,
        proxy=partial(_WithLabels, labels=_NeedsNodeName),
    ),
    Mutant(
        "locators-are-read-once",
        "The proxy ignores changes of PodLocators.",
        symptom=ANY,
        proxy=partial(_WithLabels, labels=_ReadsOnce),
    ),
    Mutant(
        "watches-pods-beside-locators",
        "The proxy watches all Pods, although it reads PodLocators.",
        symptom=WRITTEN,
        proxy=_WatchesPods,
    ),
]
