"""KEP-4444, the proxy: only zone hints determine which endpoints a node uses."""

from __future__ import annotations

from conformance.features import (
    CLUSTER_IP,
    EVEN_SHARES,
    HINTS_ON_ANY_SERVICE,
    IPV6_SERVICES,
    NODE_PORT,
    UDP_SERVICES,
    ZONE_HINTS,
)
from trafficdist import (
    MUST,
    SHOULD,
    UDP,
    Cluster,
    Port,
    Traffic,
    endpoint,
    expect_traffic,
    external_client,
    node_client,
    requirement,
    same_zone,
)


@requirement(
    "KEP-4444/no-hints-use-every-endpoint",
    "Without hints, a client in any zone reaches every ready endpoint.",
    level=SHOULD,
    must_if=EVEN_SHARES,
    features={CLUSTER_IP},
    source="KEP-4444, Default (trafficDistribution is not configured); Proposal leaves it to the implementation",
    kills={"no-hints-mean-nobody", "starves-one-endpoint", "zoned-endpoints-need-a-node"},
)
def test_without_hints_every_client_reaches_every_endpoint(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="")
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    three_zones.publish(service, [endpoint(pod) for pod in (a1, b1, c1)])

    everyone = {a1, b1, c1}
    expect_traffic(three_zones, service, {"a1": everyone, "a2": everyone, "b1": everyone, "c1": everyone})


@requirement(
    "KEP-4444/zone-hints-keep-traffic-in-the-zone",
    "When every endpoint has a zone hint, a client uses the endpoints that are hinted for its zone.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-2433, Kube-Proxy (will only route to); KEP-4444, PreferClose",
    kills={
        "decides-as-on-another-node",
        "hints-need-the-service-first",
        "ignores-zone-hints",
        "late-zone-labels-are-missed",
        "leaks-five-percent",
        "refuses-half",
        "refuses-three-quarters",
    },
)
def test_client_uses_endpoints_hinted_for_its_zone(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, a2, b1 = three_zones.run_servers(on=["a1", "a2", "b1"])
    three_zones.publish(service, [same_zone(pod) for pod in (a1, a2, b1)])

    expect_traffic(three_zones, service, {"a1": {a1, a2}, "a2": {a1, a2}, "b1": {b1}, "b2": {b1}})


@requirement(
    "KEP-4444/zone-without-endpoints-uses-every-endpoint",
    "A client in a zone for which no endpoint is hinted reaches every endpoint.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, PreferClose and e2e tests (requests should not get blackholed)",
    kills={"drops-without-hinted-endpoint", "ignores-zone-hints", "short-connections-alone"},
)
def test_zone_without_hinted_endpoint_falls_back_to_all(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(pod) for pod in (a1, b1)])

    expect_traffic(three_zones, service, {"c1": {a1, b1}, "a1": {a1}})


@requirement(
    "KEP-4444/partial-hints-are-set-aside",
    "While at least one ready endpoint has no hint, a proxy ignores all hints, so that an incomplete change of hints "
    "does not overload a few endpoints.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, Changes within kube-proxy (all endpoints must have hints)",
    kills={"accepts-partial-zone-hints", "partial-zone-hints-count-for-udp", "unhinted-endpoint-joins-every-zone"},
)
def test_one_endpoint_without_hint_switches_hints_off(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1, b2 = three_zones.run_servers(on=["a1", "b1", "b2"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1), endpoint(b2)])

    everyone = {a1, b1, b2}
    expect_traffic(three_zones, service, {"a1": everyone, "b1": everyone, "c1": everyone})


@requirement(
    "KEP-4444/partial-hints-over-several-slices-are-set-aside",
    "A proxy evaluates hints over all slices of a Service: one slice without hints disables the hints of the other "
    "slices.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, Changes within kube-proxy (not yet propagated to all of them)",
    kills={
        "accepts-partial-zone-hints",
        "ignores-zone-hints",
        "judges-each-slice",
        "unhinted-endpoint-joins-every-zone",
    },
)
def test_slice_without_hints_sets_aside_hints_of_another_slice(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1)], name="hinted")
    three_zones.publish(service, [endpoint(b1)], name="plain")
    expect_traffic(three_zones, service, {"a1": {a1, b1}, "b1": {a1, b1}})

    three_zones.publish(service, [same_zone(b1)], name="plain")
    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}})


