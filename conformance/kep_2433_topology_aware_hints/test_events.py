"""KEP-2433: an Event on the Service reports when hints are added, withheld or removed, and why.

The KEP does not mention Events. Released controllers have emitted Events since 1.21, because users could not see why a
Service had no hints (kubernetes#103888). Therefore Events are a separate feature. A scenario expects a new Event whose
reason or message mentions the cause. The exact wording and the number of Events do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from conformance.features import TOPOLOGY_EVENTS, TOPOLOGY_MODE
from conformance.kep_2433_topology_aware_hints.zones import MODE, create_auto, create_pods, own_zones, size_zones
from trafficdist import (
    MUST,
    Cluster,
    Service,
    expect_eventually,
    expect_hints,
    requirement,
)

Seen = Mapping[str, int]
"""Maps the name of an Event to its count."""


def _events(cluster: Cluster, service: Service) -> dict[str, tuple[int, str]]:
    return {
        each["metadata"]["name"]: (_count(each), f"{each.get('reason')}: {each.get('message')}")
        for each in cluster.api.list("events", cluster.namespace)
        if (each["involvedObject"].get("kind"), each["involvedObject"].get("name")) == ("Service", service.name)
    }


def _count(event: Mapping[str, Any]) -> int:
    """Return the count of an Event, which the two versions of its API store in different fields."""
    return int((event.get("series") or {}).get("count") or event.get("count") or 1)


def _seen(cluster: Cluster, service: Service) -> Seen:
    cluster.settle()
    return {name: count for name, (count, _) in _events(cluster, service).items()}


def _expect_news(cluster: Cluster, service: Service, *, cause: str, since: Seen | None = None) -> None:
    """Expect an Event about the Service that is not in `since` and whose reason or message matches `cause`."""
    before = since or {}

    def told() -> bool:
        found = _events(cluster, service).items()
        texts = [text for name, (count, text) in found if count > before.get(name, 0)]
        return any(re.search(cause, text, re.IGNORECASE) for text in texts)

    expect_eventually(
        cluster,
        f"a new Event about service {service.name} says something of {cause.replace('|', ' or ')}",
        told,
        expected=True,
        explain=lambda: "\n".join(text for _, text in _events(cluster, service).values()),
    )


def _too_few(cluster: Cluster) -> None:
    create_pods(cluster, "ab")


def _overload(cluster: Cluster) -> None:
    create_pods(cluster, "abca")


def _one_zone(cluster: Cluster) -> None:
    size_zones(cluster, a=8)
    create_pods(cluster, "aaa")


def _node_without_zone(cluster: Cluster) -> None:
    cluster.nodes.create("x9", "")
    create_pods(cluster, "abc")


def _endpoint_without_zone(cluster: Cluster) -> None:
    cluster.nodes.create("x1", "", ready=False)
    create_pods(cluster, "abcabx")  # six endpoints, which are enough for three zones


CAUSES: Mapping[str, tuple[Callable[[Cluster], None], str]] = {
    "fewer endpoints than zones": (_too_few, "endpoint|pod|replica"),
    "overload": (_overload, "overload|capacity|endpoint|pod|replica"),
    "one zone": (_one_zone, "zone"),
    "a node without zone": (_node_without_zone, "node|zone"),
    "an endpoint without zone": (_endpoint_without_zone, "zone"),
}


@requirement(
    "KEP-2433/given-hints-are-an-event",
    "When a Service gets hints, the controller emits an Event for the Service.",
    level=MUST,
    features={TOPOLOGY_MODE, TOPOLOGY_EVENTS},
    source="KEP-2433, Observability; released since 1.21",
    as_="released",
    kills={"tells-nobody-of-hints", "tells-of-trouble-only"},
)
def test_given_hints_are_an_event(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("abc"))

    _expect_news(three_zones, service, cause="hints|topology")


@requirement(
    "KEP-2433/withheld-hints-are-an-event",
    "When a Service with the topology annotation gets no hints, the controller emits an Event that names the cause.",
    level=MUST,
    features={TOPOLOGY_MODE, TOPOLOGY_EVENTS},
    source="KEP-2433, Observability; released since 1.23 (kubernetes#103888)",
    since="1.23",
    kills={"tells-nobody-of-hints", "tells-without-a-cause", "tells-nobody-of-the-first-refusal"},
)
@pytest.mark.parametrize("why", list(CAUSES))
def test_withheld_hints_are_an_event_with_the_cause(three_zones: Cluster, why: str) -> None:
    arrange, cause = CAUSES[why]
    size_zones(three_zones, a=8, b=8, c=8)
    arrange(three_zones)

    _expect_news(three_zones, create_auto(three_zones), cause=cause)


@requirement(
    "KEP-2433/withdrawn-hints-are-an-event",
    "When the controller removes the hints of a Service, it emits an Event that names the cause.",
    level=MUST,
    features={TOPOLOGY_MODE, TOPOLOGY_EVENTS},
    source="KEP-2433, Overload; released since 1.23",
    as_="released",
    kills={"tells-nobody-of-hints", "tells-without-a-cause", "tells-the-first-news-only"},
)
@pytest.mark.parametrize("why", ["a node that comes", "an endpoint that goes", "a node that loses its zone"])
def test_withdrawn_hints_are_an_event_with_the_cause(three_zones: Cluster, why: str) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("abc"))
    since = _seen(three_zones, service)

    match why:
        case "a node that comes":
            three_zones.nodes.create("a9", "a", cpu_milli=8000)
        case "an endpoint that goes":
            three_zones.api.delete("pods", three_zones.namespace, "p3", grace_seconds=0)
        case _:
            three_zones.nodes.move("a2", None)
    _expect_news(three_zones, service, cause="endpoint|pod|replica|overload|capacity|node|zone", since=since)


@requirement(
    "KEP-2433/the-end-of-the-annotation-is-an-event",
    "When the topology annotation is removed from a Service that has hints, the controller emits an Event for the "
    "Service.",
    level=MUST,
    features={TOPOLOGY_MODE, TOPOLOGY_EVENTS},
    source="KEP-2433, Feature Enablement and Rollback; released since 1.23",
    as_="released",
    kills={"tells-nobody-of-hints", "tells-the-first-news-only"},
)
def test_the_end_of_the_annotation_is_an_event(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    service = create_auto(three_zones)
    expect_hints(three_zones, service, own_zones("abc"))
    since = _seen(three_zones, service)

    three_zones.patch_service(service, {"metadata": {"annotations": {MODE: None}}})
    _expect_news(three_zones, service, cause="hints|topology", since=since)
