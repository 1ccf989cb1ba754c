"""Services that lose their last endpoint, and Services that are deleted: new connections, open ones, and UDP flows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from conformance.features import (
    CLUSTER_IP,
    EXTERNAL_IPS,
    IPV6_SERVICES,
    LOAD_BALANCER,
    NODE_PORT,
    OPEN_CONNECTIONS,
    UDP_FLOWS,
    UDP_SERVICES,
)
from conformance.live_changes.snapshots import RATES
from trafficdist import (
    MAY,
    MUST,
    NO_ANSWER,
    PROXY,
    SHOULD,
    TCP,
    UDP,
    AddressKind,
    ClientRef,
    Cluster,
    Endpoint,
    ExpectedTraffic,
    Pod,
    Port,
    Service,
    endpoint,
    expect_concurrent_traffic,
    expect_flow_moves,
    expect_flow_survives,
    external_client,
    requirement,
)

BOTH = (Port(80, name="tcp"), Port(80, protocol="UDP", name="udp"))

INSIDE: Sequence[ClientRef] = ("a2", "c1")
ANYWHERE: Sequence[ClientRef] = ("c1", external_client("a2"))

SLICES = "discovery/v1 EndpointSlice (a subset of the endpoints that implement a service)"
HABIT = "Kubernetes, kube-proxy: stale UDP flows are removed"  # no KEP says this about flows; kube-proxy does it


def _emptied(pods: Sequence[Pod]) -> dict[str, list[Endpoint] | None]:
    """For each way of losing the last usable endpoint, return a slice's new endpoints, or None to delete the slice."""
    return {
        "empty": [],
        "deleted": None,
        "unready": [endpoint(each, ready=False, serving=False) for each in pods],
        "ending": [endpoint(each, ready=False, serving=False, terminating=True) for each in pods],
    }


def _write(cluster: Cluster, service: Service, endpoints: list[Endpoint] | None) -> None:
    if endpoints is None:
        cluster.unpublish(service)
    else:
        cluster.publish(service, endpoints)


def _expect_silence(cluster: Cluster, services: Sequence[Service], to: Sequence[AddressKind], pods: Sequence[Pod],
                    change: Callable[[], None]) -> None:  # fmt: skip
    def asked(expected: Any) -> list[ExpectedTraffic]:
        return [
            ExpectedTraffic(
                f"{port.protocol} to the {kind} of {service.name}",
                service,
                dict.fromkeys(INSIDE if kind == "cluster-ip" else ANYWHERE, expected),
                to=kind,
                port=port,
            )
            for service in services
            for kind in to
            for port in BOTH
        ]

    expect_concurrent_traffic(cluster, asked({*pods}), rates=RATES)
    change()
    expect_concurrent_traffic(cluster, asked(NO_ANSWER), rates=RATES)


def _empty(cluster: Cluster, *to: AddressKind, **fields: Any) -> None:
    pods = cluster.run_servers(on=["a1", "b1"])
    ways = _emptied(pods)
    services = [cluster.create_service(ports=BOTH, **fields) for _ in ways]
    for each in services:
        cluster.publish(each, [endpoint(pod) for pod in pods])

    def change() -> None:
        for service, endpoints in zip(services, ways.values(), strict=True):
            _write(cluster, service, endpoints)

    _expect_silence(cluster, services, to, pods, change)


def _delete(cluster: Cluster, *to: AddressKind, **fields: Any) -> None:
    pods = cluster.run_servers(on=["a1", "b1"])
    service = cluster.create_service(ports=BOTH, **fields)
    cluster.publish(service, [endpoint(pod) for pod in pods])
    _expect_silence(cluster, [service], to, pods, lambda: cluster.delete_service(service))