@requirement(
    "KEP-4444/hints-decide-not-the-place-of-the-endpoint",
    "A proxy follows an endpoint's zone hint, even if the hint does not name the zone that the endpoint is in.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, PreferClose (implemented by hints); KEP-2433, Kube-Proxy",
    kills={"ignores-zone-hints", "zone-of-the-endpoint-instead-of-hint"},
)
def test_hint_for_another_zone_is_followed(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    three_zones.publish(service, [endpoint(a1, zones=["b"]), endpoint(b1, zones=["c"]), endpoint(c1, zones=["a"])])

    expect_traffic(three_zones, service, {"a1": {c1}, "b1": {a1}, "c1": {b1}})


@requirement(
    "KEP-2433/endpoint-serves-each-zone-it-is-hinted-for",
    "An endpoint that is hinted for several zones is used by clients in each of these zones.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-2433, EndpointSlice API (forZones is a list)",
    kills={"first-hint-only", "ignores-zone-hints"},
)
def test_endpoint_hinted_for_two_zones_serves_both(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1, zones=["a", "c"]), endpoint(b1, zones=["b"])])

    expect_traffic(three_zones, service, {"a1": {a1}, "c1": {a1}, "b1": {b1}})


@requirement(
    "KEP-4444/unready-endpoint-without-hint-changes-nothing",
    "A starting endpoint without a hint does not disable hints, because only ready endpoints need a hint.",
    level=SHOULD,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, Changes within kube-proxy; released since 1.23",
    as_="released",
    kills={"ignores-zone-hints", "unready-endpoint-breaks-hints"},
)
def test_unready_endpoint_without_hint_does_not_switch_hints_off(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1, a2 = three_zones.run_servers(on=["a1", "b1", "a2"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1), endpoint(a2, ready=False)])

    expect_traffic(three_zones, service, {"a1": {a1}, "a2": {a1}, "b1": {b1}})


@requirement(
    "KEP-4444/terminating-endpoint-without-hint-changes-nothing",
    "A terminating endpoint without a hint does not disable hints, and gets no new connections.",
    level=SHOULD,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, Changes within kube-proxy; released since 1.23",
    as_="released",
    kills={"ignores-zone-hints", "terminating-endpoint-breaks-hints"},
)
def test_terminating_endpoint_without_hint_does_not_switch_hints_off(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1, a2 = three_zones.run_servers(on=["a1", "b1", "a2"])
    leaving = endpoint(a2, ready=False, serving=True, terminating=True)
    three_zones.publish(service, [same_zone(a1), same_zone(b1), leaving])

    expect_traffic(three_zones, service, {"a1": {a1}, "a2": {a1}, "b1": {b1}})


@requirement(
    "KEP-4444/unready-endpoint-of-the-zone-is-not-used",
    "Clients in a zone whose only hinted endpoint is not ready use all ready endpoints.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, PreferClose (no endpoints available within the zone)",
    kills={
        "drops-without-hinted-endpoint",
        "ignores-zone-hints",
        "uses-unready-endpoints",
        "uses-unready-hinted-endpoint",
    },
)
def test_zone_with_only_an_unready_endpoint_falls_back(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    three_zones.publish(service, [same_zone(a1, ready=False), same_zone(b1), same_zone(c1)])

    expect_traffic(three_zones, service, {"a1": {b1, c1}, "a2": {b1, c1}, "b1": {b1}})


@requirement(
    "KEP-4444/endpoint-of-unknown-readiness-is-used",
    "An endpoint without a ready condition counts as ready.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, PreferClose; discovery/v1 EndpointConditions (nil should be interpreted as true)",
    kills={"drops-without-hinted-endpoint", "ignores-zone-hints", "unknown-readiness-means-not-ready"},
)
def test_endpoint_without_conditions_counts_as_ready(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1, ready=None), same_zone(b1, ready=None)])

    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}, "c1": {a1, b1}})


