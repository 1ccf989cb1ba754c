"""KEP-4444, Intersection with internal/externalTrafficPolicy: all nine combinations of the two policies.

The KEP's table has three rows. The other combinations follow from two rules: each policy applies to one direction, and
an unset policy is not Local. The hints in these tests contradict the zones of the endpoints. So routing by hints,
routing by node, and routing to all endpoints give three different answers.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.features import (
    EXTERNAL_IPS,
    EXTERNAL_POLICY,
    INTERNAL_POLICY,
    LOAD_BALANCER,
    NODE_PORT,
    ZONE_HINTS,
)
from trafficdist import (
    MUST,
    NO_ANSWER,
    AddressKind,
    Client,
    ClientRef,
    Cluster,
    Expected,
    Pod,
    Rates,
    Service,
    endpoint,
    expect_traffic,
    external_client,
    node_client,
    pod_client,
    requirement,
)

SOURCE = "KEP-4444, Intersection with internal/externalTrafficPolicy"

# Maps (externalTrafficPolicy, internalTrafficPolicy) to the routing of (external traffic, traffic to the cluster IP).
TABLE = {
    ("unset", "unset"): ("hints", "hints"),
    ("unset", "Cluster"): ("hints", "hints"),
    ("unset", "Local"): ("hints", "node"),
    ("Cluster", "unset"): ("hints", "hints"),
    ("Cluster", "Cluster"): ("hints", "hints"),
    ("Cluster", "Local"): ("hints", "node"),
    ("Local", "unset"): ("node", "hints"),
    ("Local", "Cluster"): ("node", "hints"),
    ("Local", "Local"): ("node", "node"),
}

# A proxy either applies or ignores a policy, so the probes of the 27 cells need to detect only large faults. The
# requirements of KEP-2086 test each policy for small faults.
RATES = Rates(leak=0.1)

VALUES = ("unset", "Cluster", "Local")
outside_policies = pytest.mark.parametrize("external", VALUES)
inside_policies = pytest.mark.parametrize("internal", VALUES)


def make_service(
    cluster: Cluster, external: str, internal: str, *, kind: str, external_ips: bool = False
) -> tuple[Service, Pod, Pod]:
    """Create a Service with these policies, an endpoint on a1 hinted for zone b, and one on b1 hinted for zone a."""
    service = cluster.create_service(
        type=kind,
        external_ips=external_ips,
        external_traffic_policy=None if external == "unset" else external,
        internal_traffic_policy=None if internal == "unset" else internal,
        traffic_distribution="PreferClose",
    )
    a1, b1 = cluster.run_servers(on=["a1", "b1"])
    cluster.publish(service, [endpoint(a1, zones=["b"]), endpoint(b1, zones=["a"])])
    return service, a1, b1


def routes(way: str, a1: Pod, b1: Pod, client: Callable[[str], Client]) -> dict[ClientRef, Expected]:
    """Return the servers that each client reaches if routing follows hints (`way` is "hints") or the client's node."""
    if way == "hints":
        return {client("a1"): {b1}, client("a2"): {b1}, client("b1"): {a1}}
    return {client("a1"): {a1}, client("a2"): NO_ANSWER, client("b1"): {b1}}


@pytest.mark.takes(17)
@requirement(
    "KEP-4444/policy-table-in-all-combinations",
    "For all combinations of the two traffic policies (unset, Cluster and Local), traffic to the cluster IP and "
    "external traffic is routed according to the table of traffic policies in KEP-4444.",
    level=MUST,
    features={EXTERNAL_POLICY, INTERNAL_POLICY, NODE_PORT, ZONE_HINTS},
    source=SOURCE,
    kills={
        "external-addresses-ignore-hints",
        "hints-on-top-of-local",
        "ignores-external-local",
        "ignores-internal-local",
        "internal-local-restricts-external",
    },
)
@outside_policies
@inside_policies
def test_table_holds_at_cluster_ip_and_node_port(three_zones: Cluster, external: str, internal: str) -> None:
    service, a1, b1 = make_service(three_zones, external, internal, kind="NodePort")
    outside, inside = TABLE[external, internal]

    expect_traffic(three_zones, service, routes(inside, a1, b1, pod_client), rates=RATES)
    expect_traffic(three_zones, service, {node_client("a1"): {b1} if inside == "hints" else {a1}}, rates=RATES)
    expect_traffic(three_zones, service, routes(outside, a1, b1, external_client), to="node-port", rates=RATES)


@requirement(
    "KEP-4444/policy-table-at-load-balancer-addresses",
    "Traffic from external clients to load balancer addresses is routed according to the table of traffic policies in "
    "KEP-4444, and traffic from in-cluster clients to these addresses always follows hints.",
    level=MUST,
    features={EXTERNAL_POLICY, INTERNAL_POLICY, LOAD_BALANCER, ZONE_HINTS},
    source=f"{SOURCE}; core/v1 ServiceSpec.externalTrafficPolicy (from within the cluster always Cluster semantics)",
    kills={"external-addresses-ignore-hints", "hints-on-top-of-local-at-load-balancers"},
)
@outside_policies
@inside_policies
def test_table_holds_at_load_balancer_addresses(three_zones: Cluster, external: str, internal: str) -> None:
    service, a1, b1 = make_service(three_zones, external, internal, kind="LoadBalancer")
    expect_table(three_zones, service, a1, b1, TABLE[external, internal][0], to="load-balancer")


@requirement(
    "KEP-4444/policy-table-at-external-ips",
    "Traffic from external clients to external IPs is routed according to the table of traffic policies in KEP-4444, "
    "and traffic from in-cluster clients to external IPs always follows hints.",
    level=MUST,
    features={EXTERNAL_IPS, EXTERNAL_POLICY, INTERNAL_POLICY, ZONE_HINTS},
    source=f"{SOURCE}; core/v1 ServiceSpec.externalTrafficPolicy (from within the cluster always Cluster semantics)",
    kills={"external-addresses-ignore-hints", "external-ips-ignore-local"},
)
@outside_policies
@inside_policies
def test_table_holds_at_external_ips(three_zones: Cluster, external: str, internal: str) -> None:
    service, a1, b1 = make_service(three_zones, external, internal, kind="ClusterIP", external_ips=True)
    expect_table(three_zones, service, a1, b1, TABLE[external, internal][0], to="external-ip")


def expect_table(cluster: Cluster, service: Service, a1: Pod, b1: Pod, way: str, *, to: AddressKind) -> None:
    """Expect routing by `way` (see `routes`) for external clients, and routing by hints for in-cluster clients."""
    expect_traffic(cluster, service, {"a1": {b1}, node_client("b1"): {a1}}, to=to, rates=RATES)
    expect_traffic(cluster, service, routes(way, a1, b1, external_client), to=to, rates=RATES)
