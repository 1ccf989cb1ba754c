"""Traffic policies: Local keeps traffic on the node and never falls back. Hints apply only to the `Cluster` policy.

The policy table is from KEP-4444, which copied it from KEP-2086. Each policy applies to one direction:
internalTrafficPolicy to traffic to the cluster IP, and externalTrafficPolicy to external traffic.
"""

from __future__ import annotations

from typing import Any

from conformance.features import (
    CLIENT_ADDRESS,
    CLUSTER_IP,
    DROP_OR_REJECT,
    EXTERNAL_POLICY,
    INTERNAL_POLICY,
    IPV6_SERVICES,
    LOAD_BALANCER,
    NODE_PORT,
    UDP_SERVICES,
    ZONE_HINTS,
)
from trafficdist import (
    MUST,
    NO_ANSWER,
    REFUSED,
    SHOULD,
    TIMED_OUT,
    UDP,
    Cluster,
    Port,
    Traffic,
    endpoint,
    expect_client_address,
    expect_traffic,
    external_client,
    node_client,
    requirement,
    same_zone,
)


@requirement(
    "KEP-2086/local-stays-on-the-node",
    "With internalTrafficPolicy Local, a client that connects to the cluster IP reaches all ready endpoints on its own "
    "node, and no others.",
    level=MUST,
    features={INTERNAL_POLICY},
    source="KEP-4444, Topology Aware Routing and InternalTrafficPolicy; KEP-2086",
    kills={
        "ignores-internal-local",
        "node-names-by-prefix",
        "node-names-end-at-the-first-dot",
    },
)
def test_internal_local_reaches_only_endpoints_of_the_node(three_zones: Cluster) -> None:
    service = three_zones.create_service(internal_traffic_policy="Local")
    a1, other, a2, b1 = three_zones.run_servers(on=["a1", "a1", "a2", "b1"])
    three_zones.publish(service, [endpoint(pod) for pod in (a1, other, a2, b1)])

    expect_traffic(three_zones, service, {"a1": {a1, other}, "a2": {a2}, "b1": {b1}, node_client("a2"): {a2}})


@requirement(
    "KEP-2086/local-without-endpoints-does-not-fall-back",
    "With internalTrafficPolicy Local, a client on a node without endpoints of the Service gets no answer.",
    level=MUST,
    features={INTERNAL_POLICY},
    source="KEP-4444, Topology Aware Routing and InternalTrafficPolicy (lacks failover); KEP-2086",
    kills={"ignores-internal-local", "internal-local-falls-back"},
)
def test_internal_local_never_falls_back(three_zones: Cluster) -> None:
    service = three_zones.create_service(internal_traffic_policy="Local")
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])

    expect_traffic(three_zones, service, {"a1": {a1}, "a2": NO_ANSWER, "b1": NO_ANSWER})


@requirement(
    "KEP-2086/local-without-endpoints-drops",
    "With internalTrafficPolicy Local and endpoints only on other nodes, packets are dropped silently, not rejected.",
    level=SHOULD,
    must_if=DROP_OR_REJECT,
    features={INTERNAL_POLICY},
    source="KEP-4444, Topology Aware Routing and InternalTrafficPolicy (traffic is dropped)",
    kills={"ignores-internal-local", "rejects-where-drop-is-due"},
)
def test_internal_local_drops_when_node_has_no_endpoint(three_zones: Cluster) -> None:
    service = three_zones.create_service(internal_traffic_policy="Local")
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])

    expect_traffic(three_zones, service, {"a1": {a1}, "b1": TIMED_OUT})


@requirement(
    "KEP-2086/local-sets-hints-aside",
    "Hints do not apply with internalTrafficPolicy Local: a client uses the endpoints on its node, whatever zones they "
    "are hinted for.",
    level=MUST,
    features={INTERNAL_POLICY, ZONE_HINTS},
    source="KEP-4444, Intersection with internal/externalTrafficPolicy (third row)",
    kills={"hints-on-top-of-local", "ignores-internal-local"},
)
def test_internal_local_ignores_hints(three_zones: Cluster) -> None:
    service = three_zones.create_service(internal_traffic_policy="Local", traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1, zones=["b"]), endpoint(b1, zones=["a"])])

    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}, "a2": NO_ANSWER})


