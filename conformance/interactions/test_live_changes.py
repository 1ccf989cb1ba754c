"""Live changes: fields of a Service and its slices change while traffic flows, and change back.

Traffic must be as the KEPs require before the change, after the change, and after the reversal. During a change, only
endpoints that are allowed before or after the change may answer. Changes in which hints determine an outcome need
node hints. Changes that need extended features have separate requirements.
"""

from __future__ import annotations

import pytest

from conformance.features import EXTERNAL_IPS, IPV6_SERVICES, LOAD_BALANCER, NODE_HINTS, SESSION_AFFINITY
from conformance.interactions.change_runner import expect_changes
from conformance.interactions.test_grid import CORE, HINTS, POLICIES
from trafficdist import MUST, Cluster, requirement

SERVICES = f"core/v1 ServiceSpec; discovery/v1 EndpointSlice; {POLICIES}"
OUTWARD = CORE | {EXTERNAL_IPS, LOAD_BALANCER}


@pytest.mark.takes(9)
@requirement(
    "INTERACTIONS/live",
    "Traffic follows changes to an existing Service's endpoints, policies, type, protocol and target port, including "
    "when they are reverted; addresses and ports that are removed from the Service no longer answer.",
    level=MUST,
    features=CORE,
    source=SERVICES,
    kills={
        "freezes-conditions",
        "freezes-endpoints",
        "freezes-external-policy",
        "freezes-internal-policy",
        "freezes-node-ports",
        "freezes-protocols",
        "freezes-slice-ports",
        "never-restores-conditions",
        "never-restores-internal-policy",
    },
)
def test_live(three_zones: Cluster) -> None:
    expect_changes(three_zones, "core", hints=False)


@pytest.mark.takes(10)
@requirement(
    "INTERACTIONS/live-hints",
    "Traffic follows the hints of an existing Service while hints, trafficDistribution and other fields change; if "
    "LosslessChanges is claimed, no connection fails while hints change.",
    level=MUST,
    features=CORE | {NODE_HINTS},
    source=f"{HINTS}; KEP-4444, Changes within kube-proxy (safer transitions between enabled and disabled states)",
    kills={"freezes-distribution", "freezes-hints", "never-restores-hints"},
)
def test_live_hints(three_zones: Cluster) -> None:
    expect_changes(three_zones, "core", hints=True)


@requirement(
    "INTERACTIONS/live-addresses",
    "An existing Service answers at external IPs and load balancer addresses while it has them, but not before or "
    "afterwards, and other changes to the Service take effect at these addresses too.",
    level=MUST,
    features=OUTWARD,
    source=f"core/v1 ServiceSpec.externalIPs, ServiceStatus.loadBalancer; {SERVICES}",
    kills={"freezes-external-ips", "freezes-ingress", "never-restores-external-ips"},
)
def test_live_addresses(three_zones: Cluster) -> None:
    expect_changes(three_zones, "addresses", hints=False)


@requirement(
    "INTERACTIONS/live-addresses-hints",
    "Clients that use the external IPs and load balancer addresses of an existing Service keep following hints while "
    "other fields of the Service change.",
    level=MUST,
    features=OUTWARD | {NODE_HINTS},
    source=HINTS,
    kills={"freezes-external-policy", "freezes-slice-ports"},
)
def test_live_addresses_hints(three_zones: Cluster) -> None:
    expect_changes(three_zones, "addresses", hints=True)


@requirement(
    "INTERACTIONS/live-ipv6",
    "An existing Service can gain and lose an address of the other IP family, and changes to the Service take effect "
    "over IPv6 too.",
    level=MUST,
    features=OUTWARD | {IPV6_SERVICES, SESSION_AFFINITY},
    source=f"Kubernetes, dual-stack Services; {SERVICES}",
    kills={"freezes-cluster-ips"},
)
def test_live_ipv6(three_zones: Cluster) -> None:
    expect_changes(three_zones, "ipv6", hints=False)


@requirement(
    "INTERACTIONS/live-ipv6-hints",
    "Traffic over IPv6 follows hints while hints and other fields of a Service change.",
    level=MUST,
    features=OUTWARD | {IPV6_SERVICES, NODE_HINTS, SESSION_AFFINITY},
    source=HINTS,
    kills={"freezes-cluster-ips"},
)
def test_live_ipv6_hints(three_zones: Cluster) -> None:
    expect_changes(three_zones, "ipv6", hints=True)


@requirement(
    "INTERACTIONS/live-affinity",
    "Session affinity of an existing Service is enabled and disabled when the field sessionAffinity changes, and "
    "clients keep using allowed endpoints while other fields change.",
    level=MUST,
    features=OUTWARD | {SESSION_AFFINITY},
    source=f"core/v1 ServiceSpec.sessionAffinity; {SERVICES}",
    kills={"freezes-affinity"},
)
def test_live_affinity(three_zones: Cluster) -> None:
    expect_changes(three_zones, "affinity", hints=False)


@requirement(
    "INTERACTIONS/live-affinity-hints",
    "Clients of a Service with session affinity follow hints while hints and other fields change.",
    level=MUST,
    features=OUTWARD | {NODE_HINTS, SESSION_AFFINITY},
    source=HINTS,
    kills={"freezes-affinity", "freezes-slice-ports"},
)
def test_live_affinity_hints(three_zones: Cluster) -> None:
    expect_changes(three_zones, "affinity", hints=True)


@requirement(
    "INTERACTIONS/live-many-endpoints",
    "An existing Service can grow to 120 endpoints and shrink again, and changes to the Service take effect while it "
    "has 120 endpoints.",
    level=MUST,
    features=OUTWARD,
    source=SERVICES,
    kills={"freezes-endpoints"},
)
def test_live_many_endpoints(three_zones: Cluster) -> None:
    expect_changes(three_zones, "many endpoints", hints=False)


@requirement(
    "INTERACTIONS/live-many-endpoints-hints",
    "Traffic to a Service with 120 endpoints follows hints while hints and other fields change.",
    level=MUST,
    features=OUTWARD | {NODE_HINTS},
    source=HINTS,
    kills={"freezes-hints"},
)
def test_live_many_endpoints_hints(three_zones: Cluster) -> None:
    expect_changes(three_zones, "many endpoints", hints=True)
