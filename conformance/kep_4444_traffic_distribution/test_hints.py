"""KEP-4444, the controller's half: trafficDistribution becomes hints for zones."""

from __future__ import annotations

from conformance.features import ENDPOINT_SLICES, PREFER_CLOSE
from harness.cluster import Cluster, endpoint
from harness.hints import expect_hints, expect_unchanged, written_endpoints
from harness.manifests import Hints
from harness.requirements import MUST, SHOULD, requirement

WEB = {"app": "web"}
ZONE_A, ZONE_B, ZONE_C = Hints(zones=("a",)), Hints(zones=("b",)), Hints(zones=("c",))


@requirement(
    "KEP-4444/prefer-close-hints-the-own-zone",
    "With PreferClose every ready endpoint is hinted for the zone that it is in.",
    level=MUST,
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose (the zone hint will match the zone of the endpoint)",
    kills={"hints-every-zone", "writes-no-hints"},
)
def test_prefer_close_hints_each_endpoint_for_its_own_zone(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    for name, node in (("p1", "a1"), ("p2", "a2"), ("p3", "b1"), ("p4", "c1")):
        three_zones.create_pod(name, node, labels=WEB)

    expect_hints(three_zones, service, {"p1": ZONE_A, "p2": ZONE_A, "p3": ZONE_B, "p4": ZONE_C})


@requirement(
    "KEP-4444/one-endpoint-is-hinted-too",
    "PreferClose hints whatever the number of endpoints: there is no threshold.",
    level=MUST,
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose (attempts to route to endpoints within the same zone)",
    kills={"hints-need-three-endpoints"},
)
def test_prefer_close_has_no_threshold(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "b1", labels=WEB)

    expect_hints(three_zones, service, {"p1": ZONE_B})


@requirement(
    "KEP-4444/no-value-means-no-hints",
    "Without trafficDistribution no endpoint has hints.",
    level=MUST,
    features={ENDPOINT_SLICES, PREFER_CLOSE},
    source="KEP-4444, Default (trafficDistribution is not configured)",
    kills={"hints-unasked"},
)
def test_without_traffic_distribution_there_are_no_hints(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB)
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "b1", labels=WEB)

    expect_hints(three_zones, service, {"p1": None, "p2": None})


@requirement(
    "KEP-4444/hints-follow-the-field",
    "Hints appear when the field is set on a live Service, and vanish when it is removed.",
    level=MUST,
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose; Feature Enablement and Rollback",
    kills={"hints-outlive-the-field"},
)
def test_hints_follow_the_field_of_a_live_service(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB)
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "b1", labels=WEB)
    expect_hints(three_zones, service, {"p1": None, "p2": None})

    three_zones.patch_service(service, {"spec": {"trafficDistribution": "PreferClose"}})
    expect_hints(three_zones, service, {"p1": ZONE_A, "p2": ZONE_B})
    three_zones.patch_service(service, {"spec": {"trafficDistribution": None}})
    expect_hints(three_zones, service, {"p1": None, "p2": None})


@requirement(
    "KEP-4444/unready-endpoints-get-no-hints",
    "An endpoint that is not ready has no hint, and has one as soon as it is ready.",
    level=SHOULD,
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose; released: only ready endpoints are hinted",
    as_="released",
    kills={"hints-unready-endpoints"},
)
def test_unready_endpoints_have_no_hints_until_they_are_ready(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "b1", labels=WEB, ready=False)
    expect_hints(three_zones, service, {"p1": ZONE_A, "p2": None})

    three_zones.set_ready("p2", True)
    expect_hints(three_zones, service, {"p1": ZONE_A, "p2": ZONE_B})


@requirement(
    "KEP-4444/endpoint-without-zone-gets-no-hint",
    "An endpoint on a node without zone label has no hint, and the others keep theirs.",
    level=MUST,
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose (the zone of the endpoint); released since 1.33",
    as_="released",
    kills={"one-unlabelled-node-ends-hints"},
)
def test_endpoint_on_a_node_without_zone_has_no_hint(three_zones: Cluster) -> None:
    three_zones.move_node("c1", None)
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "c1", labels=WEB)

    expect_hints(three_zones, service, {"p1": ZONE_A, "p2": None})


@requirement(
    "KEP-4444/a-settled-service-is-not-written-again",
    "A change that leaves the endpoints as they are writes no slice.",
    level=SHOULD,
    features={ENDPOINT_SLICES, PREFER_CLOSE},
    source="KEP-4444, Scalability (no new API calls)",
    kills={"writes-without-need"},
)
def test_slices_are_not_written_without_need(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "b1", labels=WEB)
    expect_hints(three_zones, service, {"p1": ZONE_A, "p2": ZONE_B})

    with expect_unchanged(three_zones, service):
        three_zones.patch_service(service, {"metadata": {"annotations": {"example.org/note": "changes no endpoint"}}})


@requirement(
    "KEP-4444/slices-of-others-are-left-alone",
    "Slices that another writer manages keep their endpoints and their hints.",
    level=MUST,
    features={ENDPOINT_SLICES, PREFER_CLOSE},
    source="KEP-4444, PreferClose; discovery/v1 label endpointslice.kubernetes.io/managed-by",
    kills={"takes-slices-of-others"},
)
def test_slices_of_another_writer_are_left_alone(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1, zones=["b", "c"])])
    address = a1.addresses["IPv4"]

    with expect_unchanged(three_zones, service):
        three_zones.patch_service(service, {"spec": {"trafficDistribution": "PreferSameZone"}})
    seen = {name: str(each.hints) for name, each in written_endpoints(three_zones, service).items()}
    expected = {address: str(Hints(zones=("b", "c")))}
    three_zones.expect_equal("hints of a slice that somebody else manages", expected=expected, observed=seen)