@requirement(
    "KEP-2086/policy-changes-on-a-live-service",
    "A change of internalTrafficPolicy from Cluster to Local, or back, takes effect on an existing Service.",
    level=MUST,
    features={INTERNAL_POLICY},
    source="KEP-2086, Proposal",
    kills={"ignores-internal-local", "ignores-service-updates"},
)
def test_internal_policy_changes_on_a_live_service(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1), endpoint(b1)])
    for policy, allowed in (("Cluster", {a1, b1}), ("Local", {a1}), ("Cluster", {a1, b1})):
        three_zones.patch_service(service, {"spec": {"internalTrafficPolicy": policy}})
        expect_traffic(three_zones, service, {"a1": allowed})


@requirement(
    "KEP-2086/internal-policy-leaves-external-traffic-alone",
    "internalTrafficPolicy Local does not restrict external traffic.",
    level=MUST,
    features={INTERNAL_POLICY, NODE_PORT},
    source="KEP-2086, Proposal; KEP-4444, Intersection with internal/externalTrafficPolicy",
    kills={"internal-local-restricts-external"},
)
def test_internal_local_does_not_restrict_external_traffic(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort", internal_traffic_policy="Local")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1), endpoint(b1)])

    outside: Traffic = {external_client("a1"): {a1, b1}, external_client("c1"): {a1, b1}}
    expect_traffic(three_zones, service, outside, to="node-port")


@requirement(
    "KEP-2086/external-policy-leaves-internal-traffic-alone",
    "externalTrafficPolicy Local does not restrict traffic to the cluster IP.",
    level=MUST,
    features={EXTERNAL_POLICY, NODE_PORT},
    source="KEP-2086, Proposal; KEP-4444, Intersection with internal/externalTrafficPolicy (second row)",
    kills={"external-local-restricts-cluster-ip"},
)
def test_external_local_does_not_restrict_the_cluster_ip(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort", external_traffic_policy="Local")
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])

    expect_traffic(three_zones, service, {"a1": {a1}, "a2": {a1}, "c1": {a1}})


@requirement(
    "SERVICE/external-local-stays-on-the-node",
    "With externalTrafficPolicy Local, external traffic reaches only ready endpoints on the node that it enters.",
    level=MUST,
    features={EXTERNAL_POLICY, NODE_PORT},
    source="KEP-4444, Intersection with internal/externalTrafficPolicy (second row)",
    kills={"external-local-falls-back", "ignores-external-local"},
)
def test_external_local_reaches_only_endpoints_of_the_node(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort", external_traffic_policy="Local")
    a1, a2 = three_zones.run_servers(on=["a1", "a2"])
    three_zones.publish(service, [endpoint(a1), endpoint(a2)])

    outside: Traffic = {external_client("a1"): {a1}, external_client("a2"): {a2}, external_client("b1"): NO_ANSWER}
    expect_traffic(three_zones, service, outside, to="node-port")


@requirement(
    "SERVICE/external-local-keeps-the-client-address",
    "With externalTrafficPolicy Local, the endpoint sees the external client's own address as the source address.",
    level=MUST,
    features={CLIENT_ADDRESS, EXTERNAL_POLICY, NODE_PORT},
    source="core/v1 ServiceSpec.externalTrafficPolicy (preserves the client source IP)",
    kills={"always-masquerades"},
)
def test_external_local_keeps_the_client_address(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort", external_traffic_policy="Local")
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])

    expect_client_address(three_zones, service, external_client("a1"), to="node-port")


@requirement(
    "SERVICE/external-local-without-endpoints-drops",
    "With externalTrafficPolicy Local and endpoints only on other nodes, packets from external clients are dropped "
    "silently.",
    level=SHOULD,
    must_if=DROP_OR_REJECT,
    features={EXTERNAL_POLICY, NODE_PORT},
    source="core/v1 ServiceSpec.externalTrafficPolicy (traffic … will be dropped)",
    kills={"ignores-external-local", "rejects-where-drop-is-due"},
)
def test_external_local_drops_when_node_has_no_endpoint(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort", external_traffic_policy="Local")
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])

    outside: Traffic = {external_client("a1"): {a1}, external_client("b1"): TIMED_OUT}
    expect_traffic(three_zones, service, outside, to="node-port")


