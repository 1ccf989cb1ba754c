"""KEP-536 with later features: traffic policies, trafficDistribution and hints.

Of these features, KEP-536 covers only externalTrafficPolicy, and forbids its value Local together with topology keys.
We derive the following order from all KEPs. With a `Local` policy, topology keys have no effect. Topology keys
are strict, so hints neither add endpoints nor remove any that the keys select. Hints apply only without keys.

No KEP states this order explicitly; it is our interpretation. KEP-2433 says that its gate and the ServiceTopology gate
cannot be combined. kube-proxy 1.21 ignored internalTrafficPolicy and hints while the ServiceTopology gate was enabled.
Where our order and kube-proxy 1.21 differ, there are two requirements, one for each order.
"""

from __future__ import annotations

from conformance.features import CLUSTER_IP, INTERNAL_POLICY, NODE_HINTS, NODE_PORT, TOPOLOGY_KEYS, ZONE_HINTS
from conformance.kep_536_topology_keys.topology import (
    ANY,
    HOST,
    RACK,
    ZONE,
    begin,
    change_keys,
    create,
    expect_reached,
)
from trafficdist import (
    MUST,
    SHOULD,
    Cluster,
    endpoint,
    external_client,
    requirement,
    same_zone,
)

RANDOMLY = "KEP-536, Proposal (multiple endpoints that satisfy the requirement: randomly pick one)"


@requirement(
    "KEP-536/hints-do-not-widen-a-requirement",
    "Hints for another location, from trafficDistribution or the topology annotation Auto, do not send a client to "
    "endpoints that the topology keys exclude.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS, ZONE_HINTS},
    source="KEP-536, Service API changes (connections will fail; we say these requirements are hard)",
    kills={"annotation-before-topology-keys", "hints-before-topology-keys"},
)
def test_hints_do_not_widen_a_requirement(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, ZONE, on="a1 b1", traffic_distribution="PreferClose")
    a1, b1 = pods.values()
    three_zones.publish(service, [endpoint(a1, zones=["b", "c"]), endpoint(b1, zones=["a"])])
    by_zone = {"a1": "a1", "a2": "a1", "b2": "b1", "c1": ""}
    expect_reached(three_zones, service, pods, by_zone)

    annotations = {"service.kubernetes.io/topology-mode": "Auto"}
    patch = {"metadata": {"annotations": annotations}, "spec": {"trafficDistribution": None}}
    three_zones.patch_service(service, patch)
    expect_reached(three_zones, service, pods, by_zone)


@requirement(
    "KEP-536/hints-do-not-narrow-what-keys-leave",
    "All endpoints that the first matching topology key (or *) selects are used, whatever zone or node they are "
    "hinted for.",
    level=MUST,
    features={CLUSTER_IP, NODE_HINTS, TOPOLOGY_KEYS, ZONE_HINTS},
    source=RANDOMLY,
    kills={"hints-narrow-topology-keys"},
)
def test_hints_do_not_narrow_what_keys_leave(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, RACK, ANY, traffic_distribution="PreferSameNode")
    three_zones.publish(service, [same_zone(pod, nodes=[pod.node]) for pod in pods.values()])

    expect_reached(three_zones, service, pods, {"a1": "a1", "a2": "a2 b1", "b1": "a2 b1", "b2": "a1 a2 b1"})


@requirement(
    "KEP-536/hints-count-where-there-are-no-keys",
    "With the ServiceTopology gate enabled, a Service without topology keys follows hints, and so does a Service whose "
    "keys are removed.",
    level=SHOULD,
    features={CLUSTER_IP, TOPOLOGY_KEYS, ZONE_HINTS},
    source="KEP-536, Service API changes (the field is optional); KEP-4444, Changes within kube-proxy",
    as_="kep",
    kills={"drops-without-hinted-endpoint", "gate-of-topology-keys-ends-hints", "ignores-zone-hints"},
)
def test_hints_count_where_there_are_no_keys(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, on="a1 a2 b1", traffic_distribution="PreferClose")
    three_zones.publish(service, [same_zone(pod) for pod in pods.values()])
    by_hints = {"a1": "a1 a2", "b2": "b1", "c1": "a1 a2 b1"}
    expect_reached(three_zones, service, pods, by_hints)

    change_keys(three_zones, service, HOST)
    expect_reached(three_zones, service, pods, {"a1": "a1", "b2": "", "c1": ""})
    change_keys(three_zones, service)
    expect_reached(three_zones, service, pods, by_hints)


