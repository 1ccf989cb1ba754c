"""KEP-4444, Monitoring Requirements and Troubleshooting: a failure of the controller leaves an Event on the Service."""

from __future__ import annotations

from conformance.features import ENDPOINT_SLICES, SYNC_EVENTS
from harness import (
    SHOULD,
    Cluster,
    Service,
    create_unwritable_pod,
    expect_becomes,
    expect_hints,
    requirement,
    warnings_about,
    why_no_sync_failed,
)

WEB, OTHER = {"app": "web"}, {"app": "other"}


@requirement(
    "KEP-4444/failed-sync-is-an-event",
    "When a sync of a Service fails, as one does whose slice the API server refuses, the Service has an Event of type "
    "Warning; a Service whose syncs succeed has none.",
    level=SHOULD,
    features={ENDPOINT_SLICES, SYNC_EVENTS},
    source="KEP-4444, Monitoring Requirements (visible as an Event on the respective Service object)",
    kills={"tells-nobody-of-failures", "failures-are-normal-events", "failures-are-events-of-the-slice"},
)
def test_failed_sync_is_an_event(three_zones: Cluster) -> None:
    fine = three_zones.create_service(selector=OTHER)
    three_zones.create_pod("fine", "a1", labels=OTHER)
    expect_hints(three_zones, fine, {"fine": None})

    create_unwritable_pod(three_zones, "p1", "a1", labels=WEB)
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    _expect_warned(three_zones, service, True)
    _expect_warned(three_zones, fine, False)


def _expect_warned(cluster: Cluster, service: Service, warned: bool) -> None:
    expect_becomes(
        cluster,
        f"service {service.name} has Events of type Warning",
        lambda: bool(warnings_about(cluster, service)),
        expected=warned,
        explain=lambda: "\n".join(event["message"] for event in warnings_about(cluster, service)),
        unless=lambda: why_no_sync_failed(cluster, service) if warned else "",
    )