@requirement(
    "KEP-4444/external-local-with-hints",
    "With externalTrafficPolicy Local, external traffic stays on the node that it enters, and traffic to the cluster "
    "IP follows hints.",
    level=MUST,
    features={EXTERNAL_POLICY, NODE_PORT, ZONE_HINTS},
    source="KEP-4444, Intersection with internal/externalTrafficPolicy (second row)",
    kills={"hints-on-top-of-local", "ignores-external-local", "ignores-zone-hints"},
)
def test_external_local_and_hints_side_by_side(three_zones: Cluster) -> None:
    service = three_zones.create_service(
        type="NodePort", external_traffic_policy="Local", traffic_distribution="PreferClose"
    )
    a1, a2, b1 = three_zones.run_servers(on=["a1", "a2", "b1"])
    three_zones.publish(service, [endpoint(a1, zones=["b"]), endpoint(a2, zones=["a"]), same_zone(b1)])

    expect_traffic(three_zones, service, {"a1": {a2}, "b1": {a1, b1}})
    outside: Traffic = {external_client("a1"): {a1}, external_client("b1"): {b1}, external_client("b2"): NO_ANSWER}
    expect_traffic(three_zones, service, outside, to="node-port")


@requirement(
    "KEP-4444/both-policies-local-with-hints",
    "With both traffic policies set to Local, neither traffic to the cluster IP nor external traffic follows hints.",
    level=MUST,
    features={INTERNAL_POLICY, EXTERNAL_POLICY, NODE_PORT, ZONE_HINTS},
    source="KEP-4444, Intersection with internal/externalTrafficPolicy (third row)",
    kills={"hints-on-top-of-local", "ignores-external-local", "ignores-internal-local"},
)
def test_both_policies_local_set_hints_aside(three_zones: Cluster) -> None:
    service = three_zones.create_service(
        type="NodePort",
        internal_traffic_policy="Local",
        external_traffic_policy="Local",
        traffic_distribution="PreferClose",
    )
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1, zones=["b"]), endpoint(b1, zones=["a"])])

    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}, "a2": NO_ANSWER})
    outside: Traffic = {external_client("a1"): {a1}, external_client("b1"): {b1}, external_client("a2"): NO_ANSWER}
    expect_traffic(three_zones, service, outside, to="node-port")


@requirement(
    "KEP-4444/cluster-policy-with-internal-local-and-hints",
    "With internalTrafficPolicy Local and externalTrafficPolicy Cluster, external traffic still follows hints.",
    level=MUST,
    features={INTERNAL_POLICY, NODE_PORT, ZONE_HINTS},
    source="KEP-2086, interaction with topology; KEP-4444, Intersection with internal/externalTrafficPolicy",
    kills={
        "drops-without-hinted-endpoint",
        "external-addresses-ignore-hints",
        "ignores-internal-local",
        "ignores-zone-hints",
    },
)
def test_internal_local_leaves_hints_to_external_traffic(three_zones: Cluster) -> None:
    service = three_zones.create_service(
        type="NodePort", internal_traffic_policy="Local", traffic_distribution="PreferClose"
    )
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1)])

    expect_traffic(three_zones, service, {"a1": {a1}, "a2": NO_ANSWER})
    outside: Traffic = {external_client("a2"): {a1}, external_client("b2"): {b1}, external_client("c1"): {a1, b1}}
    expect_traffic(three_zones, service, outside, to="node-port")


@requirement(
    "SERVICE/external-local-does-not-restrict-clients-inside",
    "With externalTrafficPolicy Local, pods and nodes that use a load balancer address reach endpoints on all nodes.",
    level=MUST,
    features={EXTERNAL_POLICY, LOAD_BALANCER},
    source="core/v1 ServiceSpec.externalTrafficPolicy (traffic from within the cluster always gets Cluster semantics)",
    kills={"external-local-restricts-clients-inside", "ignores-external-local"},
)
def test_clients_inside_bypass_external_local(three_zones: Cluster) -> None:
    """Node ports are omitted: core/v1 says only that clients of node ports may need to take the policy into account."""
    service = three_zones.create_service(type="LoadBalancer", external_traffic_policy="Local")
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])

    expect_traffic(three_zones, service, {"b1": {a1}, node_client("b1"): {a1}, "a1": {a1}}, to="load-balancer")
    outside: Traffic = {external_client("a1"): {a1}, external_client("b1"): NO_ANSWER}
    expect_traffic(three_zones, service, outside, to="load-balancer")


