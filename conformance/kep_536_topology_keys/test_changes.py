"""KEP-536: changes to the topology keys of a Service, and to node labels."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.features import CLUSTER_IP, TOPOLOGY_KEYS
from conformance.kep_536_topology_keys.topology import (
    ANY,
    HOST,
    NODES,
    RACK,
    RACKS,
    REGION,
    ZONE,
    Reached,
    begin,
    change_keys,
    create,
    expect_reached,
)
from trafficdist import (
    MUST,
    Cluster,
    endpoint,
    requirement,
)

ALL = "a1 a2 b1"
PROXY_CHANGES = "KEP-536, Kube-proxy changes"


@requirement(
    "KEP-536/keys-of-a-live-service-take-effect",
    "Traffic follows the topology keys of an existing Service when they are set, changed, reordered or removed.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source=f"{PROXY_CHANGES} (kube-proxy will respect topology keys for each service)",
    kills={"ignores-service-updates", "remembers-topology-keys"},
)
def test_keys_of_a_live_service_take_effect(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, on=ALL)
    for keys, reached in (
        ((), {"a1": ALL, "a2": ALL, "b2": ALL, "c1": ALL}),
        ((HOST, ZONE), {"a1": "a1", "a2": "a2", "b2": "b1", "c1": ""}),
        ((ZONE, HOST), {"a1": "a1 a2", "a2": "a1 a2", "b2": "b1", "c1": ""}),
        ((RACK, ANY), {"a1": "a1", "a2": "a2 b1", "b2": ALL, "c1": ALL}),
        ((RACK,), {"a1": "a1", "a2": "a2 b1", "b2": "", "c1": ""}),
        ((), {"a1": ALL, "a2": ALL, "b2": ALL, "c1": ALL}),
    ):
        change_keys(three_zones, service, *keys)
        expect_reached(three_zones, service, pods, reached)


@requirement(
    "KEP-536/each-service-has-keys-of-its-own",
    "A Service follows only its own topology keys, even if other Services have the same endpoints and other keys or "
    "none.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source=f"{PROXY_CHANGES} (kube-proxy will respect topology keys for each service)",
    kills={"topology-keys-of-the-last-service"},
)
def test_each_service_has_keys_of_its_own(three_zones: Cluster) -> None:
    begin(three_zones)
    by_host, pods = create(three_zones, HOST, on="a1 a2")
    services = [by_host]
    for keys in ([ZONE], None):
        services.append(three_zones.create_service(topologyKeys=keys))
        three_zones.publish(services[-1], [endpoint(pod) for pod in pods.values()])

    for service, a1, c1 in zip(services, ("a1", "a1 a2", "a1 a2"), ("", "", "a1 a2"), strict=True):
        expect_reached(three_zones, service, pods, {"a1": a1, "c1": c1})


@requirement(
    "KEP-536/relabelled-node-of-the-client",
    "When a label of the client's node is changed, removed or added, the client uses the endpoints of its new "
    "location.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source=f"{PROXY_CHANGES} (kube-proxy will watch its own node)",
    kills={"ignores-node-updates"},
)
def test_node_of_the_client_is_relabelled(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, RACK, on="a1 b1")
    expect_reached(three_zones, service, pods, {"a1": "a1", "a2": "b1"})
    steps: Sequence[tuple[str | None, str]] = (("1", "a1"), ("2", "b1"), (None, ""), ("1", "a1"), ("9", ""))
    for value, reached in steps:
        three_zones.nodes.label("a2", {RACK: value})
        expect_reached(three_zones, service, pods, {"a1": "a1", "a2": reached})


@requirement(
    "KEP-536/relabelled-node-of-an-endpoint",
    "When a label of an endpoint's node is changed, removed or added, routing changes accordingly, even though the "
    "slice is not written.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source=f"{PROXY_CHANGES}; Service Topology Scalability (filtering Endpoints and Nodes in-memory)",
    kills={"ignores-updates-of-other-nodes"},
)
def test_node_of_an_endpoint_is_relabelled(three_zones: Cluster) -> None:
    begin(three_zones)
    gone, _ = create(three_zones, RACK, on="b2")
    three_zones.unpublish(gone)
    three_zones.delete_service(gone)
    service, pods = create(three_zones, RACK, on="a1 b2")
    steps: Sequence[tuple[str | None, str, str]] = (
        ("3", "a1", ""),
        ("1", "a1 b2", ""),
        ("2", "a1", "b2"),
        (None, "a1", ""),
        ("1", "a1 b2", ""),
    )
    for value, at_a1, at_a2 in steps:
        three_zones.nodes.label("b2", {RACK: value})
        expect_reached(three_zones, service, pods, {"a1": at_a1, "a2": at_a2})


@requirement(
    "KEP-536/other-labels-of-nodes-do-not-matter",
    "Changes to node labels that are not topology keys of a Service do not change which endpoints its clients reach.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS},
    source="KEP-536, Summary (the same value for a particular label)",
    kills={"topology-keys-match-any-label"},
)
def test_other_labels_of_nodes_do_not_matter(three_zones: Cluster) -> None:
    begin(three_zones)
    service, pods = create(three_zones, RACK, on=ALL)
    reached: Reached = {"a1": "a1", "a2": "a2 b1", "b2": "", "c1": ""}
    expect_reached(three_zones, service, pods, reached)

    for node in NODES:
        three_zones.nodes.label(node, {"example.com/other": "same", "other": RACKS["a1"], REGION: "everywhere"})
    expect_reached(three_zones, service, pods, reached)
