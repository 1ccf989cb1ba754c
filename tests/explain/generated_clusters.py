"""Clusters for `explain` from the generators of the suite's own scenarios, with proxies of drawn releases.

Each state of a generated lifecycle is a cluster: a Service with two ports, its slices, and the nodes with their zones.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from conformance.generated.lifecycles import NODES, OF, Lifecycle, Slice, State, of_family
from conformance.generated.runner import corpus as fixed_lifecycles
from conformance.generated.strategies import batch
from explain.objects import Objects
from harness.api.client import Object
from tests.explain.cluster_builders import (
    BETA,
    BY_ZONE,
    REQUIRED,
    SPREAD,
    ZONE,
    autoscaler,
    budget,
    cordoned,
    deployment,
    ingress,
    namespace,
    node,
    owned,
    pod,
    proxy,
    service,
    tainted,
)

WAYPOINT, TO_PODS = "istio.io/use-waypoint", "service.beta.kubernetes.io/aws-load-balancer-nlb-target-type"
_NUMBERS = {"": ("web", 80), OF[1]: ("api", 81)}
_RELEASES = ("v1.37.0", "v1.37.0", "v1.33.1", "v1.29.4", "v1.22.3")
_WRITERS = ("endpointslice-controller.k8s.io", "endpointslice-controller.k8s.io", "me.example.com", "")
_OWNERS = ("ReplicaSet/web-7f", "ReplicaSet/web-7f", "ReplicaSet/web-6f", "StatefulSet/web", "DaemonSet/web", "Job/web")
_ANNOTATIONS = ({}, {}, {}, {"service.kubernetes.io/topology-mode": "Auto"},
                {"service.kubernetes.io/topology-mode": "zone"})  # fmt: skip


def sends_to_pods(service: Object) -> bool:
    """Return whether the load balancer of a Service sends to pods, which the controller of its class decides."""
    return TO_PODS in service["metadata"]["annotations"] and "loadBalancerClass" in service["spec"]


def corpus(of_seed: int) -> Iterator[Objects]:
    """Yield the clusters of the fixed lifecycles that each run plays, with releases and writers of a seed."""
    yield from _clusters(fixed_lifecycles(), of_seed)


def fresh(of_seed: int) -> Iterator[Objects]:
    """Yield the clusters of new lifecycles. Equal seeds give equal clusters."""
    yield from _clusters(batch(("all", True), 0, of_seed=of_seed), of_seed)


def _clusters(lifecycles: Iterable[Lifecycle], of_seed: int) -> Iterator[Objects]:
    drawn, others, served = (random.Random(each) for each in (of_seed, -of_seed, f"proxies {of_seed}"))
    classes, workloads = (random.Random(f"{each} {of_seed}") for each in ("load balancers", "workloads"))
    for lifecycle in lifecycles:
        for state in lifecycle.states:
            if state.exists:
                found = _with_workloads(_with_further(_cluster(lifecycle, state, drawn), others), workloads)
                yield _with_choosers(_with_proxies(found, served), served, classes)


def _with_proxies(seen: Objects, drawn: random.Random) -> Objects:
    """Return most clusters with a proxy on each node or on none, and with some that are not ready."""
    there = {each["spec"]["nodeName"]: each for each in seen.proxies}
    named = [each["metadata"]["name"] for each in seen.nodes]
    share = drawn.choice((0, 1, 1, None))
    found = [there.get(each) or proxy(each) for each in named if each in there or share]
    ready = [
        each if drawn.random() < 0.9 else {**each, "status": {"phase": "Pending", "conditions": []}} for each in found
    ]
    return replace(seen, proxies=[] if share == 0 else ready)


def _with_workloads(seen: Objects, drawn: random.Random) -> Objects:
    """Return the clusters with workloads of several kinds, whose pods have rules for where they run, and owners."""
    if "deployments" not in seen.further:
        return seen
    pods, further = copy.deepcopy([*seen.pods]), copy.deepcopy(dict(seen.further))
    rules = drawn.choice(_RULES)
    has_claims = drawn.random() < 0.2
    for each in pods:
        each["spec"] |= copy.deepcopy(rules)
        owner = each["metadata"]["ownerReferences"][0]["kind"]
        claim = f"data-{each['metadata']['name']}" if owner == "StatefulSet" else "data"
        if owner in {"StatefulSet", "ReplicaSet"} and has_claims:
            each["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    found = further["deployments"][0]
    found["spec"] |= drawn.choice(({}, {}, {}, {"paused": True}))
    kind = drawn.choice(("OnDelete", "RollingUpdate"))
    metadata = {"name": "web", "namespace": "shop"}
    further["statefulsets"] = [{"metadata": metadata, "spec": {"replicas": 3, "updateStrategy": {"type": kind}}}]
    if drawn.random() < 0.2:
        by = [{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web", "uid": "2", "controller": True}]
        further["replicasets"] = [{"metadata": {"name": "web-7f", "namespace": "shop", "ownerReferences": by}}]
    if drawn.random() < 0.2:
        found["metadata"]["name"] = "other"
    for each in (found, *further.get("horizontalpodautoscalers", ())):
        each["metadata"] |= copy.deepcopy(drawn.choice(_MANAGED))
    services = [{**each, "metadata": {**each["metadata"], "labels": {**drawn.choice(_HELM)}}} for each in seen.services]
    return replace(seen, services=services, pods=pods, further=further)


_IN_ZONES = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]}
_RULES: tuple[Object, ...] = (
    {},
    {"nodeSelector": {ZONE: "a"}},
    {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [_IN_ZONES]}}}},
    {"affinity": {"podAntiAffinity": {REQUIRED: [BY_ZONE]}}},
    {"tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]},
    {"topologySpreadConstraints": [{**SPREAD[0], "maxSkew": 2}]},
    {"topologySpreadConstraints": [{**SPREAD[0], "labelSelector": {"matchLabels": {"app": "other"}}}]},
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]},
    {"topologySpreadConstraints": [{**BY_ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]},
)
_HELM: tuple[dict[str, str], ...] = ({}, {}, {}, {"app.kubernetes.io/managed-by": "Helm"})
_MANAGED: tuple[Object, ...] = (
    {},
    {},
    {"annotations": {"argocd.argoproj.io/tracking-id": "shop"}},
    {"ownerReferences": [{"apiVersion": "x/v1", "kind": "Shop", "name": "all", "uid": "3", "controller": True}]},
)


def _with_choosers(seen: Objects, drawn: random.Random, classes: random.Random) -> Objects:
    """Return some clusters with a waypoint, or with a load balancer that sends to pods, if it has a class."""
    service = seen.services[0]
    labels = {WAYPOINT: "gate"} if drawn.random() < 0.1 else {}
    to_pods = {TO_PODS: "ip"} if service["spec"]["type"] == "LoadBalancer" and drawn.random() < 0.3 else {}
    labels = {**service["metadata"].get("labels", {}), **labels}
    metadata = service["metadata"] | {"labels": labels, "annotations": service["metadata"]["annotations"] | to_pods}
    spec = service["spec"] | (
        {"loadBalancerClass": "service.k8s.aws/nlb"} if to_pods and classes.random() < 0.7 else {}
    )
    return replace(seen, services=[service | {"metadata": metadata, "spec": spec}])


def _with_further(seen: Objects, drawn: random.Random) -> Objects:
    """Return half of the clusters with objects that show choosers of endpoints, and what may empty a zone."""
    if drawn.random() < 0.5 or not seen.pods:
        return seen
    strategy = drawn.choice([{"type": "Recreate"}, {}, {"rollingUpdate": {"maxUnavailable": drawn.randint(1, 3)}}])
    further = {
        "namespaces": [namespace("shop", {"linkerd.io/inject": "enabled"}, **{"istio.io/dataplane-mode": "ambient"})],
        "ingresses": [ingress(drawn.choice(["nginx", "traefik", "kong", "other"]))],
        "deployments": [deployment(4, drawn.randint(0, 4), **strategy)],
        "horizontalpodautoscalers": [autoscaler(drawn.randint(1, 4), drawn.randint(4, 9))],
        "poddisruptionbudgets": [budget(drawn.randint(0, 3), maxUnavailable=1)],
    }
    kept = {name: each for name, each in further.items() if name == "deployments" or drawn.random() < 0.7}
    on = [_changed(each, drawn) for each in seen.nodes]
    spread = {"topologySpreadConstraints": SPREAD} if drawn.random() < 0.3 else {}
    pods = [
        owned(f"web-{place}", place, drawn.choice(_OWNERS), **spread) for place in drawn.choice((["a1"], ["a1", "b1"]))
    ]
    if drawn.random() < 0.3:  # a name that only the first pod has
        pods[0]["spec"]["containers"] = [
            {"name": "web", "image": "web", "ports": [{"name": "web", "containerPort": 80}]}
        ]
        seen = replace(seen, services=[_with_named_port(each) for each in seen.services])
    slices = [*seen.endpointslices, *_twice(seen.endpointslices, drawn)]
    return replace(seen, pods=pods, nodes=on, endpointslices=slices, further=kept)


def _changed(each: Object, drawn: random.Random) -> Object:
    """Return a node, cordoned, tainted, or with the zone label of old releases."""
    name, zone = each["metadata"]["name"], each["metadata"]["labels"].get(ZONE, "")
    kind = drawn.random()
    if kind < 0.3:
        return cordoned(name, zone)
    if kind < 0.4:
        return tainted(name, zone)
    if kind < 0.5:
        return {**node(name), "metadata": {"name": name, "labels": {BETA: zone} if zone else {}}}
    return each


def _twice(slices: Sequence[Object], drawn: random.Random) -> Iterator[Object]:
    """Yield a slice with an endpoint that another slice has, as while a controller moves it."""
    for each in copy.deepcopy(list(slices[:1])):
        if each["endpoints"] and drawn.random() < 0.3:
            bare = {key: value for key, value in each["endpoints"][0].items() if key != "hints" or drawn.random() < 0.5}
            yield {**each, "metadata": {**each["metadata"], "name": "web-twice"}, "endpoints": [bare]}


def _with_named_port(asked: Object) -> Object:
    first, *others = asked["spec"]["ports"]
    return {**asked, "spec": {**asked["spec"], "ports": [{**first, "targetPort": "web"}, *others]}}


def _cluster(lifecycle: Lifecycle, state: State, drawn: random.Random) -> Objects:
    families = [lifecycle.family, *([of_family(lifecycle)] if state.dual else [])]
    addresses = ["10.96.0.9" if each == "IPv4" else "fd00:96::9" for each in families]
    outside = state.type != "ClusterIP"
    more = {"externalTrafficPolicy": state.external} if outside else {}
    selected = drawn.choice([{"app": "web"}, None])
    asked = service(
        drawn.choice(_ANNOTATIONS),
        asks=state.distribution or "",
        type=state.type,
        clusterIP=addresses[0],
        clusterIPs=addresses,
        ipFamilies=families,
        ipFamilyPolicy="RequireDualStack" if state.dual else "SingleStack",
        internalTrafficPolicy=state.internal,
        ports=[
            {"name": name, "port": port, "protocol": lifecycle.protocol}
            | ({"nodePort": port + 30_000} if outside else {})
            for name, port in _NUMBERS.values()
        ],
        selector=selected,
        **more,
    )
    slices = [_slice(each, number, lifecycle, drawn) for number, each in enumerate(state.slices)]
    nodes = [node(each, state.zone_of(each), ready=drawn.random() < 0.9) for each in NODES]
    proxies = [proxy(each, drawn.choice(_RELEASES)) for each in NODES if drawn.random() < 0.5]
    pods = [pod("web-x", "a1")] if selected else []
    version = drawn.choice(("v1.37.0", "v1.37.0", "v1.32.0"))
    return Objects(version, [asked], slices, nodes, pods=pods, proxies=proxies)


def _slice(each: Slice, number: int, lifecycle: Lifecycle, drawn: random.Random) -> Object:
    family = of_family(lifecycle) if each.of == OF[2] else lifecycle.family
    name, _ = _NUMBERS.get(each.of, _NUMBERS[""])
    writer, knows_zones = drawn.choice(_WRITERS), drawn.random() < 0.9
    endpoints = []
    for member in each.members:
        hints = {"forZones": member.zones, "forNodes": member.nodes}
        address = f"10.244.0.{member.server + 1}" if family == "IPv4" else f"fd00::{member.server + 1}"
        made: Object = {
            "addresses": [address],
            "nodeName": member.node,
            "conditions": {key: value for key, value in member.written.conditions.items() if value is not None},
            "targetRef": {"kind": "Pod", "name": f"web-{member.server}", "namespace": "shop"},
        }
        if knows_zones:
            made["zone"] = member.node[0]
        named = {key: [{"name": one} for one in names] for key, names in hints.items() if names}
        endpoints.append(made | ({"hints": named} if named else {}))
    labels = {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": writer}
    return {
        "metadata": {"name": f"web-{number}", "namespace": "shop", "labels": labels},
        "addressType": family,
        "ports": [{"name": name, "port": each.number, "protocol": lifecycle.protocol}],
        "endpoints": endpoints,
    }
