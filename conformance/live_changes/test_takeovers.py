"""Services that replace other Services, are assigned to another proxy, or change their affinity timeout."""

from __future__ import annotations

from typing import Any

from conformance.features import (
    CLUSTER_IP,
    INTERNAL_POLICY,
    NODE_PORT,
    SERVICE_PROXY_NAME,
    SESSION_AFFINITY,
    ZONE_HINTS,
)
from conformance.live_changes.snapshots import NOBODY, RATES, as_now, by_all, expect_now, give_node_port
from trafficdist import (
    MUST,
    NO_ANSWER,
    SHOULD,
    ClientRef,
    Cluster,
    ExpectedTraffic,
    Port,
    endpoint,
    expect_affinity_expires,
    expect_no_loss,
    expect_traffic,
    external_client,
    node_client,
    placeless,
    requirement,
    same_zone,
)

OTHERS = "service.kubernetes.io/service-proxy-name"


@requirement(
    "CHANGES/a-name-is-used-again",
    "A Service that is deleted and recreated under the same name uses only its new values: ports, policy, affinity and "
    "slices of the old Service have no effect.",
    level=MUST,
    features={CLUSTER_IP, INTERNAL_POLICY, SESSION_AFFINITY, ZONE_HINTS},
    source="core/v1 Service; Kubernetes, Object Names and IDs (UIDs distinguish historical occurrences)",
    kills={"ignores-internal-local", "remembers-a-name"},
)
def test_name_is_used_again(three_zones: Cluster) -> None:
    former = three_zones.create_service(
        "again",
        ports=[Port(80, name="web")],
        internal_traffic_policy="Local",
        sessionAffinity="ClientIP",
        traffic_distribution="PreferClose",
    )
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    three_zones.publish(former, [same_zone(a1)])
    expect_traffic(three_zones, former, {"a1": {a1}, "c1": NO_ANSWER}, rates=RATES)

    three_zones.delete_service(former)
    three_zones.unpublish(former)
    former_ip = former.object["spec"]["clusterIP"]
    new = three_zones.create_service("again", ports=[Port(81, name="web")], clusterIP=former_ip)
    three_zones.publish(new, [placeless(b1), placeless(c1)], name="new")
    expect_now(
        three_zones,
        ExpectedTraffic("the new port", new, {**by_all(b1, c1), node_client("a1"): {b1, c1}}),
        ExpectedTraffic("the former port", former, NOBODY),
    )


@requirement(
    "CHANGES/addresses-are-used-again",
    "The cluster IP and the node port of a deleted Service work for the Service that gets them next.",
    level=MUST,
    features={CLUSTER_IP, NODE_PORT},
    source="core/v1 ServiceSpec.clusterIP, ServicePort.nodePort (if in-range and not in use, it will be used)",
    kills={"addresses-are-used-once", "ignores-service-deletes"},
)
def test_addresses_are_used_again(three_zones: Cluster) -> None:
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    service = three_zones.create_service(type="NodePort")
    for pod in (a1, b1, a1):
        three_zones.publish(service, [endpoint(pod)])
        expect_now(
            three_zones,
            ExpectedTraffic("cluster IP", service, by_all(pod)),
            ExpectedTraffic("node port", service, {external_client("a2"): {pod}, "c1": {pod}}, to="node-port"),
        )
        former = as_now(service)
        three_zones.delete_service(former)
        service = three_zones.create_service(type="NodePort", clusterIP=former.object["spec"]["clusterIP"])
        give_node_port(three_zones, service, like=former)


@requirement(
    "CHANGES/a-service-is-left-to-another-proxy",
    "The proxy does not serve a Service created with the label service.kubernetes.io/service-proxy-name, stops serving "
    "a Service that gets the label later, and serves both once the label is removed; another Service loses no "
    "connection.",
    level=SHOULD,  # "tells kube-proxy to ignore this service"
    must_if=SERVICE_PROXY_NAME,
    features={CLUSTER_IP},
    source="Kubernetes, Well-Known Labels: service.kubernetes.io/service-proxy-name",
    kills={"proxy-name-at-first-sight", "proxy-name-of-living-services-alone"},
)
def test_service_is_left_to_another_proxy(three_zones: Cluster) -> None:
    service, former, beside = (three_zones.create_service(name) for name in ("labelled", "born", "beside"))
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    for each in (service, former, beside):
        three_zones.publish(each, [endpoint(a1), endpoint(b1)])
    expect_now(
        three_zones, *(ExpectedTraffic(f"{each.name}, no label", each, by_all(a1, b1)) for each in (service, former))
    )

    with expect_no_loss(three_zones, beside, from_=["a2"], allowed={a1, b1}):
        three_zones.delete_service(former)
        address = former.object["spec"]["clusterIP"]
        born = three_zones.create_service("born", labels={OTHERS: "another"}, clusterIP=address)
        three_zones.patch_service(service, {"metadata": {"labels": {OTHERS: "another"}}})
        expect_now(
            three_zones,
            ExpectedTraffic("labelled", service, NOBODY),
            ExpectedTraffic("created with the label", born, NOBODY),
        )
        for each in (service, born):
            three_zones.patch_service(each, {"metadata": {"labels": {OTHERS: None}}})
        expect_now(
            three_zones,
            *(ExpectedTraffic(f"{each.name}, the label is gone", each, by_all(a1, b1)) for each in (service, born)),
        )


@requirement(
    "CHANGES/affinity-timeout-of-a-service",
    "After the timeoutSeconds of an existing Service is raised, clients keep the endpoint of their first connection "
    "for the longer time; after it is lowered, new clients lose their endpoint after the shorter time.",
    level=MUST,
    features={CLUSTER_IP, SESSION_AFFINITY},
    source="Kubernetes, Service API: sessionAffinityConfig.clientIP.timeoutSeconds",
    kills={"affinity-timeout-is-frozen"},
)
def test_affinity_timeout_of_a_live_service(three_zones: Cluster) -> None:
    longer, shorter = (
        three_zones.create_service(sessionAffinity="ClientIP", sessionAffinityConfig=_seconds(seconds))
        for seconds in (1, 10_800)
    )
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    first, *others = [each.name for each in three_zones.topology.nodes]
    clients: list[ClientRef] = [*others, *map(node_client, (first, *others))]
    for each in (longer, shorter):
        three_zones.publish(each, [endpoint(a1)])
        expect_traffic(three_zones, each, by_all(a1, of=[first]), rates=RATES)

    three_zones.patch_service(longer, {"spec": {"sessionAffinityConfig": _seconds(10_800)}})
    three_zones.patch_service(shorter, {"spec": {"sessionAffinityConfig": _seconds(1)}})
    expect_now(three_zones, *(ExpectedTraffic(each.name, each, by_all(a1, of=clients)) for each in (longer, shorter)))
    for each in (longer, shorter):
        three_zones.publish(each, [endpoint(a1), endpoint(b1)])
    three_zones.settle()
    expect_affinity_expires(three_zones, shorter, clients, {a1, b1}, seconds=1)
    expect_traffic(three_zones, longer, by_all(a1, of=clients), rates=RATES)


def _seconds(seconds: int) -> dict[str, Any]:
    return {"clientIP": {"timeoutSeconds": seconds}}