@requirement(
    "SERVICE/emptied-service-gives-no-answer",
    "A Service no longer answers at its cluster IP and node port, over TCP and UDP, once its slice is empty or "
    "deleted, or none of its endpoints is ready or serving.",
    level=MUST,
    features={CLUSTER_IP, NODE_PORT, UDP_SERVICES},
    source=SLICES,
    kills={"keeps-the-last-endpoints", "keeps-the-last-endpoints-over-udp", "never-empties-node-ports"},
)
def test_emptied_service_gives_no_answer(three_zones: Cluster) -> None:
    _empty(three_zones, "cluster-ip", "node-port", type="NodePort")


@requirement(
    "SERVICE/emptied-service-gives-no-answer-outside",
    "A Service no longer answers at its load balancer addresses and external IPs, over TCP and UDP, once its slice is "
    "empty or deleted, or none of its endpoints is ready or serving.",
    level=MUST,
    features={EXTERNAL_IPS, LOAD_BALANCER, UDP_SERVICES},
    source=SLICES,
    kills={"keeps-the-last-endpoints", "keeps-the-last-endpoints-over-udp"},
)
def test_emptied_service_gives_no_answer_at_external_addresses(three_zones: Cluster) -> None:
    _empty(three_zones, "load-balancer", "external-ip", type="LoadBalancer", external_ips=True)


@requirement(
    "SERVICE/deleted-service-gives-no-answer-at-node-ports",
    "A deleted Service no longer answers any client at its cluster IP and node port, over TCP and UDP.",
    level=MUST,
    features={CLUSTER_IP, NODE_PORT, UDP_SERVICES},
    source="core/v1 Service",
    kills={"ignores-service-deletes", "keeps-node-ports-of-deleted-services", "keeps-deleted-services-over-udp"},
)
def test_deleted_service_gives_no_answer_at_node_ports(three_zones: Cluster) -> None:
    _delete(three_zones, "cluster-ip", "node-port", type="NodePort")


@requirement(
    "SERVICE/deleted-service-gives-no-answer-outside",
    "A deleted Service no longer answers at its load balancer addresses and external IPs, over TCP and UDP.",
    level=MUST,
    features={EXTERNAL_IPS, LOAD_BALANCER, UDP_SERVICES},
    source="core/v1 Service",
    kills={"ignores-service-deletes", "keeps-deleted-services-over-udp"},
)
def test_deleted_service_gives_no_answer_at_external_addresses(three_zones: Cluster) -> None:
    _delete(three_zones, "load-balancer", "external-ip", type="LoadBalancer", external_ips=True)


def _expect_flows_end(cluster: Cluster, *to: AddressKind, deleted: bool = False, **fields: Any) -> None:
    (a1,) = cluster.run_servers(on=["a1"])
    ways = {"": None} if deleted else _emptied([a1])
    services = [cluster.create_service(ports=[UDP], **fields) for _ in ways]
    for each in services:
        cluster.publish(each, [endpoint(a1)])
    with ExitStack() as flows:
        for service in services:
            for kind in to:
                for client in INSIDE[:1] if kind == "cluster-ip" else ANYWHERE:
                    flows.enter_context(expect_flow_moves(cluster, service, client, before=a1, after=None, to=kind))
        for service, endpoints in zip(services, ways.values(), strict=True):
            if deleted:
                cluster.delete_service(service)
            else:
                _write(cluster, service, endpoints)


EMPTIED = "leaves-udp-flows-of-emptied-services"
DELETED = "leaves-udp-flows-of-deleted-services"


@requirement(
    "SERVICE/udp-flows-end-with-the-last-endpoint",
    "A UDP client that keeps sending from one source port gets no answer once the slice of its Service is empty or "
    "deleted, or its endpoint is neither ready nor serving.",
    level=SHOULD,
    must_if=UDP_FLOWS,
    features={CLUSTER_IP, UDP_SERVICES},
    source=f"{SLICES}; {HABIT}; kubernetes#139628",
    kills={EMPTIED, "leaves-udp-flows"},
)
def test_udp_flows_end_with_the_last_endpoint(three_zones: Cluster) -> None:
    _expect_flows_end(three_zones, "cluster-ip")


