"""KEP-4444, the controller: it writes zone hints for trafficDistribution."""

from __future__ import annotations

import itertools

from conformance.features import DUAL_STACK_SLICES, ENDPOINT_SLICES, MINIMAL_API_CALLS, PREFER_CLOSE
from trafficdist import (
    MUST,
    SHOULD,
    Cluster,
    Hints,
    Port,
    endpoint,
    expect_eventually,
    expect_hints,
    expect_unchanged,
    requirement,
    written_endpoints,
)

WEB = {"app": "web"}
ZONE_A, ZONE_B, ZONE_C = Hints(zones=("a",)), Hints(zones=("b",)), Hints(zones=("c",))


@requirement(
    "KEP-4444/prefer-close-hints-the-own-zone",
    "With PreferClose, every ready endpoint is hinted for the zone that it is in.",
    level=MUST,
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose (the zone hint will match the zone of the endpoint)",
    kills={
        "distribution-or-policy",
        "hints-every-zone",
        "labels-of-unready-pods-are-read-once",
        "pod-without-named-ports-empties-a-service",
        "relabelled-pods-lose-their-node",
        "selectors-need-values",
        "writes-no-hints",
    },
)
def test_prefer_close_hints_each_endpoint_for_its_own_zone(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    for name, node in (("p1", "a1"), ("p2", "a2"), ("p3", "b1"), ("p4", "c1")):
        three_zones.create_pod(name, node, labels=WEB)

    expect_hints(three_zones, service, {"p1": ZONE_A, "p2": ZONE_A, "p3": ZONE_B, "p4": ZONE_C})


@requirement(
    "KEP-4444/one-endpoint-is-hinted-too",
    "With PreferClose, endpoints get hints however many there are: there is no threshold.",
    level=MUST,
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose (attempts to route to endpoints within the same zone)",
    kills={"hints-need-three-endpoints", "right-then-wrong-soon", "takes-hints-back"},
)
def test_prefer_close_has_no_threshold(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "b1", labels=WEB)

    expect_hints(three_zones, service, {"p1": ZONE_B})


@requirement(
    "KEP-4444/no-value-means-no-hints",
    "Without trafficDistribution, no endpoint has hints.",
    level=MUST,
    features={ENDPOINT_SLICES, PREFER_CLOSE},
    source="KEP-4444, Default (trafficDistribution is not configured)",
    kills={"hints-unasked"},
)
def test_without_traffic_distribution_there_are_no_hints(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="")
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "b1", labels=WEB)

    expect_hints(three_zones, service, {"p1": None, "p2": None})


@requirement(
    "KEP-4444/hints-follow-the-field",
    "Hints appear when trafficDistribution is set on an existing Service, and disappear when it is removed.",
    level=MUST,
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose; Feature Enablement and Rollback",
    kills={"hints-outlive-the-field"},
)
def test_hints_follow_the_field_of_a_live_service(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="")
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "b1", labels=WEB)
    expect_hints(three_zones, service, {"p1": None, "p2": None})

    three_zones.patch_service(service, {"spec": {"trafficDistribution": "PreferClose"}})
    expect_hints(three_zones, service, {"p1": ZONE_A, "p2": ZONE_B})
    three_zones.patch_service(service, {"spec": {"trafficDistribution": None}})
    expect_hints(three_zones, service, {"p1": None, "p2": None})


@requirement(
    "KEP-4444/unready-endpoints-get-no-hints",
    "An endpoint that is not ready has no hint, and gets one as soon as it is ready.",
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
    "With PreferClose, an endpoint on a node without a zone label has no hint, and endpoints on other nodes have hints "
    "for their zones.",
    level=SHOULD,  # the KEP does not cover this case; without any hints, routing would be the same
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose (the zone hint will match the endpoint of the zone itself)",
    since="1.33",
    kills={"one-unlabelled-node-ends-hints"},
)
def test_endpoint_on_a_node_without_zone_has_no_hint(three_zones: Cluster) -> None:
    three_zones.nodes.move("c1", None)
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "c1", labels=WEB)

    expect_hints(three_zones, service, {"p1": ZONE_A, "p2": None})


