"""KEP-4444 end to end: the field trafficDistribution determines hints and routing. The controller writes all slices."""

from __future__ import annotations

from conformance.features import ROUTING
from trafficdist import (
    SHOULD,
    Cluster,
    Hints,
    expect_hints,
    expect_no_loss,
    expect_traffic,
    requirement,
)

WEB = {"app": "web"}


@requirement(
    "KEP-4444/field-reaches-the-packets",
    "In each IP family, traffic to a Service with PreferClose that is created through the API stays in the client's "
    "zone, and goes to other zones if the client's zone has no endpoint.",
    level=SHOULD,
    features={ROUTING},
    source="KEP-4444, Test Plan, e2e tests",
    kills={"writes-no-hints", "ignores-zone-hints"},
)
def test_field_decides_where_packets_go(three_zones: Cluster) -> None:
    for family in three_zones.families:
        service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose", ipFamilies=[family])
        a1, b1 = three_zones.run_servers(["a1", "b1"], labels=WEB)
        hints = {a1.name: Hints(zones=("a",)), b1.name: Hints(zones=("b",))}
        expect_hints(three_zones, service, hints, family=family)
        expect_traffic(
            three_zones, service, {"a1": {a1}, "a2": {a1}, "b1": {b1}, "b2": {b1}, "c1": {a1, b1}}, family=family
        )
        for pod in (a1, b1):
            three_zones.delete_pod(pod)


@requirement(
    "KEP-4444/field-set-changed-and-removed-under-traffic",
    "Traffic follows trafficDistribution when it is set on an existing Service and when it is removed; no connection "
    "is lost.",
    level=SHOULD,
    features={ROUTING},
    source="KEP-4444, Troubleshooting (remove the trafficDistribution field from the Services)",
    kills={"hints-outlive-the-field", "never-returns-to-hints"},
)
def test_packets_follow_the_field_of_a_live_service(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB)
    a1, b1 = three_zones.run_servers(["a1", "b1"], labels=WEB)
    expect_traffic(three_zones, service, {"a2": {a1, b1}, "b2": {a1, b1}})

    with expect_no_loss(three_zones, service, from_=["a2", "b2", "c1"], allowed={a1, b1}):
        for value in ("PreferClose", None, "PreferClose"):
            three_zones.patch_service(service, {"spec": {"trafficDistribution": value}})
            zones = {pod.name: Hints(zones=(pod.zone,)) if value else None for pod in (a1, b1)}
            expect_hints(three_zones, service, zones)
            expect_traffic(
                three_zones, service, {"a2": {a1}, "b2": {b1}} if value else {"a2": {a1, b1}, "b2": {a1, b1}}
            )
