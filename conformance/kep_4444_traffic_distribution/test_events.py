"""KEP-4444, Monitoring Requirements and Troubleshooting: a failed sync causes an Event on the Service."""

from __future__ import annotations

from conformance.features import CONTROLLER_RELEASES, ENDPOINT_SLICES, SYNC_EVENTS
from trafficdist import (
    CONTROLLER,
    MUST,
    Cluster,
    Hints,
    Service,
    create_unwritable_pod,
    evidence_of_successful_sync,
    expect_eventually,
    expect_hints,
    release,
    requirement,
    warnings_about,
    written_endpoints,
)

WEB, OTHER = {"app": "web"}, {"app": "other"}


@requirement(
    "KEP-4444/failed-sync-is-an-event",
    "When a sync of a Service fails, for example because the API server rejects a slice, the Service has an Event of "
    "type Warning; a Service whose syncs all succeed has none.",
    level=MUST,
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


@requirement(
    "KEP-4444/failed-sync-is-an-event-without-the-field",
    "When a sync of a Service fails, the Service has an Event of type Warning even while the "
    "ServiceTrafficDistribution gate is disabled.",
    level=MUST,
    features={CONTROLLER_RELEASES, SYNC_EVENTS},
    source="Kubernetes, EndpointSlice controller (FailedToUpdateEndpointSlices); KEP-4444, Monitoring Requirements",
    kills={"tells-nobody-of-failures", "tells-of-failures-with-the-field-alone"},
)
def test_failed_sync_is_an_event_while_the_gate_is_off(three_zones: Cluster) -> None:
    three_zones.restart(CONTROLLER, release("1.31", ServiceTrafficDistribution=False))
    create_unwritable_pod(three_zones, "p1", "a1", labels=WEB)
    _expect_warned(three_zones, three_zones.create_service(selector=WEB), True)


@requirement(
    "KEP-4444/failure-after-a-recovery-is-an-event",
    "When syncs of a Service fail, succeed again and later fail again, the later failure also causes an Event of type "
    "Warning, even if the Events of the first failure are deleted.",
    level=MUST,
    features={ENDPOINT_SLICES, SYNC_EVENTS},
    source="KEP-4444, Monitoring Requirements (visible as an Event on the respective Service object)",
    kills={"tells-of-the-first-failure-only", "tells-nobody-of-failures"},
)
def test_failure_after_a_recovery_is_an_event(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_pod("fine", "b1", labels=WEB)
    fine = {"fine": Hints(zones=("b",))}
    expect_hints(three_zones, service, fine)
    create_unwritable_pod(three_zones, "p1", "a1", labels=WEB)
    _expect_warned(three_zones, service, True, unless_written="p1-beside")

    for name in ("p1", "p1-beside"):
        three_zones.api.delete("pods", three_zones.namespace, name, grace_seconds=0)
    three_zones.create_pod("later", "b1", labels=WEB)
    expect_hints(three_zones, service, {**fine, "later": Hints(zones=("b",))})
    three_zones.settle()
    for event in warnings_about(three_zones, service):  # as if they had expired
        three_zones.api.delete("events", three_zones.namespace, event["metadata"]["name"])
    _expect_warned(three_zones, service, False)
    create_unwritable_pod(three_zones, "p2", "a1", labels=WEB)
    _expect_warned(three_zones, service, True, unless_written="p2-beside")


def _expect_warned(cluster: Cluster, service: Service, warned: bool, *, unless_written: str = "") -> None:
    """Expect Events of type Warning about a Service, or none.

    If expected Events are missing, the result is inconclusive if slices exist (with the pod `unless_written`, if set).
    """

    def succeeded() -> str:
        if unless_written and unless_written not in written_endpoints(cluster, service):
            return ""
        return evidence_of_successful_sync(cluster, service)

    expect_eventually(
        cluster,
        f"service {service.name} has Events of type Warning",
        lambda: bool(warnings_about(cluster, service)),
        expected=warned,
        explain=lambda: "\n".join(event["message"] for event in warnings_about(cluster, service)),
        unless=lambda: succeeded() if warned else "",
    )