@requirement(
    "KEP-4444/pod-of-a-lost-node-leaves-hints-to-others",
    "While the Node of one pod is missing, endpoints of other pods, including new pods, are hinted for their zones.",
    level=SHOULD,  # the KEP does not cover this case, as with a node without a zone
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose (the zone hint will match the endpoint of the zone itself)",
    since="1.33",
    kills={"lost-pod-ends-hints"},
)
def test_pod_of_a_lost_node_leaves_hints_to_others(three_zones: Cluster) -> None:
    three_zones.nodes.create("x1", "x")
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("lost", "x1", labels=WEB)
    expect_hints(three_zones, service, {"p1": ZONE_A, "lost": Hints(zones=("x",))})

    three_zones.nodes.delete("x1")
    three_zones.create_pod("p2", "b1", labels=WEB)
    expect_eventually(
        three_zones,
        f"hints of endpoints of service {service.name}, but for the one whose Node is gone",
        lambda: {
            pod: str(each.hints) for pod, each in written_endpoints(three_zones, service).items() if pod != "lost"
        },
        expected={"p1": str(ZONE_A), "p2": str(ZONE_B)},
        stays=True,
    )


@requirement(
    "KEP-4444/a-settled-service-is-not-written-again",
    "A change to a Service that does not affect its endpoints causes no slice write.",
    level=SHOULD,
    must_if=MINIMAL_API_CALLS,
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
    "When the trafficDistribution of a Service is removed, slices managed by another controller keep their endpoints "
    "and hints.",
    level=MUST,
    features={ENDPOINT_SLICES, PREFER_CLOSE},
    source="KEP-4444, PreferClose; discovery/v1 label endpointslice.kubernetes.io/managed-by",
    kills={"takes-slices-of-others"},
    fixes={
        "owner": "the sentence is about the managed-by label",
        "extras": "the scenario reads endpoints by address",
        "addresses": "the scenario reads endpoints by address",
        "family": "the scenario compares IPv4 addresses",
        "slices": "the scenario compares all endpoints of all slices",
        "endpoints": "the scenario compares all endpoints of all slices",
        "hints": "the scenario compares all hints of the slices",
    },
)
def test_slices_of_another_writer_are_left_alone(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1, zones=["b", "c"])])
    address = a1.addresses["IPv4"]

    with expect_unchanged(three_zones, service):
        three_zones.patch_service(service, {"spec": {"trafficDistribution": None}})
    seen = {name: str(each.hints) for name, each in written_endpoints(three_zones, service).items()}
    expected = {address: str(Hints(zones=("b", "c")))}
    three_zones.expect_equal("hints of a slice with another manager", expected=expected, observed=seen)


@requirement(
    "KEP-4444/policies-do-not-change-hints",
    "The hints of a Service do not depend on its traffic policies.",
    level=MUST,
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose (the control plane does not look at the traffic policies)",
    kills={"local-policy-ends-hints"},
)
def test_traffic_policies_do_not_change_hints(three_zones: Cluster) -> None:
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "b1", labels=WEB)
    for internal, external in itertools.product((None, "Cluster", "Local"), repeat=2):
        service = three_zones.create_service(
            selector=WEB,
            traffic_distribution="PreferClose",
            type="NodePort",
            internal_traffic_policy=internal,
            external_traffic_policy=external,
        )
        expect_hints(three_zones, service, {"p1": ZONE_A, "p2": ZONE_B})


