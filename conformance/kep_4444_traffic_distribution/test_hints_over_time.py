"""KEP-4444, the controller over time: hints persist, are restored, and remain correct after a thousand changes."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.features import PREFER_CLOSE, PREFER_SAME_NODE, TOPOLOGY_MODE
from trafficdist import (
    MUST,
    SHOULD,
    Cluster,
    Endpoint,
    Hints,
    Service,
    expect_hints,
    recheck,
    requirement,
)

WEB = {"app": "web"}
ZONE = {zone: Hints(zones=(zone,)) for zone in "abc"}
MODE = "service.kubernetes.io/topology-mode"


def _node(name: str) -> Hints:
    return Hints(zones=(name[0],), nodes=(name,))


def _delete_pod(cluster: Cluster, name: str) -> None:
    cluster.api.delete("pods", cluster.namespace, name, grace_seconds=0)


@requirement(
    "KEP-4444/right-hints-stay",
    "The controller writes the correct hints, and does not change them afterwards, when a Service is created, when its "
    "trafficDistribution is set, changed or removed, when a policy becomes Local, and when a pod is added or removed.",
    level=MUST,
    features={PREFER_CLOSE, PREFER_SAME_NODE},
    source="KEP-4444, PreferClose; Monitoring Requirements (consistently and accurately configures EndpointSlices)",
    kills={"right-then-wrong-later"},
)
def test_right_hints_stay(three_zones: Cluster) -> None:
    values = {
        "made": "PreferClose",
        "set": None,
        "changed": "PreferClose",
        "removed": "PreferClose",
        "local": "PreferClose",
    }
    for name, node in (("p1", "a1"), ("p2", "b1")):
        three_zones.create_pod(name, node, labels=WEB)
    services = {
        name: three_zones.create_service(selector=WEB, traffic_distribution=value) for name, value in values.items()
    }
    for name, service in services.items():
        near = values[name] is not None
        expect_hints(three_zones, service, {"p1": ZONE["a"] if near else None, "p2": ZONE["b"] if near else None})

    for name, spec in (
        ("set", {"trafficDistribution": "PreferClose"}),
        ("changed", {"trafficDistribution": "PreferSameNode"}),
        ("removed", {"trafficDistribution": None}),
        ("local", {"internalTrafficPolicy": "Local"}),
    ):
        three_zones.patch_service(services[name], {"spec": spec})
    three_zones.create_pod("p3", "c1", labels=WEB)
    _delete_pod(three_zones, "p1")
    expected: dict[str, Mapping[str, Hints | None]] = {name: {"p2": ZONE["b"], "p3": ZONE["c"]} for name in services}
    expected |= {"changed": {"p2": _node("b1"), "p3": _node("c1")}, "removed": {"p2": None, "p3": None}}
    for name, service in services.items():
        expect_hints(three_zones, service, expected[name])
    recheck(three_zones, quiet=0.5)


@requirement(
    "KEP-4444/refused-annotation-leaves-nothing-to-the-field",
    "While the topology annotation is Auto but its heuristic yields no hints, a Service has no hints, whatever its "
    "trafficDistribution; once the annotation is removed, hints follow trafficDistribution.",
    level=MUST,
    features={PREFER_CLOSE, PREFER_SAME_NODE, TOPOLOGY_MODE},
    source="KEP-4444, Upgrade / Downgrade Strategy (the annotation will take precedence and the field will be "
    "ignored); KEP-2433, Controller Unit Tests: 2 endpoints, 3 zones",
    kills={"refused-annotation-falls-through"},
)
def test_refused_annotation_leaves_nothing_to_the_field(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, annotations={MODE: "Auto"}, traffic_distribution="PreferClose")
    for name, node in (("p1", "a1"), ("p2", "b1")):
        three_zones.create_pod(name, node, labels=WEB)
    expect_hints(three_zones, service, {"p1": None, "p2": None})

    three_zones.patch_service(service, {"spec": {"trafficDistribution": "PreferSameNode"}})
    expect_hints(three_zones, service, {"p1": None, "p2": None})
    three_zones.patch_service(service, {"metadata": {"annotations": {MODE: None}}})
    expect_hints(three_zones, service, {"p1": _node("a1"), "p2": _node("b1")})


def _write_hints(cluster: Cluster, service: Service, hints: Mapping[str, object] | None) -> None:
    """Overwrite the hints of all endpoints in the slices of a Service, as a client other than the controller."""
    for each in cluster.slices(service):
        endpoints = [{name: value for name, value in one.items() if name != "hints"} for one in each["endpoints"]]
        changed = [{**one, "hints": hints} if hints else one for one in endpoints]
        cluster.api.patch("endpointslices", cluster.namespace, each["metadata"]["name"], {"endpoints": changed})


@requirement(
    "KEP-4444/hints-that-somebody-changes-are-put-right",
    "The controller restores hints that another client removes from its slices, and removes hints that another client "
    "adds to slices of a Service without trafficDistribution.",
    level=SHOULD,  # no KEP covers other clients that write these slices
    features={PREFER_CLOSE, PREFER_SAME_NODE},
    source="KEP-4444, Monitoring Requirements (consistently and accurately configures EndpointSlices); discovery/v1 "
    "label endpointslice.kubernetes.io/managed-by",
    kills={"looks-away-from-its-slices"},
)
def test_hints_that_somebody_changes_are_put_right(three_zones: Cluster) -> None:
    for name, node in (("p1", "a1"), ("p2", "b1")):
        three_zones.create_pod(name, node, labels=WEB)
    close = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    same_node = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode")
    plain = three_zones.create_service(selector=WEB)
    tables = (
        (close, {"p1": ZONE["a"], "p2": ZONE["b"]}, None),
        (same_node, {"p1": _node("a1"), "p2": _node("b1")}, None),
        (plain, {"p1": None, "p2": None}, {"forZones": [{"name": "c"}]}),
    )
    for service, expected, _ in tables:
        expect_hints(three_zones, service, expected)

    three_zones.settle()
    for service, _, hints in tables:
        _write_hints(three_zones, service, hints)
    for service, expected, _ in tables:
        expect_hints(three_zones, service, expected)


@requirement(
    "KEP-4444/slices-of-others-beside-its-own",
    "For a Service with a selector, a slice managed by another controller keeps its endpoints and hints while the "
    "controller's own slices are added, changed and removed.",
    level=MUST,
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose; discovery/v1 label endpointslice.kubernetes.io/managed-by",
    kills={"takes-over-what-names-its-service"},
    fixes={
        "owner": "the sentence is about the managed-by label",
        "extras": "the scenario reads endpoints by address",
        "addresses": "the scenario reads endpoints by address",
        "family": "the scenario writes an IPv4 slice",
        "slices": "the scenario compares all endpoints of all slices",
        "endpoints": "the scenario compares all endpoints of all slices",
        "hints": "the scenario compares all hints of the slices",
    },
)
def test_slice_of_somebody_else_stays_beside_its_own(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "a1", labels=WEB)
    foreign, elsewhere = "192.0.2.7", Hints(zones=("b", "c"))
    three_zones.publish(service, [Endpoint({"IPv4": foreign}, hints=elsewhere)], families=["IPv4"])
    expect_hints(three_zones, service, {"p1": ZONE["a"], foreign: elsewhere})

    three_zones.patch_service(service, {"spec": {"trafficDistribution": None}})
    expect_hints(three_zones, service, {"p1": None, foreign: elsewhere})
    _delete_pod(three_zones, "p1")
    expect_hints(three_zones, service, {foreign: elsewhere})


@requirement(
    "KEP-4444/hints-after-a-thousand-changes",
    "When a pod is added after a hundred changes to another pod, each of which changed the slices of ten Services, the "
    "hints of all ten Services are correct.",
    level=MUST,
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose; Monitoring Requirements (consistently and accurately configures EndpointSlices)",
    kills={"tires-after-a-hundred-changes", "tires-after-a-thousand-changes"},
)
def test_hints_are_right_after_a_thousand_changes(three_zones: Cluster) -> None:
    for name, node in (("p1", "a1"), ("p2", "b1")):
        three_zones.create_pod(name, node, labels=WEB)
    services = [three_zones.create_service(selector=WEB, traffic_distribution="PreferClose") for _ in range(10)]
    for service in services:
        expect_hints(three_zones, service, {"p1": ZONE["a"], "p2": ZONE["b"]})

    for _ in range(50):
        for ready in (False, True):
            three_zones.set_ready("p2", ready)
    three_zones.create_pod("p3", "c1", labels=WEB)
    for service in services:
        expect_hints(three_zones, service, {"p1": ZONE["a"], "p2": ZONE["b"], "p3": ZONE["c"]})
