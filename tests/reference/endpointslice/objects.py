"""Minimal valid objects. A test case states only the fields that matter for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reference.client import Object
from reference.endpointslice.endpoints import EndpointCache
from reference.endpointslice.plan import SlicePlan, plan_service
from reference.features import Features, parse_version
from reference.heuristics import Heuristic


def make_service(name: str = "web", **spec: Any) -> Object:
    labels, annotations = spec.pop("labels", {}), spec.pop("annotations", {})
    uid = spec.pop("uid", f"uid-of-{name}")
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "uid": uid, "labels": labels, "annotations": annotations},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.96.0.1",
            "ipFamilies": ["IPv4"],
            "selector": {"app": "web"},
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}],
            **spec,
        },
    }


def make_pod(
    name: str = "p1",
    node: str = "a1",
    *,
    ips: Iterable[str] = ("10.244.1.1",),
    ready: bool = True,
    terminating: bool = False,
    phase: str = "Running",
    labels: Mapping[str, str] | None = None,
    ports: Iterable[Object] = (),
    **spec: Any,
) -> Object:
    pod_ips = [{"ip": ip} for ip in ips]
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "labels": dict(labels or {"app": "web"}),
        },
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i", "ports": list(ports)}], **spec},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "podIPs": pod_ips,
        },
    }
    if pod_ips:
        pod["status"]["podIP"] = pod_ips[0]["ip"]
    if terminating:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return pod


def make_pods(count: int, node: str = "a1", **fields: Any) -> list[Object]:
    return _numbered([node] * count, **fields)


def pods_on(zones: str, **fields: Any) -> list[Object]:
    """Return one pod per letter, on the first node of the zone with that letter.

    `aab` is two pods in zone a and one in zone b.
    """
    return _numbered([f"{zone}1" for zone in zones], **fields)


def _numbered(nodes: Iterable[str], **fields: Any) -> list[Object]:
    return [
        make_pod(f"p{number:04}", node, ips=[f"10.244.{number // 250}.{number % 250 + 1}"], **fields)
        for number, node in enumerate(nodes)
    ]


def make_node(
    name: str, zone: str | None = None, *, cpu: str = "4", ready: bool = True, labels: Mapping[str, str] | None = None
) -> Object:
    """Return a node. Its default zone is the first letter of its name."""
    zone = name[0] if zone is None else zone
    metadata = {"name": name, "uid": f"uid-of-{name}", "labels": dict(labels or {})}
    if zone:
        metadata["labels"]["topology.kubernetes.io/zone"] = zone
    status: Object = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    if cpu:
        status["allocatable"] = {"cpu": cpu}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


NODES = {name: make_node(name) for name in ("a1", "a2", "b1", "b2", "c1")}


TOPOLOGY_MODE = "service.kubernetes.io/topology-mode"
AUTO = {TOPOLOGY_MODE: "Auto"}
"""The annotation that requests CPU-based hints."""

RELEASED = Features(follows="released")


def release(version: str, **gates: bool) -> Features:
    return Features(parse_version(version), gates)


def plan(
    service: Object,
    pods: Iterable[Object] = (),
    existing: Iterable[Object] = (),
    *,
    nodes: Mapping[str, Object] = NODES,
    features: Features | None = None,
    max_endpoints: int = 100,
    memo: EndpointCache | None = None,
    heuristics: Mapping[str, Heuristic] | None = None,
) -> SlicePlan:
    return plan_service(
        service,
        pods,
        nodes,
        existing,
        features=features or Features(),
        max_endpoints=max_endpoints,
        memo=memo,
        heuristics=heuristics,
    )


def apply(planned: SlicePlan, existing: Iterable[Object] = ()) -> list[Object]:
    """Return the slices that are stored after the plan. New slices get numbered names."""
    slices = {each["metadata"]["name"]: each for each in existing}
    for each in planned.create:
        metadata = each["metadata"]
        name = f"{metadata['generateName']}{len(slices):04}"
        while name in slices:
            name += "x"
        slices[name] = {**each, "metadata": {**metadata, "name": name, "uid": f"uid-of-{name}", "resourceVersion": "1"}}
    for each in planned.update:
        version = str(int(each["metadata"]["resourceVersion"]) + 1)
        name = each["metadata"]["name"]
        assert name in slices
        slices[name] = {**each, "metadata": {**each["metadata"], "resourceVersion": version}}
    for each in planned.delete:
        del slices[each["metadata"]["name"]]
    return list(slices.values())


def slices_for(
    service: Object, pods: Iterable[Object] = (), existing: Sequence[Object] = (), **options: Any
) -> list[Object]:
    """Return the slices of a Service after a sync that starts with the `existing` slices."""
    return apply(plan(service, pods, existing, **options), existing)


def endpoints(slices: Iterable[Object]) -> list[Object]:
    return [endpoint for each in slices for endpoint in each["endpoints"]]


def hinted(slices: Iterable[Object]) -> str:
    """Return the hinted zone of each endpoint, in the order of the pods. `-` means no hint."""
    ordered = sorted(endpoints(slices), key=lambda each: str(each["targetRef"]["name"]))
    return "".join(each["hints"]["forZones"][0]["name"] if "hints" in each else "-" for each in ordered)


def addresses(slices: Iterable[Object]) -> list[str]:
    return sorted(address for endpoint in endpoints(slices) for address in endpoint["addresses"])
