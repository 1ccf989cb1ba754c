"""KEP-2433, Kube-Proxy: the rows of the KEP's table, and hints that are added and removed while traffic flows.

The KEP contradicts itself about endpoints without a hint when other endpoints have hints. Either all zones use
endpoints without a hint in addition to hinted endpoints (Risks and Mitigations), or proxies ignore all hints
(Kube-Proxy). Released proxies ignore all hints.
"""

from __future__ import annotations

import pytest

from conformance.features import (
    CLUSTER_IP,
    INTERNAL_POLICY,
    LOSSLESS_CHANGES,
    PROXY_RELEASES,
    TOPOLOGY_ROUTING,
    ZONE_HINTS,
)
from conformance.kep_2433_topology_aware_hints.zones import AUTO, AWARE_HINTS, MODE, WEB
from trafficdist import (
    MUST,
    PROXY,
    SHOULD,
    Cluster,
    Pod,
    Port,
    Rates,
    Traffic,
    endpoint,
    expect_hint_counts,
    expect_hints,
    expect_no_loss,
    expect_traffic,
    placeless,
    release,
    requirement,
    same_zone,
)

TABLE = "KEP-2433, Kube-Proxy Unit Tests"
CLIENTS = ("a1", "a2", "b1", "c1")

# A proxy either follows or ignores the hints of a Service, so the probes need to detect only large faults.
FOLLOWED = Rates(leak=0.25)


@requirement(
    "KEP-2433/hints-filter-endpoints",
    "For a Service with the topology annotation Auto, a client uses all endpoints that are hinted for its zone, and no "
    "others.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source=f"{TABLE}: feature gate on, PreferZone, hints matching zone",
    kills={
        "first-slice-alone",
        "four-hints-of-an-endpoint",
        "hundred-and-fifty-changes-of-a-slice",
        "hundred-endpoints-of-a-service",
        "ignores-hints-in-a-panic",
        "ignores-zone-hints",
        "last-slice-alone",
        "no-hints-at-several-addresses",
        "ports-without-protocols",
        "slice-names-without-namespaces",
        "slices-need-a-manager",
        "slices-of-other-owners",
        "ten-ports-of-a-service",
        "two-hundred-services",
        "two-slices-of-a-service",
        "unknown-hints-void-a-list",
        "zone-labels-of-slices-are-hints",
        "zone-names-by-prefix",
        "zone-of-the-endpoint-instead-of-hint",
    },
)
def test_hints_filter_endpoints(three_zones: Cluster) -> None:
    service = three_zones.create_service(annotations=AUTO)
    a1, a2, b1 = three_zones.run_servers(on=["a1", "a2", "b1"])
    three_zones.publish(service, [same_zone(a1), endpoint(a2, zones=["c"]), same_zone(b1)])

    expect_traffic(three_zones, service, {"a1": {a1}, "a2": {a1}, "b1": {b1}, "c1": {a2}})


@requirement(
    "KEP-2433/proxy-follows-the-annotation-of-a-live-service",
    "Once an existing Service gets the topology annotation Auto and hints, clients use the endpoints hinted for their "
    "zone; once the annotation and the hints are removed, clients use all endpoints; if LosslessChanges is claimed, no "
    "connection fails.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-2433, Kube-Proxy (safer transitions between enabled and disabled states)",
    kills={"freezes-annotations", "hints-outlive-their-removal", "ignores-zone-hints", "zone-hints-end-with-the-watch"},
)
def test_annotation_of_a_live_service_is_followed(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [placeless(a1), placeless(b1)])
    everybody: Traffic = {"a2": {a1, b1}, "b1": {a1, b1}}
    expect_traffic(three_zones, service, everybody, rates=FOLLOWED)

    lossless = three_zones.claims(LOSSLESS_CHANGES)
    with expect_no_loss(three_zones, service, from_=["a2"], allowed={a1, b1}, lossless=lossless):
        three_zones.patch_service(service, {"metadata": {"annotations": AUTO}})
        three_zones.publish(service, [same_zone(a1), same_zone(b1)])
        expect_traffic(three_zones, service, {"a2": {a1}, "b1": {b1}}, rates=FOLLOWED)
        three_zones.publish(service, [placeless(a1), placeless(b1)])
        three_zones.patch_service(service, {"metadata": {"annotations": {MODE: None}}})
        expect_traffic(three_zones, service, everybody, rates=FOLLOWED)


@requirement(
    "KEP-2433/policy-local-is-not-filtered",
    "With internalTrafficPolicy Local, a client uses the endpoints on its node, whatever zones they are hinted for.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS, INTERNAL_POLICY},
    source=f"{TABLE}: feature gate on, Local, hints matching zone",
    kills={
        "hints-on-top-of-local",
        "ignores-internal-local",
        "local-policy-of-older-services-is-ignored",
        "no-hairpin-with-local-policy",
    },
)
def test_policy_local_is_not_filtered(three_zones: Cluster) -> None:
    service = three_zones.create_service(annotations=AUTO, internal_traffic_policy="Local")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1, zones=["b"]), endpoint(b1, zones=["a"])])

    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}})


@requirement(
    "KEP-2433/proxy-gate-off-is-not-filtered",
    "With the TopologyAwareHints gate disabled, a proxy uses all endpoints, whatever hints they have.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS, PROXY_RELEASES},
    source=f"{TABLE}: feature gate off, PreferZone, hints matching zone",
    kills={"drops-without-hinted-endpoint", "newest-proxy-at-any-release"},
)
@pytest.mark.parametrize("version", ["1.21", "1.24", "1.29"])
def test_gate_off_is_not_filtered(three_zones: Cluster, version: str) -> None:
    three_zones.restart(PROXY, release(version, TopologyAwareHints=False))
    service = three_zones.create_service(annotations={AWARE_HINTS: "Auto", MODE: "Auto"})
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1)])

    expect_traffic(three_zones, service, {"a2": {a1, b1}, "b1": {a1, b1}})


