"""Each address of a Service reaches its endpoints over each protocol and IP family, until the address is removed."""

from __future__ import annotations

from conformance.features import (
    CLUSTER_IP,
    EXTERNAL_IPS,
    HAIRPIN,
    IPV6_SERVICES,
    LOAD_BALANCER,
    NODE_PORT,
    UDP_FLOWS,
    UDP_SERVICES,
)
from trafficdist import (
    MUST,
    NO_ANSWER,
    SHOULD,
    TCP,
    UDP,
    Cluster,
    Port,
    Traffic,
    endpoint,
    expect_flow_moves,
    expect_traffic,
    external_client,
    node_client,
    placeless,
    requirement,
)


@requirement(
    "SERVICE/cluster-ip-from-pods-and-nodes",
    "Pods and nodes reach every ready endpoint through the cluster IP, over TCP and UDP.",
    level=MUST,
    features={CLUSTER_IP, UDP_SERVICES},
    source="KEP-4444, Default (trafficDistribution is not configured)",
    kills={"no-udp", "nothing-moves", "passes-clients-on-the-node-by"},
    answers={"TCP cluster-ip", "UDP cluster-ip"},
)
def test_cluster_ip_serves_pods_and_nodes_over_tcp_and_udp(three_zones: Cluster) -> None:
    tcp, udp = Port(80, name="tcp"), Port(80, protocol="UDP", name="udp")
    service = three_zones.create_service(ports=[tcp, udp])
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [placeless(a1), placeless(b1)])

    clients: Traffic = {"a1": {a1, b1}, "c1": {a1, b1}, node_client("a1"): {a1, b1}, node_client("c1"): {a1, b1}}
    expect_traffic(three_zones, service, clients, port=tcp)
    expect_traffic(three_zones, service, clients, port=udp)


@requirement(
    "SERVICE/pod-reaches-itself",
    "A pod that is an endpoint of a Service can reach itself through that Service, even after another Service or "
    "another port with the same endpoint is removed.",
    level=SHOULD,  # no KEP requires this of a proxy; in other systems the network plugin provides it
    must_if=HAIRPIN,
    features={CLUSTER_IP},
    source="Kubernetes, Debug Services (a Pod fails to reach itself via the Service IP); e2e test of hairpin traffic",
    kills={"no-hairpin-masquerade", "hairpin-goes-with-its-first-service"},
)
def test_pod_reaches_itself_through_its_service(three_zones: Cluster) -> None:
    web, more = Port(80, name="web"), Port(81, name="more")
    first, second = three_zones.create_service(), three_zones.create_service()
    several = three_zones.create_service(ports=[web, more])
    (a1,) = three_zones.run_servers(on=["a1"])
    for each in (first, second, several):
        three_zones.publish(each, [endpoint(a1)])

    expect_traffic(three_zones, first, {a1: {a1}, "a2": {a1}})
    three_zones.patch_service(several, {"spec": {"ports": [web.manifest()]}})
    expect_traffic(three_zones, several, {a1: {a1}}, port=web)
    three_zones.delete_service(second)
    expect_traffic(three_zones, first, {a1: {a1}})


@requirement(
    "SERVICE/dual-stack-cluster-ips",
    "A dual-stack Service answers at both of its cluster IPs.",
    level=MUST,
    features={CLUSTER_IP, IPV6_SERVICES, UDP_SERVICES},
    source="Kubernetes, dual-stack Services",
    kills={"no-ipv6"},
    answers={f"{protocol} cluster-ip {family}" for protocol in ("TCP", "UDP") for family in ("IPv4", "IPv6")},
)
def test_dual_stack_service_answers_at_both_cluster_ips(three_zones: Cluster) -> None:
    tcp, udp = Port(80, name="tcp"), Port(80, protocol="UDP", name="udp")
    service = three_zones.create_service(ports=[tcp, udp], dual_stack=True)
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [placeless(a1), placeless(b1)])

    for family in ("IPv4", "IPv6"):
        for port in (tcp, udp):
            expect_traffic(three_zones, service, {"a1": {a1, b1}, "c1": {a1, b1}}, family=family, port=port)


@requirement(
    "SERVICE/node-port-on-every-node",
    "The node port answers on every node, to external and in-cluster clients, whether or not the node has an endpoint.",
    level=MUST,
    features={NODE_PORT},
    source="core/v1 ServiceSpec.type (NodePort)",
    kills={"node-addresses-are-read-once", "node-port-beside-endpoints-only"},
    answers={"TCP node-port"},
)
def test_node_port_answers_on_every_node(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort", ports=[TCP])
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [placeless(a1), placeless(b1)])

    outside: Traffic = {external_client(node): {a1, b1} for node in ("a1", "a2", "b1", "b2", "c1")}
    expect_traffic(three_zones, service, outside, to="node-port")
    inside: Traffic = {"a1": {a1, b1}, "c1": {a1, b1}, node_client("a2"): {a1, b1}}
    expect_traffic(three_zones, service, inside, to="node-port")


