"""Builders of a small cluster.

The cluster has nodes a1 a2 b1 b2 c1, and a Service with trafficDistribution that has an endpoint in each zone.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from explain.objects import Objects
from harness.api.client import Object

ZONE = "topology.kubernetes.io/zone"
BETA = "failure-domain.beta.kubernetes.io/zone"
MODE = "service.kubernetes.io/topology-mode"
OLD_KEY = "service.kubernetes.io/topology-aware-hints"
AUTO = {MODE: "Auto"}
ZONES = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c"}


def node(
    name: str,
    zone: str = "",
    *,
    cpu: str = "4",
    ready: bool = True,
    labels: Sequence[str] = (),
    version: str = "v1.37.0",
) -> Object:
    return {
        "metadata": {"name": name, "labels": ({ZONE: zone} if zone else {}) | dict.fromkeys(labels, "")},
        "status": {
            "allocatable": {"cpu": cpu} if cpu else {},
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "nodeInfo": {"kubeletVersion": version},
        },
    }


def nodes(**changed: Object | None) -> list[Object]:
    """Return the five nodes. A keyword replaces or adds a node, or removes it if the value is None."""
    found = {name: node(name, zone) for name, zone in ZONES.items()} | changed
    return [each for each in found.values() if each is not None]


def service(
    annotations: Mapping[str, str] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    asks: str = "PreferSameZone",
    **spec: Any,
) -> Object:
    metadata = {
        "name": "web",
        "namespace": "shop",
        "annotations": dict(annotations or {}),
        "labels": dict(labels or {}),
    }
    whole = {
        "type": "ClusterIP",
        "clusterIP": "10.96.0.9",
        "clusterIPs": ["10.96.0.9"],
        "ipFamilies": ["IPv4"],
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}],
        "selector": {"app": "web"},
        **({"trafficDistribution": asks} if asks else {}),
        **spec,
    }
    return {"metadata": metadata, "spec": whole}


def by_annotation(**more: Any) -> Object:
    return service(AUTO, asks="", **more)


def endpoint(
    place: str,
    *,
    number: int = 0,
    zone: str | None = None,
    hints: str | None = None,
    nodes: Sequence[str] = (),
    **conditions: bool,
) -> Object:
    """Return a ready endpoint on a node, with a hint for its zone.

    `hints` are the letters of other zones; "" means no hint.
    """
    mine = ZONES.get(place, "") if zone is None else zone
    hinted = [{"name": each} for each in (mine if hints is None else hints)]
    found: Object = {
        "addresses": [f"10.244.{ord(place[0])}.{number or 100 + int(place[1:])}"],
        "conditions": {"ready": True, **conditions},
        "nodeName": place,
        "targetRef": {"kind": "Pod", "name": f"web-{place}{number or ''}", "namespace": "shop"},
    }
    if mine:
        found["zone"] = mine
    named = {"forZones": hinted, "forNodes": [{"name": each} for each in nodes]}
    if hints := {kind: each for kind, each in named.items() if each}:
        found["hints"] = hints
    return found


def of_slice(
    *endpoints: Object,
    name: str = "web-1",
    manager: str = "endpointslice-controller.k8s.io",
    family: str = "IPv4",
    service: str = "web",
) -> Object:
    labels = {"kubernetes.io/service-name": service} | (
        {"endpointslice.kubernetes.io/managed-by": manager} if manager else {}
    )
    return {
        "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "addressType": family,
        "ports": [{"port": 8080, "protocol": "TCP", "name": ""}],
        "endpoints": copy.deepcopy(list(endpoints)),
    }


EACH_ZONE = (endpoint("a1"), endpoint("b1"), endpoint("c1"))


def unhinted(*places: str) -> list[Object]:
    return [endpoint(place, number=number, hints="") for number, place in enumerate(places, 1)]


def pod(name: str, place: str, **labels: str) -> Object:
    labels = labels or {"app": "web"}
    return {
        "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "spec": {"nodeName": place, "containers": []},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def owned(name: str, place: str, by: str = "ReplicaSet/web-7f", **spec: Any) -> Object:
    """Return a pod of deployment web, or of another workload."""
    kind, _, owner = by.partition("/")
    made = pod(name, place, app="web", **({"pod-template-hash": "7f"} if kind == "ReplicaSet" else {}))
    made["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "1"}]
    made["spec"] |= copy.deepcopy(spec)
    return made


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
BY_ZONE: Object = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
SPREAD = [{
    **BY_ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["pod-template-hash"],
}]  # fmt: skip


def tainted(name: str, zone: str, key: str = "node-role.kubernetes.io/control-plane") -> Object:
    return {**node(name, zone, labels=[key]), "spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}


def namespace(name: str = "shop", annotations: Mapping[str, str] | None = None, **labels: str) -> Object:
    return {"metadata": {"name": name, "annotations": dict(annotations or {}), "labels": labels}}


def ingress(kind: str, annotations: Mapping[str, str] | None = None, *, to: str = "web") -> Object:
    """Return an Ingress of this class with one path to a Service."""
    backend = {"service": {"name": to, "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    metadata = {"name": "front", "namespace": "shop", "annotations": dict(annotations or {})}
    return {"metadata": metadata, "spec": {"ingressClassName": kind, "rules": [{"http": {"paths": paths}}]}}


def deployment(replicas: int, updated: int, **strategy: Any) -> Object:
    """Return Deployment web, of whose pods so many are of the newest template."""
    return {
        "metadata": {"name": "web", "namespace": "shop", "generation": 2},
        "spec": {"replicas": replicas, "strategy": strategy},
        "status": {"observedGeneration": 2, "replicas": replicas, "updatedReplicas": updated},
    }


def manifest(of: Object) -> Object:
    """Return a Deployment or a PodDisruptionBudget as people write it: it has no status."""
    template = {"metadata": {"labels": {"app": "web"}}}
    more = {"template": template} if "replicas" in of["spec"] else {}
    return {"metadata": {"name": "web", "namespace": "shop"}, "spec": {**of["spec"], **more}}


def autoscaler(least: int, most: int) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most}
    return {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}


def budget(allowed: int, **bound: Any) -> Object:
    spec = {"selector": {"matchLabels": {"app": "web"}}, **bound}
    metadata = {"name": "web", "namespace": "shop"}
    return {"metadata": metadata, "spec": spec, "status": {"disruptionsAllowed": allowed}}


def cordoned(name: str, zone: str) -> Object:
    return {**node(name, zone), "spec": {"unschedulable": True}}


def labelled(name: str, zone: str, manager: str = "kubectl-label", **more: Any) -> Object:
    """Return a node whose zone label was set at 10:00."""
    fields = {"f:metadata": {"f:labels": {"f:topology.kubernetes.io/zone": {}}}}
    made = node(name, zone, **more)
    made["metadata"]["managedFields"] = [{"manager": manager, "time": "2026-11-22T10:00:00Z", "fieldsV1": fields}]
    return made


def lease(*, renewed: str = "2026-11-22T09:59:50.000000Z", holder: str = "cp-1") -> Object:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
    return {"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"}, "spec": spec}


def proxy(place: str, version: str = "v1.37.0", *, ready: bool = True, started: str = "") -> Object:
    return {
        "metadata": {"name": f"kube-proxy-{place}", "namespace": "kube-system", "labels": {"k8s-app": "kube-proxy"}},
        "spec": {
            "nodeName": place,
            "containers": [{"name": "kube-proxy", "image": f"registry.k8s.io/kube-proxy:{version}"}],
        },
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]}
        | ({"startTime": started} if started else {}),
    }


def agent(place: str, name: str, image: str, **labels: str) -> Object:
    """Return a pod in kube-system that serves Services on a node instead of kube-proxy."""
    made = proxy(place)
    made["metadata"] |= {
        "name": f"{name}-{place}",
        "labels": {key.replace("_", "-"): each for key, each in labels.items()},
    }
    made["spec"]["containers"] = [{"name": name, "image": image}]
    return made


def event(reason: str, message: str, at: str = "2026-11-22T10:00:00Z") -> Object:
    about = {"kind": "Service", "namespace": "shop", "name": "web"}
    return {
        "metadata": {"name": "e", "namespace": "shop"},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }


def objects(
    asked: Object | None = None,
    *slices: Object,
    on: Sequence[Object] | None = None,
    version: str = "v1.37.0",
    **more: Any,
) -> Objects:
    """Return a cluster with one Service. By default its slices have an endpoint in each zone."""
    return Objects(
        version, [asked or service()], slices or [of_slice(*EACH_ZONE)], nodes() if on is None else on, **more
    )
