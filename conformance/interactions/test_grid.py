"""The grid: cells with all pairs and important triples of values that other requirements vary one at a time.

Cells in which hints determine an outcome need node hints, which are optional. A proxy that claims this feature must
support it on every address, family and protocol. Other cells do not depend on node hints. Cells that need extended
features have separate requirements, so that, for example, a proxy without IPv6 can pass all other requirements.
"""

from __future__ import annotations

import pytest

from conformance.features import (
    CLUSTER_IP,
    EXTERNAL_IPS,
    EXTERNAL_POLICY,
    INTERNAL_POLICY,
    IPV6_SERVICES,
    LOAD_BALANCER,
    NODE_HINTS,
    NODE_PORT,
    SESSION_AFFINITY,
    TERMINATING_ENDPOINTS,
    UDP_SERVICES,
    ZONE_HINTS,
)
from conformance.interactions.cell_runner import expect_cells
from trafficdist import MUST, Cluster, requirement

CORE = {
    CLUSTER_IP,
    EXTERNAL_POLICY,
    INTERNAL_POLICY,
    NODE_PORT,
    TERMINATING_ENDPOINTS,
    UDP_SERVICES,
    ZONE_HINTS,
}
POLICIES = "KEP-4444, Intersection with internal/externalTrafficPolicy; KEP-1669, Proposal"
HINTS = "KEP-4444, PreferClose; KEP-3015, Addition of PreferSameNode"
ALL = CORE | {EXTERNAL_IPS, IPV6_SERVICES, LOAD_BALANCER}


@requirement(
    "INTERACTIONS/cluster-ip",
    "Traffic to the cluster IP goes to the endpoints that traffic policies and endpoint conditions select, with or "
    "without hints, for every protocol, kind of client and kind of target port.",
    level=MUST,
    features=CORE,
    source=POLICIES,
    kills={"ignores-internal-local"},
)
def test_cluster_ip(three_zones: Cluster) -> None:
    expect_cells(three_zones, "cluster-ip", hints=False)


@requirement(
    "INTERACTIONS/cluster-ip-hints",
    "Traffic to the cluster IP goes to the endpoints that hints select, for every protocol, traffic policy, endpoint "
    "condition, kind of client and kind of target port.",
    level=MUST,
    features=CORE | {NODE_HINTS},
    source=HINTS,
    kills={"decides-as-on-another-node", "ignores-node-hints"},
)
def test_cluster_ip_hints(three_zones: Cluster) -> None:
    expect_cells(three_zones, "cluster-ip", hints=True)


@requirement(
    "INTERACTIONS/node-port",
    "Traffic to node ports goes to the endpoints that traffic policies and endpoint conditions select, with or without "
    "hints, for every protocol, kind of client and kind of target port.",
    level=MUST,
    features=CORE,
    source=POLICIES,
    kills={"target-port-of-the-first-pod"},
)
def test_node_port(three_zones: Cluster) -> None:
    expect_cells(three_zones, "node-port", hints=False)


@requirement(
    "INTERACTIONS/node-port-hints",
    "Traffic to node ports goes to the endpoints that hints select, for every protocol, traffic policy, endpoint "
    "condition, kind of client and kind of target port.",
    level=MUST,
    features=CORE | {NODE_HINTS},
    source=HINTS,
    kills={"ignores-zone-hints"},
)
def test_node_port_hints(three_zones: Cluster) -> None:
    expect_cells(three_zones, "node-port", hints=True)


@requirement(
    "INTERACTIONS/load-balancer",
    "Traffic to load balancer addresses goes to the endpoints that traffic policies and endpoint conditions select, "
    "with or without hints, for every protocol, kind of client and kind of target port.",
    level=MUST,
    features=CORE | {LOAD_BALANCER},
    source=POLICIES,
    kills={"external-local-for-all-at-load-balancers", "first-port-alone-is-reached-from-outside"},
)
def test_load_balancer(three_zones: Cluster) -> None:
    expect_cells(three_zones, "load-balancer", hints=False)


@requirement(
    "INTERACTIONS/load-balancer-hints",
    "Traffic to load balancer addresses goes to the endpoints that hints select, for every protocol, traffic policy, "
    "endpoint condition, kind of client and kind of target port.",
    level=MUST,
    features=CORE | {LOAD_BALANCER, NODE_HINTS},
    source=HINTS,
    kills={"drops-without-hinted-endpoint"},
)
def test_load_balancer_hints(three_zones: Cluster) -> None:
    expect_cells(three_zones, "load-balancer", hints=True)


