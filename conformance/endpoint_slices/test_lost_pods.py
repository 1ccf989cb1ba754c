"""Endpoints whose Node is missing, and slices that lose all their endpoints."""

from __future__ import annotations

from conformance.features import ENDPOINT_SLICES
from trafficdist import (
    MUST,
    SHOULD,
    Cluster,
    Port,
    Service,
    expect_eventually,
    expect_hints,
    requirement,
    written_endpoints,
)

WEB = {"app": "web"}


def _zones_but_unknown(cluster: Cluster, service: Service, lost: str) -> dict[str, str]:
    """Return the zone of each endpoint by pod, without the pod `lost` if its endpoint has no zone."""
    written = {pod: each.zone or "" for pod, each in written_endpoints(cluster, service).items()}
    return {pod: zone for pod, zone in written.items() if zone or pod != lost}


@requirement(
    "SLICE/pod-of-a-lost-node-holds-up-nobody",
    "While the Node object of a pod does not exist, the controller still adds and removes other pods of the Service "
    "as endpoints; the pod itself is either not an endpoint or an endpoint without a zone.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="core/v1 ServiceSpec.selector; discovery/v1 Endpoint.zone (the zone that the endpoint exists in)",
    kills={"lost-pod-holds-up-its-service", "lost-pod-keeps-its-zone"},
)
def test_pods_come_and_go_beside_one_whose_node_is_gone(three_zones: Cluster) -> None:
    three_zones.nodes.create("x1", "x")
    service = three_zones.create_service(selector=WEB)
    for name, node in (("p1", "a1"), ("p2", "b1"), ("lost", "x1")):
        three_zones.create_pod(name, node, labels=WEB)
    expect_hints(three_zones, service, {"p1": None, "p2": None, "lost": None})

    three_zones.nodes.delete("x1")
    three_zones.create_pod("p3", "c1", labels=WEB)
    three_zones.api.delete("pods", three_zones.namespace, "p1", grace_seconds=0)
    expect_eventually(
        three_zones,
        f"zones of endpoints of service {service.name}, one of which has no Node any more",
        lambda: _zones_but_unknown(three_zones, service, "lost"),
        expected={"p2": "b", "p3": "c"},
        stays=True,
    )


@requirement(
    "SLICE/published-pod-of-a-lost-node-stays",
    "With publishNotReadyAddresses, a pod whose Node does not exist remains an endpoint, without a zone.",
    level=SHOULD,  # the field is about readiness; no KEP covers a missing Node
    features={ENDPOINT_SLICES},
    source="core/v1 ServiceSpec.publishNotReadyAddresses; released so",
    as_="released",
    kills={"leaves-out-every-lost-pod"},
)
def test_published_pod_stays_when_its_node_is_gone(three_zones: Cluster) -> None:
    three_zones.nodes.create("x1", "x")
    service = three_zones.create_service(selector=WEB, publishNotReadyAddresses=True)
    for name, node in (("p1", "a1"), ("lost", "x1")):
        three_zones.create_pod(name, node, labels=WEB)
    expect_hints(three_zones, service, {"p1": None, "lost": None})

    three_zones.nodes.delete("x1")
    three_zones.create_pod("p2", "b1", labels=WEB)
    expect_eventually(
        three_zones,
        f"zones of endpoints of service {service.name}, which publishes all addresses",
        lambda: {pod: each.zone or "" for pod, each in written_endpoints(three_zones, service).items()},
        expected={"p1": "a", "p2": "b", "lost": ""},
        stays=True,
    )


@requirement(
    "SLICE/emptied-slice-holds-nobody",
    "When all pods in one of a Service's slices are deleted, none of these pods remains an endpoint, and the endpoints "
    "in the other slices stay.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="core/v1 ServiceSpec.selector; discovery/v1 EndpointSlice.endpoints",
    kills={"never-empties-a-slice"},
)
def test_pods_of_a_slice_that_empties_are_no_endpoints(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, ports=[Port(80, target="web")])
    for name, node, number in (("p1", "a1", 8080), ("p2", "b1", 8080), ("p3", "b2", 9090), ("p4", "c1", 9090)):
        three_zones.create_pod(name, node, labels=WEB, container_ports=[("web", number, "TCP")])
    expect_hints(three_zones, service, dict.fromkeys(("p1", "p2", "p3", "p4")))

    for name in ("p3", "p4"):
        three_zones.api.delete("pods", three_zones.namespace, name, grace_seconds=0)
    expect_hints(three_zones, service, {"p1": None, "p2": None})
    three_zones.create_pod("p5", "c1", labels=WEB, container_ports=[("web", 9090, "TCP")])
    expect_hints(three_zones, service, {"p1": None, "p2": None, "p5": None})
