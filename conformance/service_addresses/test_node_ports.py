"""Node ports over the second IP family, with hints, policies and conditions."""

from __future__ import annotations

from conformance.features import (
    EXTERNAL_POLICY,
    IPV6_NODE_PORTS,
    IPV6_SERVICES,
    NODE_PORT,
    TERMINATING_ENDPOINTS,
    UDP_SERVICES,
    ZONE_HINTS,
)
from conformance.service_addresses.test_endpoints import RATES
from conformance.terminating_endpoints.test_routing import leaving
from trafficdist import (
    NO_ANSWER,
    SHOULD,
    Cluster,
    ExpectedTraffic,
    Port,
    Service,
    Traffic,
    endpoint,
    expect_concurrent_traffic,
    external_client,
    node_client,
    requirement,
    same_zone,
)

TCP, UDP = Port(80, name="tcp"), Port(80, protocol="UDP", name="udp")


def _over_ipv6(name: str, service: Service, expected: Traffic) -> list[ExpectedTraffic]:
    return [
        ExpectedTraffic(f"{name} over {port.protocol}", service, expected, to="node-port", family="IPv6", port=port)
        for port in (TCP, UDP)
    ]


@requirement(
    "SERVICE/node-ports-over-ipv6",
    "Over IPv6, a dual-stack Service answers on its node ports for TCP and UDP, and follows hints, "
    "externalTrafficPolicy and the rules for terminating endpoints.",
    level=SHOULD,  # no specification covers the families; a proxy may serve only some addresses (--nodeport-addresses)
    must_if=IPV6_NODE_PORTS,
    features={EXTERNAL_POLICY, IPV6_SERVICES, NODE_PORT, TERMINATING_ENDPOINTS, UDP_SERVICES, ZONE_HINTS},
    source="core/v1 ServiceSpec.type (NodePort); Kubernetes, dual-stack Services",
    kills={
        "no-node-ports-over-ipv6",
        "external-addresses-ignore-hints",
        "ignores-external-local",
        "no-policies-at-external-addresses-over-ipv6",
    },
)
def test_node_ports_answer_over_ipv6(three_zones: Cluster) -> None:
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    hinted = three_zones.create_service(
        type="NodePort", ports=[TCP, UDP], dual_stack=True, traffic_distribution="PreferClose"
    )
    local = three_zones.create_service(
        type="NodePort", ports=[TCP, UDP], dual_stack=True, external_traffic_policy="Local"
    )
    going = three_zones.create_service(type="NodePort", ports=[TCP, UDP], dual_stack=True)
    three_zones.publish(hinted, [same_zone(a1), same_zone(b1)])
    three_zones.publish(local, [endpoint(a1), endpoint(b1)])
    three_zones.publish(going, [leaving(a1), leaving(b1, serving=False)])

    near: Traffic = {external_client("a2"): {a1}, external_client("b2"): {b1}, "b2": {b1}, node_client("c1"): {a1, b1}}
    here: Traffic = {external_client("a1"): {a1}, external_client("b1"): {b1}, external_client("a2"): NO_ANSWER}
    last: Traffic = {external_client("b1"): {a1}, "c1": {a1}}
    expect_concurrent_traffic(
        three_zones,
        [
            *_over_ipv6("hints", hinted, near),
            *_over_ipv6("policy Local", local, here),
            *_over_ipv6("the last endpoint", going, last),
        ],
        rates=RATES,
    )