@requirement(
    "INTERACTIONS/external-ip",
    "Traffic to external IPs goes to the endpoints that traffic policies and endpoint conditions select, with or "
    "without hints, for every protocol, kind of client and kind of target port.",
    level=MUST,
    features=CORE | {EXTERNAL_IPS},
    source=POLICIES,
    kills={"first-port-alone-is-reached-from-outside", "internal-local-at-external-ips"},
)
def test_external_ip(three_zones: Cluster) -> None:
    expect_cells(three_zones, "external-ip", hints=False)


@requirement(
    "INTERACTIONS/external-ip-hints",
    "Traffic to external IPs goes to the endpoints that hints select, for every protocol, traffic policy, endpoint "
    "condition, kind of client and kind of target port.",
    level=MUST,
    features=CORE | {EXTERNAL_IPS, NODE_HINTS},
    source=HINTS,
    kills={"no-hints-inside-at-external-ips"},
)
def test_external_ip_hints(three_zones: Cluster) -> None:
    expect_cells(three_zones, "external-ip", hints=True)


@pytest.mark.takes(12)
@requirement(
    "INTERACTIONS/ipv6",
    "IPv6 traffic to all kinds of Service addresses goes to the endpoints that traffic policies and endpoint "
    "conditions select, with or without hints, for every protocol, kind of client and kind of target port.",
    level=MUST,
    features=ALL,
    source=POLICIES,
    kills={
        "accepts-partial-hints-over-ipv6",
        "no-last-resort-over-ipv6",
        "no-policies-over-udp-and-ipv6",
        "unready-over-ipv6",
    },
)
def test_ipv6(three_zones: Cluster) -> None:
    expect_cells(three_zones, "IPv6", hints=False)


@requirement(
    "INTERACTIONS/ipv6-hints",
    "IPv6 traffic to all kinds of Service addresses goes to the endpoints that hints select, for every protocol, "
    "traffic policy, endpoint condition, kind of client and kind of target port.",
    level=MUST,
    features=ALL | {NODE_HINTS},
    source=HINTS,
    kills={"no-hints-at-external-addresses-over-ipv6", "no-hints-over-udp-and-ipv6"},
)
def test_ipv6_hints(three_zones: Cluster) -> None:
    expect_cells(three_zones, "IPv6", hints=True)


@requirement(
    "INTERACTIONS/affinity",
    "Traffic to any address of a Service with session affinity goes to the endpoints that traffic policies and "
    "endpoint conditions select, with or without hints, for every protocol, kind of client and kind of target port.",
    level=MUST,
    features=ALL | {SESSION_AFFINITY},
    source=POLICIES,
    kills={"no-external-local-with-affinity", "no-last-resort-with-affinity"},
)
def test_affinity(three_zones: Cluster) -> None:
    expect_cells(three_zones, "affinity", hints=False)


@requirement(
    "INTERACTIONS/affinity-hints",
    "Traffic to any address of a Service with session affinity goes to the endpoints that hints select, for every "
    "protocol, traffic policy, endpoint condition, kind of client and kind of target port.",
    level=MUST,
    features=ALL | {NODE_HINTS, SESSION_AFFINITY},
    source=HINTS,
    kills={"affinity-ignores-hints"},
)
def test_affinity_hints(three_zones: Cluster) -> None:
    expect_cells(three_zones, "affinity", hints=True)


@requirement(
    "INTERACTIONS/many-endpoints",
    "Traffic to Services with 120 or 1,200 endpoints goes to the endpoints that traffic policies and endpoint "
    "conditions select, with or without hints, for every protocol, kind of client and kind of target port.",
    level=MUST,
    features=ALL | {SESSION_AFFINITY},
    source=POLICIES,
    kills={"first-hundred-endpoints", "no-policies-over-a-hundred"},
)
def test_many_endpoints(three_zones: Cluster) -> None:
    expect_cells(three_zones, "many endpoints", hints=False)


@requirement(
    "INTERACTIONS/many-endpoints-hints",
    "Traffic to Services with 120 or 1,200 endpoints goes to the endpoints that hints select, for every protocol, "
    "traffic policy, endpoint condition, kind of client and kind of target port.",
    level=MUST,
    features=ALL | {NODE_HINTS, SESSION_AFFINITY},
    source=HINTS,
    kills={"no-hints-over-a-hundred"},
)
def test_many_endpoints_hints(three_zones: Cluster) -> None:
    expect_cells(three_zones, "many endpoints", hints=True)