@requirement(
    "KEP-4444/proxy-follows-hints-whatever-the-service-says",
    "A proxy follows hints even if the Service has neither trafficDistribution nor the topology annotation; without "
    "hints, trafficDistribution has no effect.",
    level=SHOULD,
    must_if=HINTS_ON_ANY_SERVICE,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, Changes within kube-proxy (irrespective of annotation and field)",
    kills={"field-without-hints", "hints-need-the-annotation", "hints-need-the-field", "ignores-zone-hints"},
)
def test_hints_alone_decide_and_not_the_field(three_zones: Cluster) -> None:
    hinted = three_zones.create_service(traffic_distribution="")
    field_only = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(hinted, [same_zone(a1), same_zone(b1)], unasked=True)
    three_zones.publish(field_only, [endpoint(a1), endpoint(b1)])

    expect_traffic(three_zones, hinted, {"a1": {a1}, "b1": {b1}})
    expect_traffic(three_zones, field_only, {"a1": {a1, b1}, "b1": {a1, b1}})


@requirement(
    "KEP-4444/hints-are-followed-beside-any-annotation",
    "A proxy follows hints on a Service with either topology annotation, whether its value is Auto, Disabled or "
    "anything else.",
    level=SHOULD,
    must_if=HINTS_ON_ANY_SERVICE,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, Changes within kube-proxy (irrespective of the annotation)",
    kills={"annotation-disabled-ends-hints", "ignores-zone-hints"},
)
def test_hints_are_followed_beside_any_annotation(three_zones: Cluster) -> None:
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    for key in ("service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"):
        for value in ("Auto", "auto", "Disabled", "disabled", "PreferClose", ""):
            service = three_zones.create_service(annotations={key: value}, traffic_distribution="PreferClose")
            three_zones.publish(service, [same_zone(a1), same_zone(b1)])
            expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}})


@requirement(
    "KEP-4444/hints-come-and-go-on-a-live-service",
    "Once hints are added to a Service's slices, a proxy follows them; once they are removed, it uses all endpoints.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, Changes within kube-proxy; Feature Enablement and Rollback",
    kills={"hints-outlive-their-removal", "ignores-zone-hints", "one-update-late"},
)
def test_hints_added_and_removed_on_a_live_service(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    for hinted in (False, True, False):
        three_zones.publish(service, [same_zone(pod) if hinted else endpoint(pod) for pod in (a1, b1)])
        expect_traffic(three_zones, service, {"a1": {a1} if hinted else {a1, b1}})


@requirement(
    "KEP-4444/relabelled-node-uses-its-new-zone",
    "When the zone label of a node changes, clients on the node use the endpoints hinted for the new zone, without a "
    "restart of the proxy.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-2433, Scalability (will include a Node informer); KEP-4444, PreferClose",
    kills={"ignores-node-updates", "ignores-zone-hints", "zone-remembered-by-services"},
)
def test_relabelled_node_uses_endpoints_of_its_new_zone(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1)])
    expect_traffic(three_zones, service, {"a2": {a1}})

    three_zones.nodes.move("a2", "b")
    expect_traffic(three_zones, service, {"a2": {b1}, "a1": {a1}})


@requirement(
    "KEP-4444/node-without-zone-uses-every-endpoint",
    "A client on a node without a zone label reaches every endpoint; once the node gets a zone label, the client uses "
    "the endpoints hinted for that zone.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-2433, Kube-Proxy (able to determine the zone), and Scalability (will include a Node informer)",
    kills={"drops-without-hinted-endpoint", "drops-without-zone-label", "ignores-zone-hints"},
)
def test_node_without_zone_label_uses_all_until_it_has_one(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1)])

    three_zones.nodes.move("a2", None)
    expect_traffic(three_zones, service, {"a2": {a1, b1}, "a1": {a1}})
    three_zones.nodes.move("a2", "a")
    expect_traffic(three_zones, service, {"a2": {a1}})


@requirement(
    "KEP-4444/zone-names-are-compared-exactly",
    "A zone hint matches a node's zone label only if both are the same string; upper case and leading zeros make a "
    "difference.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-2433, Kube-Proxy; discovery/v1 ForZone.name",
    kills={"drops-without-hinted-endpoint", "ignores-zone-hints", "zone-names-as-numbers", "zone-names-in-any-case"},
)
def test_names_of_zones_are_compared_exactly(three_zones: Cluster) -> None:
    for node, zone in (("a1", "1"), ("a2", "01"), ("b1", "z"), ("b2", "Z")):
        three_zones.nodes.move(node, zone)
    service = three_zones.create_service(traffic_distribution="PreferClose")
    one, z = three_zones.run_servers(on=["c1", "c1"])
    three_zones.publish(service, [endpoint(one, zones=["1"]), endpoint(z, zones=["z"])])

    expect_traffic(three_zones, service, {"a1": {one}, "a2": {one, z}, "b1": {z}, "b2": {one, z}})


