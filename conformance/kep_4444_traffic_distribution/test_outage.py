"""KEP-4444, Troubleshooting: traffic continues while a component is down, and the component catches up afterwards."""

from __future__ import annotations

from conformance.features import MINIMAL_API_CALLS, OUTAGE
from trafficdist import (
    API_SERVER,
    CONTROLLER,
    MUST,
    PROXY,
    SHOULD,
    Cluster,
    Hints,
    expect_hints,
    expect_no_loss,
    expect_traffic,
    expect_unchanged,
    requirement,
)

WEB = {"app": "web"}
ZONE = {zone: Hints(zones=(zone,)) for zone in "abc"}


@requirement(
    "KEP-4444/routing-outlives-the-api-server",
    "While the API server and the controller are down, traffic still follows trafficDistribution.",
    level=MUST,
    features={OUTAGE},
    source="KEP-4444, Troubleshooting (they should continue to serve traffic in accordance with their field)",
    kills={"forgets-all-without-its-server"},
)
def test_routing_outlives_the_api_server(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(["a1", "b1"], labels=WEB)
    expect_traffic(three_zones, service, {"a2": {a1}, "b2": {b1}, "c1": {a1, b1}})

    with expect_no_loss(three_zones, service, from_=["a2", "b2", "c1"], allowed={a1, b1}):
        three_zones.stop(API_SERVER)
        three_zones.stop(CONTROLLER)
        expect_traffic(three_zones, service, {"a2": {a1}, "b2": {b1}, "c1": {a1, b1}})


@requirement(
    "KEP-4444/return-of-the-api-server-disturbs-nothing",
    "When the API server is up again and nothing has changed, no slice is written, and traffic continues as before.",
    level=SHOULD,  # the KEP covers traffic, which is a separate requirement, but not writes
    must_if=MINIMAL_API_CALLS,
    features={OUTAGE},
    source="KEP-4444, Troubleshooting",
    kills={"rewrites-slices-at-any-start"},
)
def test_return_of_the_api_server_disturbs_nothing(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(["a1", "b1"], labels=WEB)
    expect_traffic(three_zones, service, {"a2": {a1}, "b2": {b1}})

    with (
        expect_unchanged(three_zones, service),
        expect_no_loss(three_zones, service, from_=["a2", "b2"], allowed={a1, b1}),
    ):
        three_zones.stop(API_SERVER)
        three_zones.restart(API_SERVER)
        three_zones.restart(CONTROLLER)
        expect_traffic(three_zones, service, {"a2": {a1}, "b2": {b1}})


@requirement(
    "KEP-4444/controller-catches-up",
    "When the controller is up again, slices and hints reflect the pods and fields that changed while it was down.",
    level=MUST,
    features={OUTAGE},
    source="KEP-4444, Monitoring Requirements (consistently and accurately configures EndpointSlices)",
    kills={"knows-only-what-changes"},
)
def test_controller_catches_up(three_zones: Cluster) -> None:
    kept = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    changed = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    for name, node in (("p1", "a1"), ("p2", "b1")):
        three_zones.create_pod(name, node, labels=WEB)
    expect_hints(three_zones, kept, {"p1": ZONE["a"], "p2": ZONE["b"]})
    expect_hints(three_zones, changed, {"p1": ZONE["a"], "p2": ZONE["b"]})

    three_zones.stop(CONTROLLER)
    three_zones.create_pod("p3", "c1", labels=WEB)
    three_zones.api.delete("pods", three_zones.namespace, "p1", grace_seconds=0)
    three_zones.patch_service(changed, {"spec": {"trafficDistribution": None}})
    three_zones.restart(CONTROLLER)

    expect_hints(three_zones, kept, {"p2": ZONE["b"], "p3": ZONE["c"]})
    expect_hints(three_zones, changed, {"p2": None, "p3": None})


@requirement(
    "KEP-4444/proxy-catches-up",
    "Traffic continues while a proxy is down, and once the proxy is up again, it follows hints that changed while it "
    "was down.",
    level=MUST,
    features={OUTAGE},
    source="KEP-4444, Monitoring Requirements (successfully establishes routing rules based on those EndpointSlices)",
    kills={"routes-only-what-changes"},
)
def test_proxy_catches_up(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(["a1", "b1"], labels=WEB)
    expect_traffic(three_zones, service, {"a2": {a1}, "b2": {b1}})

    with expect_no_loss(three_zones, service, from_=["a2", "b2"], allowed={a1, b1}):
        three_zones.stop(PROXY, on=["a2"])
        three_zones.patch_service(service, {"spec": {"trafficDistribution": None}})
        expect_traffic(three_zones, service, {"a2": {a1}, "b2": {a1, b1}})
        three_zones.restart(PROXY, on=["a2"])
        expect_traffic(three_zones, service, {"a2": {a1, b1}, "b2": {a1, b1}})


@requirement(
    "KEP-4444/missed-changes-are-caught-up",
    "Changes made immediately after the API server has restarted take effect in the controller and the proxies.",
    level=MUST,
    features={OUTAGE},
    source="KEP-4444, Troubleshooting",
    kills={"watches-once", "watches-once-as-a-proxy"},
)
def test_changes_after_an_outage_take_effect(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(["a1", "b1"], labels=WEB)
    expect_traffic(three_zones, service, {"a2": {a1}, "b2": {b1}})

    three_zones.stop(API_SERVER)
    three_zones.restart(API_SERVER)
    (c1,) = three_zones.run_servers(["c1"], labels=WEB)
    three_zones.delete_pod(a1)

    expect_traffic(three_zones, service, {"a2": {b1, c1}, "b2": {b1}, "c1": {c1}})
