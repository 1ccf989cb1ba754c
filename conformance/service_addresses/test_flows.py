"""UDP flows with a constant source port: to each address, over both families, with each policy, and to each port.

A proxy keeps state for each flow. It must delete this state whenever the flow's endpoint is removed.
"""

from __future__ import annotations

from contextlib import ExitStack

from conformance.features import (
    CLUSTER_IP,
    EXTERNAL_IPS,
    EXTERNAL_POLICY,
    INTERNAL_POLICY,
    IPV6_SERVICES,
    LOAD_BALANCER,
    NODE_PORT,
    UDP_FLOWS,
    UDP_SERVICES,
    ZONE_HINTS,
)
from conformance.live_changes.snapshots import UNUSED, give_node_port
from trafficdist import (
    PROXY,
    SHOULD,
    UDP,
    Cluster,
    Port,
    endpoint,
    expect_flow_answered,
    expect_flow_moves,
    external_client,
    requirement,
    same_zone,
)

HABIT = "KEP-3015, User Stories, DNS; Kubernetes, kube-proxy: stale UDP flows are removed"


@requirement(
    "SERVICE/udp-flows-over-ipv6-leave-a-removed-endpoint",
    "A UDP client that keeps sending from one source port over IPv6 reaches a remaining endpoint after its previous "
    "endpoint was removed.",
    level=SHOULD,  # the KEPs cover only new queries, also over IPv4
    must_if=UDP_FLOWS,
    features={CLUSTER_IP, IPV6_SERVICES, UDP_SERVICES},
    source=HABIT,
    kills={"leaves-udp-flows-over-ipv6"},
)
def test_udp_flow_moves_over_ipv6(three_zones: Cluster) -> None:
    service = three_zones.create_service(ports=[UDP], ipFamilies=["IPv6"])
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    with expect_flow_moves(three_zones, service, "a2", before=a1, after=b1):
        three_zones.publish(service, [endpoint(b1)])


@requirement(
    "SERVICE/udp-flows-at-node-ports",
    "An external or in-cluster UDP client that keeps sending to a node port from one source port reaches a remaining "
    "endpoint after its previous endpoint was removed, and still gets answers after hints changed.",
    level=SHOULD,
    must_if=UDP_FLOWS,
    features={NODE_PORT, UDP_SERVICES, ZONE_HINTS},
    source=HABIT,
    kills={"leaves-udp-flows-at-node-ports"},
)
def test_udp_flows_at_node_ports_move(three_zones: Cluster) -> None:
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    moved = three_zones.create_service(ports=[UDP], type="NodePort", traffic_distribution="PreferClose")
    hinted = three_zones.create_service(ports=[UDP], type="NodePort", traffic_distribution="PreferClose")
    three_zones.publish(moved, [same_zone(a1)])
    three_zones.publish(hinted, [same_zone(a1), same_zone(b1)])
    with ExitStack() as flows:
        for client in (external_client("a2"), "a2"):
            flows.enter_context(expect_flow_moves(three_zones, moved, client, before=a1, after=b1, to="node-port"))
            flows.enter_context(expect_flow_answered(three_zones, hinted, client, {a1, b1}, to="node-port"))
        flows.enter_context(expect_flow_answered(three_zones, hinted, "a2", {a1, b1}))
        three_zones.publish(moved, [same_zone(b1)])
        three_zones.publish(hinted, [endpoint(a1, zones=["b"]), endpoint(b1, zones=["a"])])


@requirement(
    "SERVICE/udp-flows-at-external-addresses",
    "An external or in-cluster UDP client that keeps sending to a load balancer address or an external IP from one "
    "source port reaches a remaining endpoint after its previous endpoint was removed.",
    level=SHOULD,
    must_if=UDP_FLOWS,
    features={EXTERNAL_IPS, LOAD_BALANCER, UDP_SERVICES},
    source=HABIT,
    kills={"leaves-udp-flows-at-external-addresses"},
)
def test_udp_flows_at_external_addresses_move(three_zones: Cluster) -> None:
    service = three_zones.create_service(ports=[UDP], type="LoadBalancer", external_ips=True)
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    with ExitStack() as flows:
        for address in ("load-balancer", "external-ip"):
            for client in (external_client("a2"), "a2"):
                flows.enter_context(expect_flow_moves(three_zones, service, client, before=a1, after=b1, to=address))
        three_zones.publish(service, [endpoint(b1)])


@requirement(
    "SERVICE/udp-flows-older-than-the-proxy-leave-a-removed-endpoint",
    "A UDP client that keeps sending to a cluster IP or a node port from one source port while the proxy restarts "
    "reaches a remaining endpoint after its previous endpoint was removed.",
    level=SHOULD,
    must_if=UDP_FLOWS,
    features={CLUSTER_IP, NODE_PORT, UDP_SERVICES},
    source=HABIT,
    kills={"leaves-udp-flows-from-before-its-start"},
)
def test_udp_flows_older_than_the_proxy_move(three_zones: Cluster) -> None:
    service = three_zones.create_service(ports=[UDP], type="NodePort")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    with ExitStack() as flows:
        flows.enter_context(expect_flow_moves(three_zones, service, "a2", before=a1, after=b1))
        flows.enter_context(
            expect_flow_moves(three_zones, service, external_client("b1"), before=a1, after=b1, to="node-port")
        )
        three_zones.restart(PROXY)
        three_zones.publish(service, [endpoint(b1)])