@requirement(
    "KEP-4444/policy-change-leaves-hints",
    "Changing a traffic policy of an existing Service causes no slice write.",
    level=SHOULD,
    must_if=MINIMAL_API_CALLS,
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose (the control plane does not look at the traffic policies)",
    kills={"local-policy-ends-hints", "local-policy-ends-hints-later"},
)
def test_change_of_a_policy_writes_no_slice(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose", type="NodePort")
    three_zones.create_pod("p1", "a1", labels=WEB)
    expect_hints(three_zones, service, {"p1": ZONE_A})

    for policy in ("internalTrafficPolicy", "externalTrafficPolicy"):
        with expect_unchanged(three_zones, service):
            three_zones.patch_service(service, {"spec": {policy: "Local"}})


@requirement(
    "KEP-4444/annotation-knows-auto-alone",
    "While the topology annotation has any value other than Auto or auto, hints follow trafficDistribution; the values "
    "of trafficDistribution have no meaning in the annotation.",
    level=SHOULD,
    features={PREFER_CLOSE, ENDPOINT_SLICES},
    source="KEP-4444, Rollout, Upgrade and Rollback Planning; Alternatives, Repurpose the existing topology annotation",
    kills={"annotation-as-the-field", "any-annotation-hides-the-field"},
)
def test_annotation_knows_auto_alone(three_zones: Cluster) -> None:
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "a2", labels=WEB)
    for key, value in (
        ("topology-mode", "PreferClose"),
        ("topology-mode", "Disabled"),
        ("topology-mode", "AUTO"),
        ("topology-mode", ""),
        ("topology-aware-hints", "PreferClose"),
        ("topology-aware-hints", "disabled"),
    ):
        annotations = {f"service.kubernetes.io/{key}": value}
        with_field = three_zones.create_service(
            selector=WEB, annotations=annotations, traffic_distribution="PreferClose"
        )
        without = three_zones.create_service(selector=WEB, annotations=annotations)
        expect_hints(three_zones, with_field, {"p1": ZONE_A, "p2": ZONE_A})
        expect_hints(three_zones, without, {"p1": None, "p2": None})


@requirement(
    "KEP-4444/every-slice-is-hinted",
    "The endpoints in all slices of a Service have hints, and lose them when trafficDistribution is removed.",
    level=MUST,
    features={PREFER_CLOSE},
    source="KEP-4444, PreferClose; Changes within kube-proxy (all endpoints must have hints)",
    kills={"hints-one-slice-only"},
)
def test_endpoints_of_every_slice_are_hinted(three_zones: Cluster) -> None:
    service = three_zones.create_service(
        selector=WEB, ports=[Port(80, target="web")], traffic_distribution="PreferClose"
    )
    for name, node, number in (("p1", "a1", 8080), ("p2", "b1", 9090), ("p3", "c1", 9191)):
        three_zones.create_pod(name, node, labels=WEB, container_ports=[("web", number, "TCP")])
    written = expect_hints(three_zones, service, {"p1": ZONE_A, "p2": ZONE_B, "p3": ZONE_C})
    slices = len({name for each in written.values() for name in each.slices})
    three_zones.expect_equal(f"slices of service {service.name}, one a port number", expected=3, observed=slices)

    three_zones.patch_service(service, {"spec": {"trafficDistribution": None}})
    expect_hints(three_zones, service, {"p1": None, "p2": None, "p3": None})


@requirement(
    "KEP-4444/service-without-ports-settles",
    "Slices of a headless Service without ports have hints, and a change to the Service that does not affect its "
    "endpoints causes no slice write.",
    level=SHOULD,
    must_if=MINIMAL_API_CALLS,
    features={ENDPOINT_SLICES, PREFER_CLOSE},
    source="KEP-4444, Scalability (no new API calls)",
    kills={"rewrites-slices-without-ports"},
)
def test_headless_service_without_ports_settles(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, ports=[], clusterIP="None", traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "a1", labels=WEB)
    expect_hints(three_zones, service, {"p1": ZONE_A})

    with expect_unchanged(three_zones, service):
        three_zones.patch_service(service, {"metadata": {"annotations": {"example.org/note": "changes no endpoint"}}})


@requirement(
    "KEP-4444/hints-in-both-ip-families",
    "For a dual-stack Service with PreferClose, the slices of both IP families have the same hints.",
    level=MUST,
    features={DUAL_STACK_SLICES, PREFER_CLOSE},
    source="KEP-4444, PreferClose (hints within EndpointSlices, one address type each)",
    kills={"hints-in-one-family"},
)
def test_slices_of_both_families_are_hinted(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose", dual_stack=True)
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "c1", labels=WEB, ready=False)
    for family in ("IPv4", "IPv6"):
        expect_hints(three_zones, service, {"p1": ZONE_A, "p2": None}, family=family)