@requirement(
    "SERVICE/udp-flows-over-ipv6-end-with-the-last-endpoint",
    "A UDP client that keeps sending from one source port over IPv6 gets no answer once the Service has no usable "
    "endpoint.",
    level=SHOULD,
    must_if=UDP_FLOWS,
    features={CLUSTER_IP, IPV6_SERVICES, UDP_SERVICES},
    source=f"{SLICES}; {HABIT}; kubernetes#139628",
    kills={EMPTIED, "leaves-udp-flows-over-ipv6"},
)
def test_udp_flows_over_ipv6_end_with_the_last_endpoint(three_zones: Cluster) -> None:
    _expect_flows_end(three_zones, "cluster-ip", ipFamilies=["IPv6"])


@requirement(
    "SERVICE/udp-flows-at-node-ports-end-with-the-last-endpoint",
    "A UDP client that keeps sending to a node port from one source port gets no answer once its Service has no usable "
    "endpoint.",
    level=SHOULD,
    must_if=UDP_FLOWS,
    features={NODE_PORT, UDP_SERVICES},
    source=f"{SLICES}; {HABIT}; kubernetes#139628",
    kills={EMPTIED, "leaves-udp-flows-at-node-ports"},
)
def test_udp_flows_at_node_ports_end_with_the_last_endpoint(three_zones: Cluster) -> None:
    _expect_flows_end(three_zones, "node-port", type="NodePort")


@requirement(
    "SERVICE/udp-flows-outside-end-with-the-last-endpoint",
    "A UDP client that keeps sending to a load balancer address or an external IP from one source port gets no answer "
    "once the Service has no usable endpoint.",
    level=SHOULD,
    must_if=UDP_FLOWS,
    features={EXTERNAL_IPS, LOAD_BALANCER, UDP_SERVICES},
    source=f"{SLICES}; {HABIT}; kubernetes#139628",
    kills={EMPTIED, "leaves-udp-flows-at-external-addresses"},
)
def test_udp_flows_at_external_addresses_end_with_the_last_endpoint(three_zones: Cluster) -> None:
    _expect_flows_end(three_zones, "load-balancer", "external-ip", type="LoadBalancer", external_ips=True)


@requirement(
    "SERVICE/udp-flows-end-with-their-service",
    "A UDP client that keeps sending from one source port gets no answer after the Service is deleted.",
    level=SHOULD,
    must_if=UDP_FLOWS,
    features={CLUSTER_IP, UDP_SERVICES},
    source=f"core/v1 Service; {HABIT} (of deleted Services since 1.38)",
    kills={DELETED, "leaves-udp-flows"},
)
def test_udp_flows_end_with_their_service(three_zones: Cluster) -> None:
    _expect_flows_end(three_zones, "cluster-ip", deleted=True)


@requirement(
    "SERVICE/udp-flows-over-ipv6-end-with-their-service",
    "A UDP client that keeps sending from one source port over IPv6 gets no answer after the Service is deleted.",
    level=SHOULD,
    must_if=UDP_FLOWS,
    features={CLUSTER_IP, IPV6_SERVICES, UDP_SERVICES},
    source=f"core/v1 Service; {HABIT} (of deleted Services since 1.38)",
    kills={DELETED, "leaves-udp-flows-over-ipv6"},
)
def test_udp_flows_over_ipv6_end_with_their_service(three_zones: Cluster) -> None:
    _expect_flows_end(three_zones, "cluster-ip", deleted=True, ipFamilies=["IPv6"])


@requirement(
    "SERVICE/udp-flows-at-node-ports-end-with-their-service",
    "A UDP client that keeps sending to a node port from one source port gets no answer after the Service is deleted.",
    level=SHOULD,
    must_if=UDP_FLOWS,
    features={NODE_PORT, UDP_SERVICES},
    source=f"core/v1 Service; {HABIT} (of deleted Services since 1.38)",
    kills={DELETED, "leaves-udp-flows-at-node-ports"},
)
def test_udp_flows_at_node_ports_end_with_their_service(three_zones: Cluster) -> None:
    _expect_flows_end(three_zones, "node-port", deleted=True, type="NodePort")