@requirement(
    "SERVICE/node-port-of-another-node",
    "A pod reaches every endpoint through the node port of another node, and gets an answer from whichever endpoint "
    "that node chooses.",
    level=MUST,
    features={NODE_PORT},
    source="core/v1 ServiceSpec.type (NodePort)",
    kills={"pods-of-other-nodes-keep-their-address"},
)
def test_pod_uses_the_node_port_of_another_node(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort")
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    three_zones.publish(service, [placeless(pod) for pod in (a1, b1, c1)])

    expect_traffic(three_zones, service, {"a1": {a1, b1, c1}, "a2": {a1, b1, c1}}, to="node-port", via="b1")


@requirement(
    "SERVICE/load-balancer-address",
    "External and in-cluster clients get answers from a load balancer address that is routed to a node, over TCP and "
    "UDP.",
    level=MUST,
    features={LOAD_BALANCER, UDP_SERVICES},
    source="core/v1 ServiceStatus.loadBalancer; KEP-1860 (ipMode VIP)",
    kills={"no-load-balancer-addresses"},
    answers={"TCP load-balancer", "UDP load-balancer"},
)
def test_load_balancer_address_answers(three_zones: Cluster) -> None:
    for port in (TCP, UDP):
        service = three_zones.create_service(type="LoadBalancer", ports=[port])
        a1, b1 = three_zones.run_servers(on=["a1", "b1"])
        three_zones.publish(service, [placeless(a1), placeless(b1)])

        clients: Traffic = {external_client("a1"): {a1, b1}, external_client("c1"): {a1, b1}, "a2": {a1, b1}}
        expect_traffic(three_zones, service, clients, to="load-balancer")


@requirement(
    "SERVICE/load-balancer-without-node-ports",
    "A Service of type LoadBalancer without node ports answers external and in-cluster clients at its load balancer "
    "addresses.",
    level=MUST,
    features={LOAD_BALANCER},
    source="core/v1 ServiceSpec.allocateLoadBalancerNodePorts; ServiceStatus.loadBalancer; KEP-1860 (ipMode VIP)",
    kills={"needs-node-ports-for-load-balancers"},
)
def test_load_balancer_without_node_ports_is_served(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])

    clients: Traffic = {external_client("a1"): {a1}, external_client("c1"): {a1}, "a2": {a1}}
    expect_traffic(three_zones, service, clients, to="load-balancer")


@requirement(
    "SERVICE/external-ips",
    "External clients get answers from an address in spec.externalIPs that is routed to a node.",
    level=MUST,
    features={EXTERNAL_IPS},
    source="core/v1 ServiceSpec.externalIPs",
    kills={"no-external-ips"},
    answers={"TCP external-ip"},
)
def test_external_ip_answers(three_zones: Cluster) -> None:
    service = three_zones.create_service(external_ips=True, ports=[TCP])
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [placeless(a1), placeless(b1)])

    clients: Traffic = {external_client("a1"): {a1, b1}, external_client("c1"): {a1, b1}}
    expect_traffic(three_zones, service, clients, to="external-ip")


@requirement(
    "SERVICE/removed-endpoint-gets-nothing",
    "An endpoint that is removed from the slices gets no new connections, and an endpoint that is added gets its share "
    "of new connections.",
    level=MUST,
    features={CLUSTER_IP},
    source="KEP-4444, Default (trafficDistribution is not configured)",
    kills={"ignores-new-endpoints", "keeps-removed-endpoints"},
)
def test_endpoints_leave_and_join(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    for now in ([a1, b1], [b1], [b1, c1], [a1, b1, c1]):
        three_zones.publish(service, [placeless(pod) for pod in now])
        expect_traffic(three_zones, service, {"a1": set(now), "b2": set(now)})


@requirement(
    "SERVICE/deleted-slice-takes-its-endpoints",
    "A Service uses the endpoints of several slices together, and no longer uses those of a slice that is deleted.",
    level=MUST,
    features={CLUSTER_IP},
    source="discovery/v1 EndpointSlice (a Service has any number of them)",
    kills={"ignores-slice-deletes"},
)
def test_endpoints_of_a_deleted_slice_are_not_used(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [placeless(a1)], name="stays")
    three_zones.publish(service, [placeless(b1)], name="goes")
    expect_traffic(three_zones, service, {"a1": {a1, b1}, "c1": {a1, b1}})

    three_zones.unpublish(service, "goes")
    expect_traffic(three_zones, service, {"a1": {a1}, "c1": {a1}})


@requirement(
    "SERVICE/udp-flow-leaves-a-removed-endpoint",
    "A UDP client that keeps sending from one source port reaches a remaining endpoint after its previous endpoint was "
    "removed.",
    level=SHOULD,  # the KEPs cover only new queries; kube-proxy also moves existing flows
    must_if=UDP_FLOWS,
    features={CLUSTER_IP, UDP_SERVICES},
    source="KEP-3015, User Stories, DNS; Kubernetes, kube-proxy: stale UDP flows are removed",
    kills={
        "leaves-udp-flows",
        "leaves-udp-flows-beside-tcp-ports",
    },
)
def test_udp_flow_moves_to_a_present_endpoint(three_zones: Cluster) -> None:
    service = three_zones.create_service(ports=[UDP])
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    with expect_flow_moves(three_zones, service, "a2", before=a1, after=b1):
        three_zones.publish(service, [endpoint(b1)])


@requirement(
    "SERVICE/deleted-service-gives-no-answer",
    "Clients get no answer from the address of a deleted Service.",
    level=MUST,
    features={CLUSTER_IP},
    source="core/v1 Service",
    kills={"ignores-service-deletes"},
)
def test_deleted_service_gives_no_answer(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])
    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {a1}})

    three_zones.delete_service(service)
    expect_traffic(three_zones, service, {"a1": NO_ANSWER, "b1": NO_ANSWER})