@requirement(
    "SERVICE/external-local-does-not-restrict-pods-at-their-own-node-port",
    "With externalTrafficPolicy Local, pods that use the node port of their own node reach endpoints on all nodes.",
    level=SHOULD,  # core/v1: "clients sending to a NodePort from within the cluster may need to" consider the policy
    features={EXTERNAL_POLICY, NODE_PORT},
    source="core/v1 ServiceSpec.externalTrafficPolicy; kube-proxy gives its own pods Cluster semantics at node ports",
    kills={"pod-cidrs-are-read-once"},
)
def test_pods_at_their_own_node_port_bypass_external_local(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort", external_traffic_policy="Local")
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])

    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {a1}, "c1": {a1}}, to="node-port")


@requirement(
    "KEP-4444/clients-inside-follow-hints-at-external-addresses",
    "With both traffic policies set to Local, pods that use a load balancer address follow hints, as they do with the "
    "Cluster policy.",
    level=MUST,
    features={EXTERNAL_POLICY, INTERNAL_POLICY, LOAD_BALANCER, ZONE_HINTS},
    source="core/v1 ServiceSpec.externalTrafficPolicy (traffic from within the cluster always gets Cluster semantics)",
    kills={
        "drops-without-hinted-endpoint",
        "external-addresses-ignore-hints",
        "ignores-zone-hints",
    },
)
def test_clients_inside_follow_hints_at_a_load_balancer_address(three_zones: Cluster) -> None:
    service = three_zones.create_service(
        type="LoadBalancer",
        internal_traffic_policy="Local",
        external_traffic_policy="Local",
        traffic_distribution="PreferClose",
    )
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [same_zone(a1), same_zone(b1)])

    expect_traffic(three_zones, service, {"a2": {a1}, "b2": {b1}, "c1": {a1, b1}}, to="load-balancer")


@requirement(
    "KEP-2086/local-holds-for-udp",
    "internalTrafficPolicy Local applies to UDP as it does to TCP.",
    level=MUST,
    features={INTERNAL_POLICY, UDP_SERVICES},
    source="KEP-2086, Proposal",
    kills={"ignores-internal-local", "udp-ignores-internal-local"},
)
def test_internal_local_holds_for_udp(three_zones: Cluster) -> None:
    service = three_zones.create_service(ports=[UDP], internal_traffic_policy="Local")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1), endpoint(b1)])

    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {b1}, "c1": NO_ANSWER})


@requirement(
    "SERVICE/no-endpoints-are-refused",
    "A Service that has lost its last endpoint rejects connections instead of letting clients wait.",
    level=SHOULD,
    must_if=DROP_OR_REJECT,
    features={CLUSTER_IP, UDP_SERVICES},
    source="Kubernetes, kube-proxy: services without endpoints are rejected",
    kills={"drops-where-reject-is-due"},
)
def test_service_without_endpoints_refuses(three_zones: Cluster) -> None:
    tcp, udp = Port(80, name="tcp"), Port(80, protocol="UDP", name="udp")
    both = three_zones.claims(IPV6_SERVICES)
    ways: list[dict[str, Any]] = [{"port": port} for port in (tcp, udp)]
    if both:
        ways = [{**way, "family": family} for way in ways for family in ("IPv4", "IPv6")]
    service = three_zones.create_service(ports=[tcp, udp], dual_stack=both)
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])
    for way in ways:
        expect_traffic(three_zones, service, {"a1": {a1}, "b1": {a1}}, **way)

    three_zones.publish(service, [])
    refused: Traffic = {"a1": REFUSED, "b1": REFUSED, node_client("c1"): REFUSED}
    for way in ways:
        expect_traffic(three_zones, service, refused, **way)