@requirement(
    "KEP-2433/no-hint-for-the-zone-is-not-filtered",
    "A client in a zone for which no endpoint is hinted uses all endpoints.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source=f"{TABLE}: feature gate on, PreferZone, no hints matching zone",
    kills={"drops-without-hinted-endpoint", "ignores-zone-hints"},
)
def test_zone_without_hints_is_not_filtered(three_zones: Cluster) -> None:
    service = three_zones.create_service(annotations=AUTO)
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1)])

    expect_traffic(three_zones, service, {"c1": {a1, b1}, "a1": {a1}})


@requirement(
    "KEP-2433/partial-hints-leave-nobody-with-less",
    "While at least one slice of a Service has no hints, every client uses all endpoints; if LosslessChanges is "
    "claimed, no connection fails while hints are added and removed slice by slice.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-2433, Kube-Proxy (will ignore all hints; safer transitions); Risks and Mitigations",
    kills={
        "accepts-partial-zone-hints",
        "drops-without-hinted-endpoint",
        "first-endpoint-decides-about-hints",
        "forgets-before-it-learns",
        "hints-outlive-their-removal",
        "ignores-zone-hints",
        "unhinted-endpoint-joins-every-zone",
    },
)
def test_partial_hints_leave_nobody_with_less(three_zones: Cluster) -> None:
    service = three_zones.create_service(annotations=AUTO)
    pods = three_zones.run_servers(on=["a1", "b1", "b2"])
    everybody = set(pods)
    for pod in pods:
        three_zones.publish(service, [endpoint(pod)], name=pod.name)

    lossless = three_zones.claims(LOSSLESS_CHANGES)
    with expect_no_loss(three_zones, service, from_=CLIENTS, allowed=everybody, lossless=lossless):
        for pod in pods[:-1]:
            three_zones.publish(service, [same_zone(pod)], name=pod.name)
            expect_traffic(three_zones, service, dict.fromkeys(CLIENTS, everybody))
        three_zones.publish(service, [same_zone(pods[-1])], name=pods[-1].name)
        expect_traffic(three_zones, service, {"a1": {pods[0]}, "b1": set(pods[1:]), "c1": everybody})
        for pod in pods:
            three_zones.publish(service, [endpoint(pod)], name=pod.name)
            expect_traffic(three_zones, service, dict.fromkeys(CLIENTS, everybody))


# End to end: the nodes of zones a, b and c have shares of 2, 2 and 1


def _by_zone(pods: list[Pod], hinted: dict[str, set[str]]) -> dict[str, set[Pod]]:
    return {zone: {pod for pod in pods if pod.name in names} for zone, names in hinted.items()}


@requirement(
    "KEP-2433/annotation-reaches-the-packets",
    "With the topology annotation Auto, clients in each zone use the endpoints allocated to their zone, including "
    "endpoints in another zone.",
    level=MUST,
    features={TOPOLOGY_ROUTING},
    source="KEP-2433, Proposal (Kube-Proxy will then use these hints to filter the endpoints)",
    kills={"ignores-zone-hints", "zone-of-the-endpoint-instead-of-hint"},
)
def test_annotation_reaches_the_packets(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, annotations=AUTO)
    pods = three_zones.run_servers(("a1", "a1", "a2", "b1", "b2"), labels=WEB)

    zones = _by_zone(pods, expect_hint_counts(three_zones, service, {"a": 2, "b": 2, "c": 1}))
    expect_traffic(three_zones, service, {client: zones[client[0]] for client in CLIENTS})


@requirement(
    "KEP-2433/transitions-lose-no-connection",
    "For a Service with several slices, no connection fails while the topology annotation is added, a node that makes "
    "hints impossible is added and removed, and the annotation is removed.",
    level=SHOULD,
    must_if=LOSSLESS_CHANGES,
    features={TOPOLOGY_ROUTING},
    source="KEP-2433, Kube-Proxy (safer transitions between enabled and disabled states)",
    kills={"forgets-before-it-learns"},
)
def test_transitions_lose_no_connection(three_zones: Cluster) -> None:
    pods = [
        pod
        for number, node in enumerate(("a1", "a2", "b1", "b2", "c1"))
        for pod in three_zones.run_servers([node], labels=WEB, container_ports=[("web", 9000 + number % 3, "TCP")])
    ]
    everybody = set(pods)
    service = three_zones.create_service(selector=WEB, ports=[Port(80, target="web")])
    anywhere: Traffic = dict.fromkeys(CLIENTS, everybody)
    by_zone: Traffic = {client: {pod for pod in pods if pod.zone == client[0]} for client in CLIENTS}

    with expect_no_loss(three_zones, service, from_=CLIENTS, allowed=everybody):
        three_zones.patch_service(service, {"metadata": {"annotations": AUTO}})
        expect_hint_counts(three_zones, service, {"a": 2, "b": 2, "c": 1})
        expect_traffic(three_zones, service, by_zone)
        three_zones.nodes.create("c9", "c", cpu_milli=4000)
        expect_hints(three_zones, service, {pod.name: None for pod in pods})
        expect_traffic(three_zones, service, anywhere)
        three_zones.nodes.delete("c9")
        three_zones.patch_service(service, {"metadata": {"annotations": {"example.org/look": "again"}}})
        expect_hint_counts(three_zones, service, {"a": 2, "b": 2, "c": 1})
        expect_traffic(three_zones, service, by_zone)
        three_zones.patch_service(service, {"metadata": {"annotations": {MODE: None}}})
        expect_traffic(three_zones, service, anywhere)
