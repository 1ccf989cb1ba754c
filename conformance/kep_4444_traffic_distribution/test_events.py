"""KEP-4444, Monitoring Requirements and Troubleshooting: a failure of the controller leaves an Event on the Service."""

from __future__ import annotations

from conformance.features import ENDPOINT_SLICES, SYNC_EVENTS
from harness import (
    SHOULD,
    Cluster,
    Service,
    expect_becomes,
    expect_hints,
    requirement,
    warnings_about,
)

WEB, OTHER = {"app": "web"}, {"app": "other"}


@requirement(
    "KEP-4444/failed-sync-is-an-event",
    "When a sync of a Service fails, as one does for a pod whose Node does not exist, the Service has an Event of type "
    "Warning; a Service whose syncs succeed has none.",
    level=SHOULD,
    features={ENDPOINT_SLICES, SYNC_EVENTS},
    source="KEP-4444, Monitoring Requirements (visible as an Event on the respective Service object)",
    kills={"tells-nobody-of-failures", "failures-are-normal-events", "failures-are-events-of-the-slice"},
)
def test_failed_sync_is_an_event(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    fine = three_zones.create_service(selector=OTHER)
    three_zones.create_pod("fine", "a1", labels=OTHER)
    expect_hints(three_zones, fine, {"fine": None})
    three_zones.create_pod("lost", "no-such-node", labels=WEB)

    _expect_warned(three_zones, service, True)
    _expect_warned(three_zones, fine, False)


def _expect_warned(cluster: Cluster, service: Service, warned: bool) -> None:
    expect_becomes(
        cluster,
        f"service {service.name} has Events of type Warning",
        lambda: bool(warnings_about(cluster, service)),
        expected=warned,
        explain=lambda: "\n".join(event["message"] for event in warnings_about(cluster, service)),
    )