@requirement(
    "SERVICE/udp-flow-from-before-the-first-endpoint",
    "If a UDP client starts sending from one source port, to the cluster IP or a node port, before the Service or its "
    "first endpoint exists, it gets an answer on that source port once there is an endpoint.",
    level=SHOULD,
    must_if=UDP_FLOWS,
    features={CLUSTER_IP, NODE_PORT, UDP_SERVICES},
    source=HABIT,
    kills={"forgets-no-flow-from-before"},
    fixes={"arrival": "flows begin before the first endpoint"},
)
def test_udp_flow_from_before_the_first_endpoint_is_answered(three_zones: Cluster) -> None:
    service = three_zones.create_service(ports=[UDP], type="NodePort")
    (a1,) = three_zones.run_servers(on=["a1"])
    former = three_zones.create_service(ports=[UDP], type="NodePort")
    three_zones.delete_service(former)
    with ExitStack() as flows:
        for each in (service, former):
            flows.enter_context(expect_flow_answered(three_zones, each, "b1", {a1}))
            flows.enter_context(expect_flow_answered(three_zones, each, external_client("b1"), {a1}, to="node-port"))
        three_zones.publish(service, [endpoint(a1)])
        later = three_zones.create_service(ports=[UDP], type="NodePort", clusterIP=former.object["spec"]["clusterIP"])
        give_node_port(three_zones, later, like=former)
        three_zones.publish(later, [endpoint(a1)])


@requirement(
    "SERVICE/udp-flows-follow-the-target-port",
    "A UDP client that keeps sending to a cluster IP or a node port from one source port gets an answer once the "
    "target port of the endpoint is corrected, and no answer once the target port becomes a port that nothing listens "
    "on.",
    level=SHOULD,
    must_if=UDP_FLOWS,
    features={CLUSTER_IP, NODE_PORT, UDP_SERVICES},
    source=f"discovery/v1 EndpointPort.port; {HABIT}",
    kills={"leaves-udp-flows-to-former-ports"},
)
def test_udp_flows_follow_the_target_port(three_zones: Cluster) -> None:
    right, wrong = UDP, Port(80, "UDP", target=UNUSED)
    corrected, broken = (three_zones.create_service(ports=[UDP], type="NodePort") for _ in range(2))
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(corrected, [endpoint(a1)], ports=[wrong])
    three_zones.publish(broken, [endpoint(a1)], ports=[right])
    with ExitStack() as flows:
        for client, kind in (("a2", "cluster-ip"), (external_client("b1"), "node-port")):
            flows.enter_context(expect_flow_answered(three_zones, corrected, client, {a1}, to=kind))
            flows.enter_context(expect_flow_moves(three_zones, broken, client, before=a1, after=None, to=kind))
        three_zones.publish(corrected, [endpoint(a1)], ports=[right])
        three_zones.publish(broken, [endpoint(a1)], ports=[wrong])


@requirement(
    "SERVICE/udp-flows-of-local-policies",
    "With a Local policy, an external or in-cluster UDP client that keeps sending from one source port reaches the "
    "endpoint that replaces its endpoint on the node, and gets no answer if the node no longer has an endpoint; for "
    "external clients, hints make no difference.",
    level=SHOULD,
    must_if=UDP_FLOWS,
    features={CLUSTER_IP, EXTERNAL_POLICY, INTERNAL_POLICY, NODE_PORT, UDP_SERVICES, ZONE_HINTS},
    source=f"core/v1 ServiceSpec.externalTrafficPolicy, internalTrafficPolicy; {HABIT}",
    kills={"leaves-udp-flows-of-local-endpoints"},
)
def test_udp_flows_of_local_policies(three_zones: Cluster) -> None:
    first, second, b1 = three_zones.run_servers(on=["a2", "a2", "b1"])
    with ExitStack() as flows:
        changes = []
        for after, distribution in ((second, None), (None, None), (second, "PreferClose"), (None, "PreferClose")):
            service = three_zones.create_service(
                ports=[UDP],
                type="NodePort",
                external_traffic_policy="Local",
                internal_traffic_policy="Cluster" if distribution else "Local",
                traffic_distribution=distribution,
            )
            # With hints, in-cluster clients use only the other endpoint, so only external clients' flows reach node a2.
            zones = {first: ["b"], second: ["b"], b1: ["a"]} if distribution else {}
            made = {pod: endpoint(pod, zones=zones.get(pod, ())) for pod in (first, second, b1)}
            three_zones.publish(service, [made[first], made[b1]])
            outside = expect_flow_moves(
                three_zones, service, external_client("a2"), before=first, after=after, to="node-port"
            )
            flows.enter_context(outside)
            if not distribution:
                flows.enter_context(expect_flow_moves(three_zones, service, "a2", before=first, after=after))
            changes.append((service, [made[b1], *([made[after]] if after else [])]))
        for service, endpoints in changes:
            three_zones.publish(service, endpoints)
