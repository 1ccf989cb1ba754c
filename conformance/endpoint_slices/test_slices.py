"""EndpointSlices: their size, owner and labels, and slices that other clients write or delete."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

from conformance.features import ENDPOINT_SLICES
from trafficdist import (
    CONTROLLER,
    MUST,
    SHOULD,
    Cluster,
    Endpoint,
    Service,
    expect_eventually,
    expect_hints,
    manifests,
    requirement,
)

WEB = {"app": "web"}
SECOND = {**WEB, "second": "yes"}
FIRST = {**SECOND, "first": "yes"}
MANAGED_BY, MANAGERS = "endpointslice.kubernetes.io/managed-by", {"nobody": None, "noname": "", "other": "example.org"}
FULL = 100


@requirement(
    "SLICE/unready-endpoints-need-room-too",
    "A controller that needs several slices for 195 ready pods writes no slice with more than 100 endpoints when some "
    "of the pods become unready and more pods are added, even if slices are already full.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="Kubernetes, EndpointSlices (by default no more than 100 endpoints each)",
    kills={"unready-endpoints-need-no-room", "adds-to-full-slices"},
)
def test_unready_endpoints_need_room_too(three_zones: Cluster) -> None:
    """Each patch selects more pods and changes a label of the Service, so the controller rewrites all slices anyway."""
    nodes = [node.name for node in three_zones.topology.nodes]
    waves = {name: [f"{name}{number}" for number in range(count)] for name, count in (("p", 195), ("q", 10), ("r", 5))}
    labels = {"p": FIRST, "q": SECOND, "r": WEB}
    for number, name in enumerate(itertools.chain(*waves.values())):
        three_zones.create_pod(name, nodes[number % len(nodes)], labels=labels[name[0]])
    service = three_zones.create_service(selector=FIRST)
    before = _sizes(three_zones, service, waves["p"])
    for name in waves["p"][::5]:
        three_zones.set_ready(name, False)

    expected = waves["p"]
    for wave, dropped in (("q", "first"), ("r", "second")):
        patch = {"metadata": {"labels": {"example.org/wave": wave}}, "spec": {"selector": {dropped: None}}}
        three_zones.patch_service(service, patch)
        expected = [*expected, *waves[wave]]
        after = _sizes(three_zones, service, expected)
        if len(before) > 1:  # otherwise the controller is configured to write larger slices
            three_zones.expect_within(f"endpoints in each slice of service {service.name}", 0, FULL, observed=after)


def _sizes(cluster: Cluster, service: Service, names: list[str]) -> Mapping[str, int]:
    written = expect_hints(cluster, service, dict.fromkeys(names))
    return Counter(name for each in written.values() for name in each.slices)


@requirement(
    "SLICE/slices-made-by-hand-stay",
    "For a Service with a selector, a controller does not change slices that lack the controller's own managed-by "
    "label, even when the Service's pods or labels change, and such slices do not affect the controller's own slices.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="discovery/v1 label endpointslice.kubernetes.io/managed-by (the controller or entity that manages a slice); "
    "Kubernetes, EndpointSlices, Management",
    kills={"deletes-slices-without-a-manager", "compares-managers-by-prefix"},
)
def test_slices_made_by_hand_stay(three_zones: Cluster) -> None:
    three_zones.create_pod("p0", "c1", labels=WEB)
    service = three_zones.create_service(selector=WEB)
    expect_hints(three_zones, service, {"p0": None})
    (own,) = {each["metadata"]["labels"][MANAGED_BY] for each in three_zones.slices(service)}
    managers = {**MANAGERS, "longer": f"{own}x", "shorter": own[:-1], "upper": own.upper()}
    family = service.object["spec"]["ipFamilies"][0]
    foreign = {"IPv4": "192.0.2.", "IPv6": "2001:db8::"}[family]
    for number, (name, manager) in enumerate(managers.items(), 1):
        there = Endpoint({family: f"{foreign}{number}"})
        made = manifests.endpoint_slice(f"by-{name}", service.name, [there], family=family)
        labels = {key: value for key, value in made["metadata"]["labels"].items() if key != MANAGED_BY}
        made["metadata"]["labels"] = labels if manager is None else {**labels, MANAGED_BY: manager}
        three_zones.api.create("endpointslices", three_zones.namespace, made)
    names = {f"by-{name}" for name in managers}

    def of_hands() -> dict[str, Any]:
        found = {each["metadata"]["name"]: each for each in three_zones.slices(service)}
        return {name: found[name]["metadata"]["resourceVersion"] for name in sorted(names & found.keys())}

    before = of_hands()
    for name, node in (("p1", "a1"), ("p2", "b1")):
        three_zones.create_pod(name, node, labels=WEB)
    elsewhere = {f"{foreign}{number}": None for number in range(1, 1 + len(managers))}
    expect_hints(three_zones, service, {"p0": None, "p1": None, "p2": None, **elsewhere})
    three_zones.patch_service(service, {"metadata": {"labels": {"example.org/look": "again"}}})
    three_zones.api.delete("pods", three_zones.namespace, "p1", grace_seconds=0)
    expect_eventually(
        three_zones,
        f"resource versions of slices that others made for service {service.name}",
        of_hands,
        expected=before,
        stays=True,
    )


@requirement(
    "SLICE/slices-belong-to-the-living-service",
    "After a Service is deleted and recreated while the controller is down, no slice has the deleted Service as its "
    "owner, because garbage collection would delete such a slice.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="Kubernetes, EndpointSlices, Ownership; Kubernetes, Garbage Collection, Owners and dependents",
    kills={"adopts-slices-by-name"},
)
def test_slices_belong_to_the_living_service(three_zones: Cluster) -> None:
    pods = {"p1": None, "p2": None}
    for name, node in (("p1", "a1"), ("p2", "b1")):
        three_zones.create_pod(name, node, labels=WEB)
    service = three_zones.create_service(selector=WEB)
    expect_hints(three_zones, service, pods)

    three_zones.stop(CONTROLLER)
    three_zones.delete_service(service)
    again = three_zones.create_service(service.name, selector=WEB)
    three_zones.restart(CONTROLLER)
    expect_hints(three_zones, again, pods)
    expect_eventually(
        three_zones,
        f"slices of service {service.name} that belong to a deleted Service",
        lambda: [
            each["metadata"]["name"]
            for each in three_zones.slices(again)
            for owner in each["metadata"].get("ownerReferences") or ()
            if owner["kind"] == "Service" and owner["uid"] != again.object["metadata"]["uid"]
        ],
        expected=[],
        stays=True,
    )


@requirement(
    "SLICE/deleted-slices-are-made-again",
    "When another client deletes the slices of a Service with a selector, the controller writes slices for the "
    "Service's pods again.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="core/v1 ServiceSpec.selector; discovery/v1 EndpointSlice; KEP-4444, Monitoring Requirements (consistently "
    "and accurately configures EndpointSlices)",
    kills={"deleted-slices-stay-away"},
)
def test_deleted_slices_are_made_again(three_zones: Cluster) -> None:
    pods = {"p1": None, "p2": None}
    for name, node in (("p1", "a1"), ("p2", "b1")):
        three_zones.create_pod(name, node, labels=WEB)
    service = three_zones.create_service(selector=WEB)
    for _ in range(2):
        expect_hints(three_zones, service, pods)
        for each in three_zones.slices(service):
            three_zones.api.delete("endpointslices", three_zones.namespace, each["metadata"]["name"])
    expect_hints(three_zones, service, pods)


@requirement(
    "SLICE/labels-of-the-service-reach-its-slices",
    "The controller's slices have the labels of their Service, and are updated when a label is added, changed or "
    "removed.",
    level=SHOULD,
    features={ENDPOINT_SLICES},
    source="Kubernetes, Well-Known Labels (service.kubernetes.io/service-proxy-name, by which proxies select slices); "
    "released since 1.20 (kubernetes PR#94443)",
    kills={"labels-of-services-come-late"},
)
def test_labels_of_the_service_reach_its_slices(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, labels={"team": "blue", "tier": "front"})
    three_zones.create_pod("p1", "a1", labels=WEB)
    expect_hints(three_zones, service, {"p1": None})
    labels: dict[str, str | None] = {"team": "blue", "tier": "front", "stage": None}

    def of_slices() -> list[dict[str, str | None]]:
        found = [each["metadata"]["labels"] for each in three_zones.slices(service)]
        return [each for each in ({key: one.get(key) for key in labels} for one in found) if each != labels]

    steps: list[dict[str, str | None]] = [{}, {"team": "green"}, {"team": None, "stage": "test"}, {"stage": None}]
    for step in steps:
        if step:
            three_zones.patch_service(service, {"metadata": {"labels": step}})
        labels |= step
        what = f"labels of slices of service {service.name} that are not those of the Service"
        expect_eventually(three_zones, what, of_slices, expected=[], stays=True)
