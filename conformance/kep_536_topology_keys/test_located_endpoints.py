"""KEP-536, Kube-proxy changes (beta): the proxy finds the location of an endpoint in the PodLocator of its pod.

The scenarios stop the PodLocator controller, and write PodLocators that contradict the Nodes. Packets then show which
of them a proxy believes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from conformance.features import CLUSTER_IP, LOCATED_ENDPOINTS, TOPOLOGY_KEYS
from conformance.kep_536_topology_keys.topology import GATE, RACK, begin, expect_reached
from trafficdist import (
    API_SERVER,
    LOCATOR_CONTROLLER,
    MUST,
    PROXY,
    SHOULD,
    Cluster,
    Pod,
    Release,
    Service,
    endpoint,
    reads_after_restart,
    requirement,
)

LOCATORS = "PodLocator"
"""The gate with which the reference reads PodLocators. KEP-536 names no gate."""
SOURCE = "KEP-536, Kube-proxy changes (for the beta release)"
ELSEWHERE = {"a1": "b2", "a2": "a1", "b1": "a2"}
"""Maps the node of each pod to the node in its PodLocator. Only for b1 are both nodes in the same rack."""
UNPLACED = {"node": None, "zone": None}


def _with_locators(cluster: Cluster) -> Release:
    return replace(cluster.release, gates={**cluster.release.gates, GATE: True, LOCATORS: True})


def _begin(cluster: Cluster, **fields: Any) -> tuple[Service, dict[str, Pod]]:
    """Create a Service with the key `RACK` and pods on a1, a2 and b1. `fields` are fields of all endpoints."""
    begin(cluster, API_SERVER)
    cluster.restart(PROXY, _with_locators(cluster))
    cluster.stop(LOCATOR_CONTROLLER)
    service = cluster.create_service(topologyKeys=[RACK])
    pods = {pod.node: pod for pod in cluster.run_servers(list(ELSEWHERE))}
    cluster.publish(service, [endpoint(pod, extra=_reference(cluster, pod), **fields) for pod in pods.values()])
    return service, pods


def _reference(cluster: Cluster, pod: Pod) -> dict[str, Any]:
    return {"targetRef": {"kind": "Pod", "namespace": cluster.namespace, "name": pod.name}}


def _locate(cluster: Cluster, pods: Mapping[str, Pod], places: Mapping[str, str]) -> None:
    """Create or replace the PodLocators of the pods on these nodes, as if the pods were on other nodes."""
    for node, other in places.items():
        pod = pods[node]
        metadata = {"name": pod.name, "namespace": cluster.namespace}
        labels = cluster.api.get("nodes", "", other)["metadata"]["labels"]  # a draw may have changed the values
        ips = [{"ip": each} for each in pod.addresses.values()]
        locator = {"metadata": metadata, "ips": ips, "nodeName": other, "nodeLabels": labels}
        _remove_locator(cluster, pod)
        cluster.api.create("podlocators", cluster.namespace, locator)


def _remove_locator(cluster: Cluster, pod: Pod) -> None:
    cluster.api.delete("podlocators", cluster.namespace, pod.name)


@requirement(
    "KEP-536/proxy-believes-locators-before-nodes",
    "The node labels of an endpoint are those in the PodLocator of the pod that its targetRef names, even if the Node "
    "in its nodeName has other labels.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS, LOCATED_ENDPOINTS},
    source=f"{SOURCE}; will get PodLocator object and its topology information",
    kills={"believes-nodes-before-locators"},
)
def test_proxy_believes_locators_before_nodes(three_zones: Cluster) -> None:
    service, pods = _begin(three_zones)
    _locate(three_zones, pods, ELSEWHERE)
    expect_reached(three_zones, service, pods, {"a1": "a2", "a2": "b1", "b1": "b1", "b2": "a1", "c1": ""})


@requirement(
    "KEP-536/located-endpoint-needs-no-node-name",
    "An endpoint that has a targetRef and no nodeName is located by the PodLocator of its pod.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS, LOCATED_ENDPOINTS},
    source=f"{SOURCE}; find the original Pod via EndpointAddress.TargetRef",
    kills={"locators-need-a-node-name"},
)
def test_located_endpoint_needs_no_node_name(three_zones: Cluster) -> None:
    service, pods = _begin(three_zones, **UNPLACED)
    _locate(three_zones, pods, {node: node for node in pods})
    expect_reached(three_zones, service, pods, {"a1": "a1", "a2": "a2 b1", "b1": "a2 b1", "b2": "", "c1": ""})


@requirement(
    "KEP-536/proxy-follows-locators-that-change",
    "When a PodLocator is created, changed or deleted, routing changes accordingly, even though the slice is not "
    "written.",
    level=MUST,
    features={CLUSTER_IP, TOPOLOGY_KEYS, LOCATED_ENDPOINTS},
    source=f"{SOURCE}; kube-proxy will watch the PodLocator",
    kills={"locators-are-read-once"},
)
def test_proxy_follows_locators_that_change(three_zones: Cluster) -> None:
    service, pods = _begin(three_zones)
    _locate(three_zones, pods, ELSEWHERE)
    expect_reached(three_zones, service, pods, {"a1": "a2", "b2": "a1"})
    _locate(three_zones, pods, {"b1": "b2"})
    expect_reached(three_zones, service, pods, {"a1": "a2", "a2": "", "b2": "a1 b1"})
    _locate(three_zones, pods, {"a1": "a1", "b1": "a2"})
    expect_reached(three_zones, service, pods, {"a1": "a1 a2", "a2": "b1", "b2": ""})
    _locate(three_zones, pods, {"a1": "b2"})
    expect_reached(three_zones, service, pods, {"a1": "a2", "b2": "a1"})
    _remove_locator(three_zones, pods["a1"])  # the KEP does not say whether the Node counts now, which is in rack 1
    expect_reached(three_zones, service, pods, {"a2": "b1", "b2": ""})


@requirement(
    "KEP-536/proxy-with-locators-watches-few-objects",
    "A proxy that reads PodLocators watches them, and lists and watches neither all Nodes nor Pods.",
    level=SHOULD,
    features={CLUSTER_IP, TOPOLOGY_KEYS, LOCATED_ENDPOINTS},
    source="KEP-536, Service Topology Scalability (the beta release will address scalability concerns by introducing a "
    "PodLocator resource); New PodLocator resource (without needing to watch all Pods or all Nodes)",
    kills={"watches-all-nodes", "watches-pods-beside-locators"},
)
def test_proxy_with_locators_watches_few_objects(three_zones: Cluster) -> None:
    reads = {*reads_after_restart(three_zones, PROXY, _with_locators(three_zones))}
    many = {f"{verb} {resource}" for verb in ("list", "watch") for resource in ("nodes", "pods")}
    three_zones.expect_equal(
        f"the {PROXY}: reads of PodLocators, and of all Nodes and Pods, after a restart",
        expected=["watch podlocators"],
        observed=sorted(reads & {*many, "watch podlocators"}),
    )