@requirement(
    "SERVICE/udp-flows-outside-end-with-their-service",
    "A UDP client that keeps sending to a load balancer address or an external IP from one source port gets no answer "
    "after the Service is deleted.",
    level=SHOULD,
    must_if=UDP_FLOWS,
    features={EXTERNAL_IPS, LOAD_BALANCER, UDP_SERVICES},
    source=f"core/v1 Service; {HABIT} (of deleted Services since 1.38)",
    kills={DELETED, "leaves-udp-flows-at-external-addresses"},
)
def test_udp_flows_at_external_addresses_end_with_their_service(three_zones: Cluster) -> None:
    _expect_flows_end(three_zones, "load-balancer", "external-ip", deleted=True, type="LoadBalancer", external_ips=True)


@requirement(
    "KEP-1669/open-connections-outlive-the-last-endpoint",
    "An open connection keeps working when its endpoint, the last one of the Service, stops serving while it "
    "terminates, and when the endpoint is removed from the slices.",
    level=SHOULD,  # no KEP says how long; a proxy may end connections to removed endpoints
    must_if=OPEN_CONNECTIONS,
    features={CLUSTER_IP},
    source="KEP-1669, Motivation",
    kills={"cuts-connections-with-the-last-endpoint", "cuts-open-connections"},
)
def test_open_connections_outlive_the_last_endpoint(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    (a1,) = three_zones.run_servers(on=["a1"])
    ways = _emptied([a1])
    three_zones.publish(service, [endpoint(a1)])
    with (
        expect_flow_survives(three_zones, service, "a2", a1),
        expect_flow_survives(three_zones, service, "b1", a1),
    ):
        three_zones.publish(service, ways["ending"] or [])
        three_zones.settle()
        three_zones.publish(service, [])


@requirement(
    "SERVICE/open-connections-outlive-their-service",
    "An open connection keeps working when the Service is deleted.",
    level=MAY,
    features={CLUSTER_IP},
    source="core/v1 Service; Kubernetes, kube-proxy: open connections stay",
    kills={"cuts-connections-with-the-last-endpoint", "cuts-open-connections"},
)
def test_open_connections_outlive_their_service(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])
    with expect_flow_survives(three_zones, service, "a2", a1):
        three_zones.delete_service(service)


@requirement(
    "CHANGES/flows-outlive-a-restart",
    "When the proxy is restarted, open connections and UDP flows to the cluster IP and to node ports keep their "
    "endpoints.",
    level=SHOULD,  # a restart of a user-space proxy ends its connections
    must_if=OPEN_CONNECTIONS,
    features={CLUSTER_IP, NODE_PORT, UDP_SERVICES},
    source="KEP-1669, Motivation; kubernetes#122740",
    kills={"forgets-connections-at-start", "forgets-udp-flows-at-start"},
)
def test_flows_outlive_a_restart(three_zones: Cluster) -> None:
    pods = three_zones.run_servers(on=["a1", "b1", "c1"])
    services = [three_zones.create_service(ports=[port], type="NodePort") for port in (TCP, UDP)]
    # By chance, one in three flows whose conntrack entry is deleted reaches the same endpoint again.
    clients: list[tuple[ClientRef, AddressKind]] = [(node, "cluster-ip") for node in ("a2", "b1", "c1")]
    clients += [(external_client(node), "node-port") for node in ("a2", "b2")]
    with ExitStack() as flows:
        for service in services:
            three_zones.publish(service, [endpoint(pods[0])])
            for client, kind in clients:
                flows.enter_context(expect_flow_survives(three_zones, service, client, pods[0], to=kind))
            three_zones.publish(service, [endpoint(each) for each in pods])
        three_zones.settle()
        three_zones.restart(PROXY)