@requirement(
    "KEP-4444/each-port-is-judged-on-its-own",
    "For each port of a Service, a proxy evaluates the hints of only that port's endpoints: a nearby endpoint of "
    "another port does not count.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, PreferClose (no endpoints available within the zone)",
    kills={"drops-without-hinted-endpoint", "judges-all-ports-together"},
)
def test_near_endpoint_of_another_port_does_not_count(three_zones: Cluster) -> None:
    web, admin = Port(80, name="web"), Port(81, name="admin")
    service = three_zones.create_service(ports=[web, admin], traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1)], name="web", ports=[web])
    three_zones.publish(service, [same_zone(b1)], name="admin", ports=[admin])

    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {a1}}, port=web)
    expect_traffic(three_zones, service, {"a1": {b1}, "b1": {b1}}, port=admin)


@requirement(
    "KEP-4444/zone-hints-hold-for-udp",
    "Zone hints, the fallback to all endpoints and the rule that incomplete hints are ignored apply to UDP as they do "
    "to TCP.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS, UDP_SERVICES},
    source="KEP-2433, Kube-Proxy (all traffic); KEP-4444, PreferClose",
    kills={
        "accepts-partial-zone-hints",
        "drops-without-hinted-endpoint",
        "hints-outlive-their-removal",
        "ignores-zone-hints",
        "udp-ignores-hints",
        "unhinted-endpoint-joins-every-zone",
    },
)
def test_zone_hints_hold_for_udp(three_zones: Cluster) -> None:
    service = three_zones.create_service(ports=[UDP], traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1)])
    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}, "c1": {a1, b1}})

    three_zones.publish(service, [same_zone(a1), endpoint(b1)])
    expect_traffic(three_zones, service, {"a1": {a1, b1}, "b1": {a1, b1}})


@requirement(
    "KEP-4444/each-ip-family-is-judged-on-its-own",
    "For a dual-stack Service, traffic in each IP family follows the hints in the slices of that family.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS, IPV6_SERVICES},
    source="KEP-4444, PreferClose (hints within EndpointSlices, one address type each)",
    kills={"drops-without-hinted-endpoint", "ignores-zone-hints", "judges-both-families-together"},
)
def test_hints_of_one_family_do_not_touch_the_other(three_zones: Cluster) -> None:
    service = three_zones.create_service(dual_stack=True, traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1)], families=["IPv6"])
    three_zones.publish(service, [endpoint(a1), endpoint(b1)], families=["IPv4"])

    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}, "c1": {a1, b1}}, family="IPv6")
    expect_traffic(three_zones, service, {"a1": {a1, b1}, "b1": {a1, b1}}, family="IPv4")


@requirement(
    "KEP-4444/clients-on-the-node-follow-hints-too",
    "A client in the node's own network namespace uses the endpoints that are hinted for the zone of the node.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, PreferClose (same zone as the client)",
    kills={"drops-without-hinted-endpoint", "ignores-zone-hints", "passes-clients-on-the-node-by"},
)
def test_host_network_client_follows_zone_hints(three_zones: Cluster) -> None:
    service = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1)])

    expect_traffic(
        three_zones, service, {node_client("a2"): {a1}, node_client("b2"): {b1}, node_client("c1"): {a1, b1}}
    )


@requirement(
    "KEP-4444/external-traffic-follows-hints-of-the-node-it-enters",
    "With both traffic policies set to Cluster, external traffic follows the hints for the zone of the node that it "
    "enters.",
    level=MUST,
    features={NODE_PORT, ZONE_HINTS},
    source="KEP-4444, Intersection with internal/externalTrafficPolicy (first row)",
    kills={"drops-without-hinted-endpoint", "external-addresses-ignore-hints", "ignores-zone-hints"},
)
def test_external_traffic_follows_hints_of_the_node_it_enters(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort", traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1)])

    clients: Traffic = {external_client("a2"): {a1}, external_client("b1"): {b1}, external_client("c1"): {a1, b1}}
    expect_traffic(three_zones, service, clients, to="node-port")