@requirement(
    "KEP-2433/gate-of-topology-keys-ends-hints",
    "With the ServiceTopology gate enabled, a proxy ignores hints on every Service, with topology keys or without.",
    level=SHOULD,
    features={CLUSTER_IP, TOPOLOGY_KEYS, ZONE_HINTS},
    source="KEP-2433, Feature Gate (not compatible with ServiceTopology); kube-proxy of 1.21",
    as_="released",
    instead_of="KEP-536/hints-count-where-there-are-no-keys",
    kills={"drops-without-hinted-endpoint", "hints-beside-the-gate-of-topology-keys"},
)
def test_gate_of_topology_keys_ends_hints(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, on="a1 a2 b1", traffic_distribution="PreferClose")
    three_zones.publish(service, [same_zone(pod) for pod in pods.values()])
    everywhere = dict.fromkeys(("a1", "b2", "c1"), "a1 a2 b1")
    expect_reached(three_zones, service, pods, everywhere)

    change_keys(three_zones, service, HOST)
    expect_reached(three_zones, service, pods, {"a1": "a1", "b2": "", "c1": ""})
    change_keys(three_zones, service)
    expect_reached(three_zones, service, pods, everywhere)


@requirement(
    "KEP-536/internal-policy-local-comes-before-keys",
    "With internalTrafficPolicy Local, traffic to the cluster IP stays on the node whatever the topology keys are, "
    "and external traffic follows the keys.",
    level=SHOULD,
    features={CLUSTER_IP, INTERNAL_POLICY, NODE_PORT, TOPOLOGY_KEYS},
    source="KEP-2086, Proposal (only node-local endpoints); KEP-536, Service API changes",
    as_="kep",
    kills={"ignores-internal-local", "topology-keys-end-policy-local"},
)
def test_internal_policy_local_comes_before_keys(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, ZONE, ANY, internal_traffic_policy="Local", type="NodePort")

    expect_reached(three_zones, service, pods, {"a1": "a1", "a2": "a2", "b1": "b1", "b2": "", "c1": ""})
    a1, b2, c1 = (external_client(via) for via in ("a1", "b2", "c1"))
    expect_reached(three_zones, service, pods, {a1: "a1 a2", b2: "b1", c1: "a1 a2 b1"}, to="node-port")


@requirement(
    "KEP-536/keys-come-before-internal-policy-local",
    "With the ServiceTopology gate enabled, topology keys decide which endpoints a client reaches through the cluster "
    "IP, whatever internalTrafficPolicy is, and a client of a Service without keys uses every endpoint.",
    level=SHOULD,
    features={CLUSTER_IP, INTERNAL_POLICY, TOPOLOGY_KEYS},
    source="KEP-536, Service API changes (backends of the first key are always chosen); kube-proxy of 1.21",
    as_="released",
    instead_of="KEP-536/internal-policy-local-comes-before-keys",
    kills={"policy-local-beside-the-gate-of-topology-keys"},
)
def test_keys_come_before_internal_policy_local(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, ZONE, ANY, internal_traffic_policy="Local")
    expect_reached(three_zones, service, pods, {"a1": "a1 a2", "a2": "a1 a2", "b2": "b1", "c1": "a1 a2 b1"})

    change_keys(three_zones, service)
    expect_reached(three_zones, service, pods, dict.fromkeys(("a1", "b2", "c1"), "a1 a2 b1"))
